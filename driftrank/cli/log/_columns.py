"""Parsing of ``--columns query=q,time=ts``."""

from __future__ import annotations


def columns_of(text: str | None) -> dict[str, str]:
    """The mapping of an option ``--columns``.

    >>> columns_of("query=q,time=ts")
    {'query': 'q', 'time': 'ts'}
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, sign, column = part.partition("=")
        if not sign or not name.strip() or not column.strip():
            raise ValueError(f"columns={text!r}: must be pairs like query=q,time=ts, not {part!r}")
        if name.strip() in found:
            raise ValueError(f"columns={text!r}: {name.strip()} is named twice")
        found[name.strip()] = column.strip()
    return found
