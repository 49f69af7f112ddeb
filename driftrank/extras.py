"""Optional packages: if one is missing, the error names the extra to install."""

from __future__ import annotations

import importlib.util
import sys

#: packages of the extras that several places need as a whole
CLIENT = ("httpx", "msgspec")
LOGS = ("duckdb", "pyarrow", "sqlglot")


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed."""


def need(extra: str, *packages: str, **others: tuple[str, ...]) -> None:
    """Raise :class:`MissingExtra` unless these packages of an extra, and of others, are installed. Imports nothing.

    The error names all extras that lack a package, each with the first one missing.

    >>> need("logs", "no_such_package")
    Traceback (most recent call last):
    ...
    driftrank.extras.MissingExtra: needs no-such-package: pip install 'driftrank[logs]'
    >>> need("logs", "numba", "no_such_package", plots=("nor_this",))
    Traceback (most recent call last):
    ...
    driftrank.extras.MissingExtra: needs no-such-package and nor-this: pip install 'driftrank[logs,plots]'
    """
    first = {name: next(filter(_is_missing, wanted), None) for name, wanted in ({extra: packages} | others).items()}
    missing = {name: package for name, package in first.items() if package}
    if missing:
        names = " and ".join({"duckdb": "DuckDB"}.get(p, p.replace("_", "-")) for p in missing.values())
        message = f"needs {names}: pip install 'driftrank[{','.join(missing)}]'"
        raise MissingExtra(message, name=next(iter(missing.values())))


def _is_missing(package: str) -> bool:
    return sys.modules.get(package) is None and importlib.util.find_spec(package) is None
