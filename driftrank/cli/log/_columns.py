"""``--columns query=q,time=ts``: what columns are called."""

from __future__ import annotations


def columns_of(text: str | None) -> dict[str, str]:
    """The mapping that an option says.

    >>> columns_of("query=q,time=ts")
    {'query': 'q', 'time': 'ts'}
    """
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, sign, theirs = part.partition("=")
        if not sign or not name.strip() or not theirs.strip():
            raise ValueError(f"columns={text!r}: must be pairs like query=q,time=ts, not {part!r}")
        if name.strip() in found:
            raise ValueError(f"columns={text!r}: {name.strip()} is named twice")
        found[name.strip()] = theirs.strip()
    return found
