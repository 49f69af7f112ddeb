"""Warm start of a ranking service from a click log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from driftrank.kernels.rng import key_of
from driftrank.wire import Counted, WarmRow

if TYPE_CHECKING:
    from driftrank.client import Client
    from driftrank.logs.log import Log

_FETCHED = 10_000


def warmstart(client: Client, log: Log) -> Counted:
    """Let a ranker learn from the lists of a log, oldest first. The same log sent again counts once."""
    name = f"{key_of(f'{log.source} {log.count()} {log.span()}'):016x}"
    return client.warmstart(rows(log), name=name)


def rows(log: Log) -> Iterator[WarmRow]:
    """The lists of a log in the order of time. Lists without timestamps count as shown now."""
    time = "epoch(time)" if log.types["time"] == "TIMESTAMP" else "NULL"
    with log.connect() as connection:
        found = connection.execute(
            f"SELECT CAST(query AS VARCHAR), ranking, clicks, {time} FROM {log.numbered} ORDER BY time, file, row"
        )
        while fetched := found.fetchmany(_FETCHED):
            for query, ranking, clicks, seconds in fetched:
                yield WarmRow(query, ranking, sorted(set(clicks)), seconds)
