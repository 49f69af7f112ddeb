"""driftrank environments: what there is to simulate policies in."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._complete import environment_names


def environments(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show all about this one.", autocompletion=environment_names)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """The environments; or all about one of them, with its parameters. Queries, k and the click model are
    options of their own.

    \b
    driftrank environments
    driftrank environments Abrupt
    driftrank simulate --env Abrupt:period=5000,boost=0.5
    """
    from driftrank.cli._catalogue import show
    from driftrank.environments.registry import environments as known

    show("environment", known(), "kind", name, json, hidden=("queries", "k", "click_model"))
