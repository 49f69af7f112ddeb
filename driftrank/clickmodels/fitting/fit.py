"""A fitted click model: the parameters of many queries, their confidence intervals, and its evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import models_file
from driftrank.clickmodels.base import ITEM, ONE, PREVIOUS, RANK, ClickModel
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs, PositionCounts
from driftrank.clickmodels.fitting.em import USUAL, EMResult, FitOptions, Numbers, Prior, prior_mean
from driftrank.clickmodels.fitting.evaluation import Evaluation, evaluate
from driftrank.validation import check_integer


@dataclass(frozen=True, eq=False)
class Fit:
    """A click model fitted to a log.

    Parameters of items are arrays over all pairs. The first dimension of the others is the group: one per query if
    each has its own parameters, else a single one; then come ranks.

    >>> from driftrank.clickmodels import CM
    >>> from driftrank.clickmodels.fitting.counts import Pairs, PositionCounts
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
    views: NDArray[np.int64]  #: (P,) number of lists with the item
    parameters: Mapping[str, Numbers]  #: the others, by name
    low: Mapping[str, Numbers]  #: lower end of the confidence interval of each, ``attraction`` too
    high: Mapping[str, Numbers]
    k: int  #: positions of the longest list
    options: FitOptions = field(default_factory=FitOptions)
    prior: Prior = USUAL  #: (a, b) of the attraction
    trace: tuple[float, ...] = ()  #: EM: the penalised log-likelihood of every cycle
    iterations: int = 0  #: EM: passes over the data
    converged: bool = True

    @property
    def exact(self) -> bool:
        """True for maximum likelihood (with the prior); False for the closed forms of DCM and SDBN, which assume that
        nobody reads on after the last click."""
        return self.iterations > 0 or not self.model.exact_statistics

    @classmethod
    def of(
        cls,
        model: type[ClickModel],
        counts: PositionCounts | ListCounts,
        views: NDArray[Any],
        values: Mapping[str, Numbers],
        low: Mapping[str, Numbers],
        high: Mapping[str, Numbers],
        options: FitOptions,
        prior: Prior,
        result: EMResult | None = None,
    ) -> Fit:
        """From estimates by name, including ``attraction``, its prior, and the result of EM."""
        others = {name: value for name, value in values.items() if name != "attraction"}
        fit = cls(
            model,
            counts.pairs,
            values["attraction"],
            views.astype(np.int64),
            others,
            low,
            high,
            counts.k,
            options,
            prior,
        )
        if result is None:
            return fit
        return replace(fit, trace=result.trace, iterations=result.iterations, converged=result.converged)

    def __repr__(self) -> str:
        done = "" if self.converged else ", not converged"
        return f"<{self.model.__name__} of {len(self.pairs.queries)} queries, {len(self.pairs)} items{done}>"

    def query(self, name: Any) -> tuple[list[Any], Numbers, ClickModel]:
        """The items of a query, their attraction, and the click model of its users."""
        q = self.index(name)
        own = self.pairs_of(q)
        return self.pairs.items[own].tolist(), self.attraction[own], self._model(q, own)

    def most_attractive(
        self, top: int | None = None, items: int | None = None, views: int = 0
    ) -> dict[int, NDArray[np.int64]]:
        """Pairs of every query, by its index.

        Parameters
        ----------
        top
            Only so many queries, those with most views; by default all.
        items
            Only so many items of each, the most attractive first; queries with fewer are left out.
        views
            Only items that were in at least so many lists.
        """
        enough = self.views >= views
        chosen = np.arange(len(self.pairs.queries))
        if items is not None:
            check_integer("items", items, 1)
            chosen = chosen[np.bincount(self.pairs.query[enough], minlength=len(chosen)) >= items]
        if top is not None:
            check_integer("top", top, 1)
            chosen = chosen[np.argsort(-self._views_of_queries()[chosen], kind="stable")[:top]]
        found = {}
        for q in chosen.tolist():
            own = self.pairs_of(q)
            own = own[enough[own]]
            found[q] = own if items is None else own[np.argsort(-self.attraction[own], kind="stable")[:items]]
        return found

    def most_shown(self, top: int | None = None, items: int | None = None) -> dict[int, NDArray[np.int64]]:
        """Pairs of every query, by its index: the ``top`` queries and ``items`` of each with most views."""
        found = {}
        for q in np.argsort(-self._views_of_queries(), kind="stable")[:top].tolist():
            own = self.pairs_of(q)
            found[q] = own if items is None else np.sort(own[np.argsort(-self.views[own], kind="stable")[:items]])
        return found

    def queries(self, top: int | None = None, items: int | None = None, views: int = 0) -> dict[str, dict[str, Any]]:
        """The queries of :meth:`most_attractive`, for simulations: ``{name: {"items": [...], "attraction": array,
        "model": ClickModel}}``."""
        return {
            str(self.pairs.queries[q]): {
                "items": self.pairs.items[own].tolist(),
                "attraction": self.attraction[own],
                "model": self._model(q, own),
            }
            for q, own in self.most_attractive(top, items, views).items()
        }

    def evaluate(self, lists: ListCounts) -> Evaluation:
        """Evaluate the predictions for these lists, by query and by rank. Unknown items have the mean of the prior."""
        return evaluate(self.onto(lists.pairs, lists.k), lists)

    def log_likelihood(self, lists: ListCounts) -> float:
        """The log-likelihood of these clicks. No probability is taken to be less than 1e-6."""
        return float(self.evaluate(lists).log_likelihood.sum())

    def perplexity(self, lists: ListCounts) -> Numbers:
        """The perplexity by rank: 2 to the mean of -log2 of the marginal P(click or none). 1 is certainty, 2 a coin."""
        return self.evaluate(lists).perplexity

    def onto(self, pairs: Pairs, k: int) -> Fit:
        """The same estimates for other pairs and at least k ranks; the mean of the prior for unknown ones."""
        where = _find(self.pairs, pairs)
        group = self._groups_of(pairs)
        mean, other = prior_mean(self.prior), prior_mean(self.options.others)

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
            parameters={name: moved(name, values, other) for name, values in self.parameters.items()},
            low={name: moved(name, values, 0.0) for name, values in self.low.items()},
            high={name: moved(name, values, 1.0) for name, values in self.high.items()},
            k=max(k, self.k),
        )

    def to_dict(self, intervals: bool = False) -> dict[str, Any]:
        """The content of a models file (:mod:`driftrank.clickmodels.models_file`) with all queries.

        With ``intervals``, every query also has ``"low"`` and ``"high"``, the ends of the confidence intervals.
        """
        everything = {q: self.pairs_of(q) for q in range(len(self.pairs.queries))}
        return {"queries": entries({self.model.__name__: self}, everything, intervals)}

    def block(self, q: int, own: NDArray[np.int64], which: str = "estimate") -> dict[str, Any]:
        """The estimates of these pairs of the q-th query, or the ``"low"`` or ``"high"`` ends of their intervals, as a
        models file has them."""
        ends = {"low": self.low, "high": self.high}
        values = ends.get(which, {"attraction": self.attraction, **self.parameters})
        return models_file.block(self._of(q, own, values))

    @classmethod
    def from_dict(cls, model: type[ClickModel], values: Mapping[str, Any]) -> Fit:
        """From the content of a models file. Every query then has its own parameters; the counts are lost."""
        queries = dict(sorted(models_file.parse(values["queries"], model.__name__).items()))
        found = {part: [np.array(getattr(query.model, part)) for query in queries.values()] for part in model.shape}
        attraction = [query.attraction for query in queries.values()]
        items = [
            np.arange(len(query.attraction)) if query.items is None else np.array(query.items)
            for query in queries.values()
        ]
        index = np.repeat(np.arange(len(queries), dtype=np.int32), [len(own) for own in items])
        pairs = Pairs(np.array(list(queries)), index, np.concatenate(items) if items else np.zeros(0, np.int64))
        ranks = [len(a) for part, kind in model.shape.items() if kind in (RANK, PREVIOUS) for a in found[part]]
        k = max(ranks) if ranks else max((len(a) for a in attraction), default=0)
        parameters: dict[str, Numbers] = {}
        for part, kind in model.shape.items():
            if kind == ITEM:
                of_query = zip(found[part], items, strict=True)
                parameters[part] = np.concatenate([np.broadcast_to(a, len(own)) for a, own in of_query])
            elif kind == ONE:
                parameters[part] = np.array(found[part])
            else:
                parameters[part] = np.concatenate([_widen(a[None], kind, k, 0.5) for a in found[part]])
        alpha = np.concatenate(attraction)
        known = {"attraction": alpha, **parameters}
        return cls(
            model, pairs, alpha, np.zeros(len(alpha), np.int64), parameters,
            low={part: np.zeros(a.shape) for part, a in known.items()},
            high={part: np.ones(a.shape) for part, a in known.items()},
            k=k, options=FitOptions(per_query=True),
        )  # fmt: skip

    def index(self, name: Any) -> int:
        """The index of a query."""
        if str(name) not in self._index_of:
            raise ValueError(f"query {name!r}: is not among the {len(self.pairs.queries)} queries of the fit")
        return self._index_of[str(name)]

    @cached_property
    def _index_of(self) -> dict[str, int]:
        return {str(name): q for q, name in enumerate(self.pairs.queries)}

    def pairs_of(self, q: int, items: Sequence[Any] | None = None) -> NDArray[np.int64]:
        """The indices of the pairs of the q-th query: all, or those of these items, in their order."""
        first, last = np.searchsorted(self.pairs.query, [q, q + 1])
        own = np.arange(first, last)
        if items is None:
            return own
        names = self.pairs.items[own].tolist()
        return own[[names.index(item) for item in items]]

    def _views_of_queries(self) -> Numbers:
        views: Numbers = np.bincount(self.pairs.query, self.views, len(self.pairs.queries)).astype(np.float64)
        return views

    def _groups_of(self, pairs: Pairs) -> NDArray[np.int64]:
        """The group of the queries of ``pairs`` in this fit, -1 for none."""
        if not self.options.per_query:
            return np.zeros(len(pairs.queries), np.int64)
        return np.array([self._index_of.get(str(name), -1) for name in pairs.queries], np.int64)

    def _of(self, q: int, own: NDArray[np.int64], values: Mapping[str, Numbers]) -> dict[str, Numbers]:
        """The parameters of one query and some of its items."""
        g = q if self.options.per_query else 0
        return {
            name: a[own] if self.model.shape.get(name, ITEM) == ITEM else np.asarray(a[g]) for name, a in values.items()
        }

    def _model(self, q: int, own: NDArray[np.int64]) -> ClickModel:
        return self.model(**{name: a.tolist() for name, a in self._of(q, own, self.parameters).items()})


def entries(
    fits: Mapping[str, Fit], chosen: Mapping[int, NDArray[np.int64]], intervals: bool = False
) -> dict[str, models_file.Entry]:
    """Entries of a models file, for several models of the same log.

    Parameters
    ----------
    chosen
        The pairs to write, by the index of their query.
    intervals
        Also write the ends of the confidence intervals, as ``"low"`` and ``"high"``.
    """
    pairs = next(iter(fits.values())).pairs
    found = {}
    for q, own in chosen.items():
        entry: models_file.Entry = {"items": pairs.items[own].tolist()}
        entry |= {name: fit.block(q, own) for name, fit in fits.items()}
        for end in ("low", "high") if intervals else ():
            entry[end] = {name: fit.block(q, own, end) for name, fit in fits.items()}
        found[str(pairs.queries[q])] = entry
    return found


def _find(known: Pairs, asked: Pairs) -> NDArray[np.int64]:
    """The index of every pair among the known ones, -1 if it is not there."""
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
    """Extend parameters of ranks to at least k ranks."""
    missing = k - values.shape[-1]
    if kind == ONE or missing <= 0:
        return values
    if kind == RANK:
        return np.pad(values, ((0, 0), (0, missing)), constant_values=unknown)
    # by the rank of the last click; the last column is for no click
    wide = np.pad(values[..., :-1], ((0, 0), (0, missing), (0, missing)), constant_values=unknown)
    last = np.pad(values[..., -1:], ((0, 0), (0, missing), (0, 0)), constant_values=unknown)
    return np.concatenate([wide, last], axis=-1)


def _like(flags: NDArray[np.bool_], values: Numbers) -> NDArray[np.bool_]:
    return flags.reshape(-1, *[1] * (values.ndim - 1))
