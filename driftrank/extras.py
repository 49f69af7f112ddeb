"""Optional packages: if one is missing, the error names the extra to install."""

from __future__ import annotations

import importlib.util
import sys


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed."""


def need(extra: str, *packages: str) -> None:
    """Raise :class:`MissingExtra` unless these packages of an extra are installed. Imports nothing.

    >>> need("logs", "no_such_package")
    Traceback (most recent call last):
    ...
    driftrank.extras.MissingExtra: needs no-such-package: pip install 'driftrank[logs]'
    """
    for package in packages:
        if sys.modules.get(package) is None and importlib.util.find_spec(package) is None:
            name = {"duckdb": "DuckDB"}.get(package, package.replace("_", "-"))
            raise MissingExtra(f"needs {name}: pip install 'driftrank[{extra}]'", name=package)
