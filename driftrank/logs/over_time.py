"""Attraction over time: a click model fitted to successive windows of a log."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import ClickModel
from driftrank.logs.query_lists import frequent_queries
from driftrank.validation import check_integer

if TYPE_CHECKING:
    from driftrank.clickmodels.fitting.fit import Fit
    from driftrank.logs.log import Log


@dataclass(frozen=True, eq=False)
class AttractionOverTime:
    """The attraction of a query's items in successive windows of time; NaN if an item was not shown."""

    query: Any
    items: tuple[Any, ...]
    edges: tuple[Any, ...]  #: times: window n is edges[n] <= time < edges[n+1]
    attraction: NDArray[np.float64]  #: (windows, items)
    low: NDArray[np.float64]  #: lower end of the confidence interval
    high: NDArray[np.float64]
    views: NDArray[np.int64]  #: lists with the item


def attraction_over_time(
    log: Log,
    model: type[ClickModel],
    *,
    queries: Iterable[Any] | None = None,
    top: int = 6,
    items: int = 10,
    windows: int = 20,
    **options: Any,
) -> list[AttractionOverTime]:
    """Fit a click model in windows of equal time.

    Parameters
    ----------
    queries, top
        The queries; or how many, the most frequent.
    items
        Number of items per query, the most often shown.
    windows
        Number of windows.
    options
        Of :meth:`~driftrank.clickmodels.ClickModel.fit`.
    """
    check_integer("windows", windows, 1)
    check_integer("items", items, 1)
    check_integer("top", top, 1)
    chosen = list(queries) if queries is not None else frequent_queries(log, top)
    edges = window_edges(log, windows)
    fits: list[Fit | None] = []
    for n, (start, end) in enumerate(itertools.pairwise(edges)):
        part = log.between(start, end if n < windows - 1 else None)  # the last window includes the last time
        counts = part.counts(model.counts_for(bool(options.get("exact"))), queries=chosen)
        fits.append(model.fit(counts, **options) if len(counts) else None)
    return [_query(query, fits, edges, items) for query in chosen]


def window_edges(log: Log, windows: int) -> tuple[Any, ...]:
    """Times that cut a log into windows of equal length."""
    first, last = log.span()
    if first is None:
        raise ValueError(f"{log.source}: is empty")
    if isinstance(first, datetime):
        return tuple(first + (last - first) * n / windows for n in range(windows + 1))
    return tuple(float(first + (last - first) * n / windows) for n in range(windows + 1))


def _pairs_of(fit: Fit, query: Any) -> range:
    """The indices of a query's pairs in a fit."""
    found = np.flatnonzero(fit.pairs.queries == query)
    starts = fit.pairs.starts
    return range(starts[found[0]], starts[found[0] + 1]) if len(found) else range(0)


def _query(query: Any, fits: list[Fit | None], edges: tuple[Any, ...], most: int) -> AttractionOverTime:
    views: dict[Any, int] = {}
    rows: list[dict[Any, tuple[float, float, float, int]]] = []
    for fit in fits:
        found = {}
        if fit is not None:
            for pair in _pairs_of(fit, query):
                item = fit.pairs.items[pair : pair + 1].tolist()[0]
                found[item] = (
                    float(fit.attraction[pair]),
                    float(fit.low["attraction"][pair]),
                    float(fit.high["attraction"][pair]),
                    int(fit.views[pair]),
                )
                views[item] = views.get(item, 0) + int(fit.views[pair])
        rows.append(found)
    items = tuple(sorted(views, key=lambda item: (-views[item], str(item)))[:most])
    unknown = (np.nan, np.nan, np.nan, 0)
    table = np.array([[row.get(item, unknown) for item in items] for row in rows]).reshape(len(fits), len(items), 4)
    attraction, low, high, shown = np.moveaxis(table, 2, 0)
    return AttractionOverTime(query, items, edges, attraction, low, high, shown.astype(np.int64))
