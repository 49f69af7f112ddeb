"""What readers are told. A reader is a module with ``FORMATS`` and ``read``.

``FORMATS`` has, by the name of each format, a function that says from a file's first bytes how sure it is that this is
its format: 0 no, 1 it may be, 2 it is. ``read(stream, format, report, options, tick)`` gives the lists as Arrow tables
with the columns of the schema and ``line``, the same in all of them, and tells the report what it could not use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: hears of bytes (on disk) and lines that are done
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class Options:
    """What a reader is told besides the file; see :func:`driftrank.logs.conversion.convert`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    clicks: str = "positions"
    group: bool = False
    query: str | None = None
