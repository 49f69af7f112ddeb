"""driftrank policies: what there is to simulate."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._complete import policy_names


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show all about this one.", autocompletion=policy_names)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """The policies, and the kinds of environment in which they promise to beat chance; or all about one of them:
    formula, parameters, guarantee, size of the state.

    \b
    driftrank policies
    driftrank policies CascadeSWUCB
    driftrank simulate --policy CascadeSWUCB:window=500,epsilon=0.6
    """
    from driftrank.cli._catalogue import show
    from driftrank.policies.registry import policies as known

    show("policy", known(), "claims", name, json)
