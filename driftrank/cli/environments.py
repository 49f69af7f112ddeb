"""driftrank environments: the known environments."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import environment_names


def environments(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Describe this one in full.", autocompletion=environment_names),
    ] = None,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """List the environments, or describe one of them.

    Queries, k and the click model are not parameters of an environment: they have options of their own.

    \b
    driftrank environments
    driftrank environments Abrupt
    driftrank simulate --env Abrupt:period=5000,boost=0.5
    """
    from driftrank.cli._catalogue import show
    from driftrank.environments.registry import environments as known

    hidden = ("queries", "k", "click_model")
    show("environments", "environment", {"": known()}, "kind", name, json, hidden)
