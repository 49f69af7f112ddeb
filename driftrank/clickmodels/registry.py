"""The registry of click models, found by reflection."""

from __future__ import annotations

from typing import Any

from driftrank.clickmodels.base import ClickModel
from driftrank.reflection import Registry

registry: Registry[ClickModel] = Registry("click model", ClickModel, "driftrank.clickmodels")


def click_models() -> dict[str, type[ClickModel]]:
    """Every known click model, by name."""
    return registry.all()


def click_model(name: str) -> type[ClickModel]:
    """The click model of that name; case does not matter, ``sDBN`` is ``SDBN``.

    >>> click_model("sDBN").__name__
    'SDBN'
    """
    known = click_models()
    return known.get(name.upper()) or registry.get(name)


def parse_click_model(spec: str, **given: Any) -> ClickModel:
    """Parse ``NAME`` or ``NAME:key=value,...``; ``given`` are parameters that text cannot express.

    >>> parse_click_model("DBN:continuation=0.8,objective=clicks").objective
    'clicks'
    """
    name, colon, text = spec.strip().partition(":")
    return registry.parse(click_model(name.strip()).__name__ + colon + text, **given)


def as_click_model(given: ClickModel | type[ClickModel] | str) -> ClickModel:
    """The click model that an object, a class or a spec stands for.

    >>> as_click_model("dbn:continuation=0.8").continuation
    0.8
    """
    if isinstance(given, str):
        return parse_click_model(given)
    return registry.read("click_model", given, "DBN:continuation=0.8")
