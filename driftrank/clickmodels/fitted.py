"""What fitting a click model to a log gives: the parameters of many queries, how sure they are, how well they fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ITEM, ONE, PREVIOUS, RANK, ClickModel
from driftrank.clickmodels.counts import ListCounts, Pairs, PositionCounts
from driftrank.clickmodels.em import Climbed, Numbers, Options, prior_mean
from driftrank.clickmodels.evaluation import Evaluation, evaluate
from driftrank.validation import check_integer

__all__ = ["Fit"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A click model fitted to a log.

    Parameters of items are arrays over all pairs. The others begin with a dimension of groups: one for every query
    where each has its own, else a single one; then come ranks.

    >>> from driftrank.clickmodels import CM
    >>> from driftrank.clickmodels.counts import Pairs, PositionCounts
    >>> pairs = Pairs(np.array(["tea"]), np.array([0, 0, 0], np.int32), np.array(["a", "b", "c"]))
    >>> shown = np.array([3, 2, 1])  # the list abc three times: a click on b, none, a click on a
    >>> clicks = np.array([1, 1, 0])
    >>> rows = PositionCounts(pairs, np.arange(3), np.arange(1, 4), np.zeros(3, int), shown, clicks, shown, clicks)
    >>> fit = CM.fit(rows, prior=(0, 0))
    >>> fit.attraction.round(3).tolist()
    [0.333, 0.5, 0.0]
    >>> fit.query("tea")[0]
    ['a', 'b', 'c']
    """

    model: type[ClickModel]
    pairs: Pairs
    attraction: Numbers  #: (P,)
    views: NDArray[np.int64]  #: (P,) lists that had the item
    parameters: Mapping[str, Numbers]  #: the others, by name
    low: Mapping[str, Numbers]  #: lower end of the confidence interval of each, ``attraction`` too
    high: Mapping[str, Numbers]
    k: int  #: positions of the longest list
    options: Options = field(default_factory=Options)
    trace: tuple[float, ...] = ()  #: EM: the penalised log-likelihood from cycle to cycle
    iterations: int = 0  #: EM: passes over the data
    converged: bool = True

    @classmethod
    def of(
        cls,
        model: type[ClickModel],
        counts: PositionCounts | ListCounts,
        views: NDArray[Any],
        values: Mapping[str, Numbers],
        low: Mapping[str, Numbers],
        high: Mapping[str, Numbers],
        options: Options,
        climbed: Climbed | None = None,
    ) -> Fit:
        """From estimates by name, ``attraction`` among them, and what EM says of how it got there."""
        others = {name: value for name, value in values.items() if name != "attraction"}
        fit = cls(
            model, counts.pairs, values["attraction"], views.astype(np.int64), others, low, high, counts.k, options
        )
        if climbed is None:
            return fit
        return replace(fit, trace=climbed.trace, iterations=climbed.iterations, converged=climbed.converged)

    def __repr__(self) -> str:
        done = "" if self.converged else ", not converged"
        return f"<{self.model.__name__} of {len(self.pairs.queries)} queries, {len(self.pairs)} items{done}>"

    def query(self, name: Any) -> tuple[list[Any], Numbers, ClickModel]:
        """The items of a query, their attraction, and how its users click."""
        q = self._index(name)
        own = self._slice(q)
        return self.pairs.items[own].tolist(), self.attraction[own], self._model(q, own)

    def queries(self, top: int | None = None, items: int | None = None, views: int = 0) -> dict[str, dict[str, Any]]:
        """What simulations need of every query: ``{name: {"items": [...], "attraction": array, "model": ClickModel}}``.

        Parameters
        ----------
        top
            Only so many queries, those with most views; by default all.
        items
            Only so many items of each, the most attractive; queries with fewer are left out.
        views
            Only items that were in at least so many lists.
        """
        enough = self.views >= views
        starts = self.pairs.starts
        chosen = np.arange(len(self.pairs.queries))
        if items is not None:
            check_integer("items", items, 1)
            chosen = chosen[np.bincount(self.pairs.query[enough], minlength=len(chosen)) >= items]
        if top is not None:
            check_integer("top", top, 1)
            shown = np.bincount(self.pairs.query, self.views, len(self.pairs.queries))[chosen]
            chosen = chosen[np.argsort(-shown, kind="stable")[:top]]
        found = {}
        for q in chosen:
            own = np.arange(starts[q], starts[q + 1])
            own = own[enough[own]]
            if items is not None:
                own = own[np.argsort(-self.attraction[own], kind="stable")[:items]]
            found[str(self.pairs.queries[q])] = {
                "items": self.pairs.items[own].tolist(),
                "attraction": self.attraction[own],
                "model": self._model(int(q), own),
            }
        return found

    def evaluate(self, lists: ListCounts) -> Evaluation:
        """How well it predicts these lists, by query and by rank. Items it never saw have the mean of the prior."""
        return evaluate(self.onto(lists.pairs, lists.k), lists)

    def log_likelihood(self, lists: ListCounts) -> float:
        """The logarithm of the probability of all these clicks. Nothing is taken to be less likely than 1e-6."""
        return float(self.evaluate(lists).log_likelihood.sum())

    def perplexity(self, lists: ListCounts) -> Numbers:
        """By rank, how surprising the clicks are: 2 to the mean of -log2 P(click or none), whatever happens at other
        ranks. 1 is certainty, 2 a coin."""
        return self.evaluate(lists).perplexity

    def onto(self, pairs: Pairs, k: int) -> Fit:
        """The same estimates for other pairs and at least k ranks; the mean of the prior where nothing is known."""
        where = _find(self.pairs, pairs)
        group = self._groups_of(pairs)
        mean = prior_mean(self.options.prior)

        def of_pairs(values: Numbers, unknown: float) -> Numbers:
            return np.where(where >= 0, values[where], unknown)

        def moved(name: str, values: Numbers, unknown: float) -> Numbers:
            if self.model.shape.get(name, ITEM) == ITEM:
                return of_pairs(values, unknown)
            wide = _widen(values, self.model.shape[name], k, unknown)
            return np.where(_like(group >= 0, wide), wide[group], unknown) if self.options.per_query else wide

        return replace(
            self,
            pairs=pairs,
            attraction=of_pairs(self.attraction, mean),
            views=np.where(where >= 0, self.views[where], 0),
            parameters={name: moved(name, values, mean) for name, values in self.parameters.items()},
            low={name: moved(name, values, 0.0) for name, values in self.low.items()},
            high={name: moved(name, values, 1.0) for name, values in self.high.items()},
            k=max(k, self.k),
        )

    def to_dict(self, intervals: bool = False) -> dict[str, Any]:
        """As it is written to a file of models: ``{"queries": {NAME: {"items": [...], MODEL: {...}}}}``.

        With ``intervals``, every query also has ``"low"`` and ``"high"``, with their ends in the same form.
        """
        name = self.model.__name__
        queries: dict[str, Any] = {}
        for q, query in enumerate(self.pairs.queries):
            own = self._slice(q)
            entry: dict[str, Any] = {"items": self.pairs.items[own].tolist()}
            entry[name] = self.block(q, own)
            if intervals:
                entry["low"] = {name: self.block(q, own, "low")}
                entry["high"] = {name: self.block(q, own, "high")}
            queries[str(query)] = entry
        return {"queries": queries}

    def block(self, q: int, own: NDArray[np.int64], what: str = "estimate") -> dict[str, Any]:
        """What a file of models says of the q-th query and of these of its pairs; or, in the same form, the ``"low"``
        or ``"high"`` ends of the intervals."""
        ends = {"low": self.low, "high": self.high}
        values = ends.get(what, {"attraction": self.attraction, **self.parameters})
        return {name: a.tolist() for name, a in self._of(q, own, values).items()}

    @classmethod
    def from_dict(cls, model: type[ClickModel], values: Mapping[str, Any]) -> Fit:
        """From what :meth:`to_dict` gives. Every query has parameters of its own then; what was counted is lost.

        Queries may come from a file without ``"items"``; they are then numbered.
        """
        name = model.__name__
        names = sorted(values["queries"])
        entries = [values["queries"][query] for query in names]
        found: dict[str, list[Any]] = {part: [] for part in ("attraction", *model.shape)}
        labels: list[Any] = []
        for query, entry in zip(names, entries, strict=True):
            if name not in entry or "attraction" not in entry[name]:
                raise ValueError(f'query {query!r} has no "{name}" with "attraction"')
            model.from_dict(entry[name])  # complains about what is wrong or missing
            for part, kept in found.items():
                kept.append(np.array(entry[name][part], np.float64))
            labels.append(np.array(entry.get("items", np.arange(len(found["attraction"][-1])))))
        query = np.repeat(np.arange(len(names), dtype=np.int32), [len(own) for own in labels])
        pairs = Pairs(np.array(names), query, np.concatenate(labels) if labels else np.zeros(0, np.int64))
        ranks = [len(a) for part, kind in model.shape.items() if kind in (RANK, PREVIOUS) for a in found[part]]
        k = max(ranks) if ranks else max((len(a) for a in found["attraction"]), default=0)
        parameters: dict[str, Numbers] = {}
        for part, kind in model.shape.items():
            if kind == ITEM:
                parts = zip(found[part], labels, strict=True)
                parameters[part] = np.concatenate([np.broadcast_to(a, len(own)) for a, own in parts])
            elif kind == ONE:
                parameters[part] = np.array(found[part])
            else:
                parameters[part] = np.concatenate([_widen(a[None], kind, k, 0.5) for a in found[part]])
        alpha = np.concatenate(found["attraction"])
        known = {"attraction": alpha, **parameters}
        return cls(
            model, pairs, alpha, np.zeros(len(alpha), np.int64), parameters,
            low={part: np.zeros(a.shape) for part, a in known.items()},
            high={part: np.ones(a.shape) for part, a in known.items()},
            k=k, options=Options(per_query=True),
        )  # fmt: skip

    def _index(self, name: Any) -> int:
        if str(name) not in self._places:
            raise ValueError(f"query {name!r}: is not among the {len(self.pairs.queries)} queries of the fit")
        return self._places[str(name)]

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each query stands, by its name as it is written."""
        return {str(name): q for q, name in enumerate(self.pairs.queries)}

    def _slice(self, q: int) -> NDArray[np.int64]:
        first, last = np.searchsorted(self.pairs.query, [q, q + 1])
        return np.arange(first, last)

    def _groups_of(self, pairs: Pairs) -> NDArray[np.int64]:
        """Which group of this fit the queries of others belong to, -1 for none."""
        if not self.options.per_query:
            return np.zeros(len(pairs.queries), np.int64)
        return np.array([self._places.get(str(name), -1) for name in pairs.queries], np.int64)

    def _of(self, q: int, own: NDArray[np.int64], values: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """Parameters of one query and some of its items."""
        g = q if self.options.per_query else 0
        return {
            name: a[own] if self.model.shape.get(name, ITEM) == ITEM else np.asarray(a[g]) for name, a in values.items()
        }

    def _model(self, q: int, own: NDArray[np.int64]) -> ClickModel:
        return self.model(**{name: a.tolist() for name, a in self._of(q, own, self.parameters).items()})


def _find(known: Pairs, asked: Pairs) -> NDArray[np.int64]:
    """The place of every pair among those that are known, -1 where it is not."""
    if known is asked:
        return np.arange(len(asked))
    if not len(known) or not len(asked):
        return np.full(len(asked), -1, np.int64)
    names = known.queries.astype(str), asked.queries.astype(str)
    items = known.items, asked.items
    if items[0].dtype != items[1].dtype:
        items = items[0].astype(str), items[1].astype(str)
    _, query = np.unique(np.concatenate(names), return_inverse=True)
    _, item = np.unique(np.concatenate(items), return_inverse=True)
    count = int(item.max()) + 1
    split = len(known.queries)
    key = query[:split][known.query].astype(np.int64) * count + item[: len(known)]
    wanted = query[split:][asked.query].astype(np.int64) * count + item[len(known) :]
    order = np.argsort(key, kind="stable")
    place = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
    found: NDArray[np.int64] = np.where(key[order][place] == wanted, order[place], -1)
    return found


def _widen(values: Numbers, kind: str, k: int, unknown: float) -> Numbers:
    """Parameters of ranks for at least k of them."""
    missing = k - values.shape[-1]
    if kind == ONE or missing <= 0:
        return values
    if kind == RANK:
        return np.pad(values, ((0, 0), (0, missing)), constant_values=unknown)
    # by the rank of the last click, and without one at the end
    wide = np.pad(values[..., :-1], ((0, 0), (0, missing), (0, missing)), constant_values=unknown)
    last = np.pad(values[..., -1:], ((0, 0), (0, missing), (0, 0)), constant_values=unknown)
    return np.concatenate([wide, last], axis=-1)


def _like(flags: NDArray[np.bool_], values: Numbers) -> NDArray[np.bool_]:
    return flags.reshape(-1, *[1] * (values.ndim - 1))
