"""The HTTP routes of the service: a file for each group of them, with a function ``router(service)``."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules() -> list[ModuleType]:
    """The files that have routes."""
    found = [importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)]
    return [module for module in found if hasattr(module, "router")]
