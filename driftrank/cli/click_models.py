"""driftrank click-models: the known click models."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import click_model_names


def click_models(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Describe this one in full.", autocompletion=click_model_names),
    ] = None,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """List the click models, or describe one of them.

    The column objectives has the values of a list that can be maximised.

    \b
    driftrank click-models
    driftrank click-models DBN
    driftrank simulate --click-model DBN:continuation=0.8,objective=clicks
    """
    from driftrank.cli._catalogue import show
    from driftrank.clickmodels.registry import click_models as known

    show("click-models", "click model", {"": known()}, "objectives", name, json)
