"""From a log to a simulation of its users: fitted click models and the changes found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.fitting.fit import Fit, entries
from driftrank.clickmodels.models_file import Entry, block
from driftrank.clickmodels.registry import click_model
from driftrank.environments import Replay
from driftrank.logs.changes import QueryDrift, drift
from driftrank.logs.generations import Generations, QueryTable, fit_generations, replay_of
from driftrank.logs.query_lists import frequent_queries, lists_of

if TYPE_CHECKING:
    from driftrank.logs.log import Log

#: click models in which everything down to the first click is read: files have the changes found in these clicks
READ = ("CM", "DCM", "SDBN")


def environment(
    log: Log, *, k: int = 3, top: int = 100, items: int = 10, model: str = "CM", delta: float = 0.01, **options: Any
) -> Replay:
    """A simulated environment that replays the changes found in a log (:func:`~driftrank.logs.drift`).

    Parameters
    ----------
    k
        Positions of the simulation.
    top, items
        Number of queries, the most frequent, and of items of each, the most often shown. Queries with fewer than k
        items are left out.
    model
        The click model, any that can be fitted. Attraction is fitted between the changes of each item, parameters of
        ranks to all lists of these queries (:mod:`driftrank.logs.generations`).
    delta
        At most this is the probability of finding a change in a query that does not change.
    options
        Of :meth:`~driftrank.clickmodels.ClickModel.fit`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import driftrank as dr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> world = dr.environments.Abrupt(dr.queries.yandex_like(1), period=1000)
    >>> _ = dr.logs.generate(path, world, 3000)
    >>> replayed = dr.logs.environment(dr.logs.open_log(path), k=3)
    >>> len(replayed.breakpoints(3000)), len(world.breakpoints(3000))
    (2, 2)
    """
    cls = click_model(model)
    if not cls.statistics:
        raise ValueError(f"model={model!r}: must be a click model that can be fitted")
    cls.check_log(log)
    prior = {"prior": options["prior"]} if "prior" in options else {}
    chosen = frequent_queries(log, top)
    drifts = [found for found in drift(log, queries=chosen, items=items, delta=delta, **prior) if len(found.items) >= k]
    if not drifts:
        raise ValueError(f"k={k}: no query of {log.source} has so many items")
    tables = [QueryTable.of(lists) for lists in lists_of(log, [found.query for found in drifts])]
    generations = Generations.of(tables, drifts)
    return replay_of(generations.queries(fit_generations(cls, generations.counts(), **options)), k)


def fitted_queries(
    fits: Mapping[str, Fit],
    chosen: Mapping[int, NDArray[np.int64]],
    drifts: Iterable[QueryDrift] = (),
    *,
    intervals: bool = False,
) -> dict[str, Entry]:
    """Queries of a log as entries of a models file: fitted click models, and the changes found.

    Parameters
    ----------
    fits
        Models fitted to the log, by name.
    chosen
        The pairs to take, by the index of their query (:meth:`Fit.most_shown`, :meth:`Fit.most_attractive`).
    drifts
        Changes of some of the queries, whose items then are those of the drift. In the models of :data:`READ` the
        attraction is that before the first change.
    intervals
        Add the ends of the confidence intervals.
    """
    fit = next(iter(fits.values()))
    by_name = {str(found.query): found for found in drifts}
    drifting = {q: by_name[name] for q in chosen if (name := str(fit.pairs.queries[q])) in by_name}
    pairs = {q: fit.pairs_of(q, drifting[q].items) if q in drifting else own for q, own in chosen.items()}
    queries = entries(fits, pairs, intervals)
    for found in drifting.values():
        entry = queries[str(found.query)]
        for name in READ:
            if name in entry and found.changes:
                later = zip(found.changes, found.attraction[1:], strict=True)
                changes = tuple((change.after, tuple(alpha.tolist())) for change, alpha in later)
                entry[name] = block({**entry[name], "attraction": found.attraction[0]}, changes)
    return queries
