"""From a log to a simulation of its users, changes and all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftrank.clickmodels.registry import click_model
from driftrank.environments import Replay
from driftrank.logs.changes import QueryDrift, drift
from driftrank.queries import Changes, Queries
from driftrank.validation import check_choice

if TYPE_CHECKING:
    from driftrank.clickmodels.fitted import Fit
    from driftrank.logs.log import Log

#: click models in which everything down to the first click is read, so that changes can be told from labels
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
        How many queries, the most frequent, and items of each, the most often shown. Queries with fewer than k items
        are left out.
    model
        How users click: ``"CM"``, ``"DCM"`` or ``"SDBN"``; its other parameters are fitted to the whole log.
    delta
        The chance, at most, of a change found in a query that does not change.
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
    check_choice("model", cls.__name__, READ)
    chosen = [
        found for found in drift(log, top=top, items=items, delta=delta, **_prior(options)) if len(found.items) >= k
    ]
    if not chosen:
        raise ValueError(f"k={k}: no query of {log.source} has so many items")
    fit = cls.fit(log.counts(cls.counts_for(bool(options.get("exact"))), queries=[f.query for f in chosen]), **options)
    return Replay(drifting_queries(chosen, fit), k)


def drifting_queries(found: list[QueryDrift], fit: Fit) -> Queries:
    """Queries that change as was found, with users who click as was fitted."""
    attraction, models, items, changes = {}, {}, {}, {}
    for query in found:
        name = str(query.query)
        attraction[name] = query.attraction[0]
        items[name] = query.items
        known, _, model = fit.query(query.query)
        models[name] = model.only([known.index(item) for item in query.items])
        changes[name] = changes_of(query)
    return Queries(attraction, models, items, changes)


def changes_of(query: QueryDrift) -> Changes:
    return tuple(
        (change.after, tuple(map(float, alpha)))
        for change, alpha in zip(query.changes, query.attraction[1:], strict=True)
    )


def _prior(options: dict[str, Any]) -> dict[str, Any]:
    return {key: options[key] for key in ("prior",) if key in options}
