"""The interface of readers. A reader is a module with ``FORMATS`` and ``read``.

``FORMATS`` maps the name of each format to a function of a file's first bytes: 0 if it is not this format, 1 if it may
be, 2 if it is. ``read(stream, format, report, options, tick)`` yields the lists as Arrow tables with the columns of the
schema and ``line``, the same in all tables, and adds the lines that it cannot use to the report. If the kind of its
propensities is known, a reader defines it as ``PROPENSITIES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: called with the numbers of bytes (on disk) and lines that were read
Tick = Callable[[int, int], None]


@dataclass(frozen=True)
class ReadOptions:
    """Options of a reader; see :func:`driftrank.logs.conversion.convert.convert`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    clicks: str = "positions"
    group: bool = False
    query: str | None = None
    propensities: str | None = None
