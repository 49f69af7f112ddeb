"""Click logs: one schema, readers for what logs look like elsewhere, and what can be learnt from them.

>>> from driftrank.logs import open_log
>>> open_log("nowhere.parquet")
Traceback (most recent call last):
...
ValueError: nowhere.parquet: no such file
"""

from __future__ import annotations

from driftrank.logs.log import Log as Log
from driftrank.logs.log import open_log as open_log

__all__ = ["Log", "open_log"]
