"""driftrank click-models: how users can click."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._complete import click_model_names


def click_models(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show all about this one.", autocompletion=click_model_names)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """The click models, and what a list can be worth in each; or all about one of them, with its parameters.

    \b
    driftrank click-models
    driftrank click-models DBN
    driftrank simulate --click-model DBN:continuation=0.8,objective=clicks
    """
    from driftrank.cli._catalogue import show
    from driftrank.clickmodels.registry import click_models as known

    show("click model", known(), "objectives", name, json)
