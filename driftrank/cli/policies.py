"""driftrank policies: the known policies."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names


def policies(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Describe this one in full.", autocompletion=policy_names)
    ] = None,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """List the policies, or describe one of them.

    The list is in groups; the column claims has the kinds of environment in which a policy promises to beat random
    lists. The description of one has its formula, parameters, guarantee and size of the state.

    \b
    driftrank policies
    driftrank policies CascadeSWUCB
    driftrank simulate --policy CascadeSWUCB:window=500,epsilon=0.6
    """
    from driftrank.cli._catalogue import show
    from driftrank.policies.registry import policy_groups

    show("policies", "policy", policy_groups(), "claims", name, json)
