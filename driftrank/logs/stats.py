"""A summary of a log and of its most frequent queries."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from driftrank.logs.log import Log, open_log
from driftrank.validation import check_integer


class QuerySummary(NamedTuple):
    """Counts of one query."""

    query: str | int
    lists: int
    items: int  #: different items that were shown
    clicks: int
    clicked: int  #: lists with a click

    @property
    def click_rate(self) -> float:
        """The share of lists with a click."""
        return self.clicked / self.lists


@dataclass(frozen=True)
class LogSummary:
    """The most frequent queries of a log, and the log as a whole."""

    source: str
    lists: int
    clicks: int
    clicked: int
    queries: int
    first: Any
    last: Any
    top: list[QuerySummary]

    def to_dict(self) -> dict[str, Any]:
        def plain(time: Any) -> Any:
            return time if time is None or isinstance(time, (int, float)) else str(time)

        return {
            "source": self.source, "lists": self.lists, "queries": self.queries, "clicks": self.clicks,
            "click_rate": self.clicked / self.lists if self.lists else None,
            "first": plain(self.first), "last": plain(self.last),
            "top": [q._asdict() | {"click_rate": q.click_rate} for q in self.top],
        }  # fmt: skip


def summarise(
    source: Log | str | os.PathLike[str], columns: Mapping[str, str] | None = None, *, top: int = 10
) -> LogSummary:
    """Summarise a log and its ``top`` most frequent queries.

    Examples
    --------
    >>> import duckdb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> rows = "('shoes', 1, [3, 1], [2]), ('shoes', 2, [3, 5], []), ('hats', 3, [4], [1, 1])"
    >>> _ = duckdb.sql(f"COPY (FROM (VALUES {rows}) t(query, time, ranking, clicks)) TO '{path}'")
    >>> found = summarise(path, top=1)
    >>> found.queries, found.top
    (2, [QuerySummary(query='shoes', lists=2, items=3, clicks=1, clicked=1)])
    """
    check_integer("top", top, 1)
    log = source if isinstance(source, Log) else open_log(source, columns)
    with log.connect() as connection:
        whole = connection.execute(
            "SELECT count(*), coalesce(sum(len(clicks)), 0)::BIGINT, count_if(len(clicks) > 0), count(DISTINCT query),"
            f" min(time), max(time) FROM {log.relation}"
        ).fetchone()
        assert whole is not None
        connection.execute(
            "CREATE TEMP TABLE frequent AS SELECT query, count(*) AS lists, coalesce(sum(len(clicks)), 0)::BIGINT AS"
            f" clicks, count_if(len(clicks) > 0) AS clicked FROM {log.relation}"
            f" GROUP BY query ORDER BY lists DESC, query LIMIT {top}"
        )
        rows = connection.execute(
            "WITH shown AS (SELECT query, count(DISTINCT item) AS items FROM (SELECT query, unnest(ranking) AS item"
            f" FROM {log.relation} WHERE query IN (SELECT query FROM frequent)) GROUP BY query)"
            " SELECT query, lists, coalesce(items, 0), clicks, clicked FROM frequent LEFT JOIN shown USING (query)"
            " ORDER BY lists DESC, query"
        ).fetchall()
    lists, clicks, clicked, queries, first, last = whole
    return LogSummary(log.source, lists, clicks, clicked, queries, first, last, [QuerySummary(*row) for row in rows])
