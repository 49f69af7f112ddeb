"""Click logs: one schema, readers of other formats, counting, checks, changes, and generated logs.

>>> from driftrank.logs import open_log
>>> open_log("nowhere.parquet")
Traceback (most recent call last):
...
ValueError: nowhere.parquet: no such file
"""

from __future__ import annotations

from driftrank.extras import LOGS, need
from driftrank.logs.changes import drift as drift
from driftrank.logs.checking import check as check
from driftrank.logs.conversion.convert import convert as convert
from driftrank.logs.count.load_statistics import load_statistics as load_statistics
from driftrank.logs.count.statistics import aggregate as aggregate
from driftrank.logs.count.statistics import merge as merge
from driftrank.logs.generation import generate as generate
from driftrank.logs.log import Log as Log
from driftrank.logs.log import open_log as open_log
from driftrank.logs.over_time import attraction_over_time as attraction_over_time
from driftrank.logs.replay import environment as environment
from driftrank.logs.stream import query_stream as query_stream

__all__ = [
    "Log",
    "aggregate",
    "attraction_over_time",
    "check",
    "convert",
    "drift",
    "environment",
    "generate",
    "load_statistics",
    "merge",
    "open_log",
    "query_stream",
]

need("logs", *LOGS)
