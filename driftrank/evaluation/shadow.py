"""Learners in the shadow of a log: they learn from its lists in the order of time, and show nothing.

Before every list the learner is asked what it would show, so its answer depends on earlier lists only, and every
estimator is valid for it as for a fixed list. It leaves out the price of the learner's own exploration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftrank.evaluation.base import Batch, Floats
from driftrank.evaluation.cells import FOLDS
from driftrank.evaluation.labels import PRIOR, ShownLists
from driftrank.evaluation.matching import MatchedRows
from driftrank.evaluation.rows import LogRows
from driftrank.kernels.rng import EVALUATION_RUN
from driftrank.policies.base import Policy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.shared_model import Prior, SharedModel

_BATCH = 8192
#: what hazards keep of the past of their query, per list: they must follow changes that are not known yet
_DISCOUNT = 0.998


@dataclass(frozen=True)
class LoggedList:
    """A list of the log."""

    code: int
    segment: int
    now: bool
    window: int
    bucket: int
    moment: float  #: seconds
    items: list[Any]  #: at most k
    clicks: list[int]  #: positions, from 1
    propensities: list[float] | None
    candidates: list[Any] | None = None  #: None: all items of the query
    baseline: list[Any] | None = None  #: the top of the caller's order; None: it is unknown

    @property
    def first(self) -> int:
        return min(self.clicks, default=len(self.items) + 1)


def in_order(rows: LogRows) -> Iterator[LoggedList]:
    """The lists in the order of time."""
    cursor = rows.connection.cursor()
    k = rows.k
    cursor.execute(
        f"SELECT code, segment, now, win, bucket, moment, ranking[1:{k}], list_filter(clicks, lambda c: c <= shown),"
        f" propensities[1:{k}], candidates, baseline FROM ({rows.rows()}) ORDER BY time, code, ranking, clicks"
    )
    while found := cursor.fetchmany(_BATCH):
        for row in found:
            yield LoggedList(*row)


class Learners:
    """A learner per query of a log, and the shared model of its policy if it has one."""

    def __init__(self, rows: LogRows, policy: Policy, seed: int = 0) -> None:
        if policy.oracle:
            raise ValueError(f"policy={policy.spec}: must not be an oracle, which only a simulation can run")
        if policy.contextual:
            raise ValueError(f"policy={policy.spec}: must not need features, which a log does not have")
        self.policy, self.rows, self.seed = policy, rows, seed
        self.shared = SharedModel(policy) if policy.shares else None
        self._learners: dict[int, Learner] = {}
        self._orders: dict[int, list[Any]] = {}  # by query: all items, in the caller's order of the last list

    def of(self, code: int) -> Learner:
        """The learner of a query, whose candidates are all items that were shown for it."""
        learner = self._learners.get(code)
        if learner is None:
            items = list(self.rows.labels.numbers[code])
            k = min(self.rows.k, len(items))
            query = str(self.rows.queries[code])
            learner = self.policy.start(items, k, seed=self.seed, query=query, run=EVALUATION_RUN, shared=self.shared)
            self._learners[code] = learner
        return learner

    def rank(self, logged: LoggedList) -> Sequence[Any]:
        """The list that a learner shows for a logged one: of its candidates, as far as they are known."""
        learner = self.of(logged.code)
        how: dict[str, Any] = {"now": logged.moment}
        if self.shared is not None:
            how["ordered"] = logged.baseline is not None
        offered = self._offered(logged)
        if not offered:  # nothing is stated of what could have been shown, and in which order
            return learner.rank(**how)
        return learner.rank(offered, k=min(self.rows.k, len(offered)), **how)

    def _offered(self, logged: LoggedList) -> list[Any]:
        """The candidates, in the caller's order as far as that is known; empty if nothing is."""
        known = self.rows.labels.numbers[logged.code]
        offered = dict.fromkeys(item for item in logged.candidates or () if item in known)
        if self.shared is None or logged.baseline is None:
            return list(offered)
        offered = offered or dict.fromkeys(known)
        return list(dict.fromkeys([*(item for item in logged.baseline if item in offered), *offered]))

    def greedy(self, code: int) -> list[Any]:
        """The list with the largest estimates, without exploration."""
        learner = self.of(code)
        if self.shared is None:
            return learner.greedy()
        order = self._orders.get(code)
        return learner.greedy(order, ordered=order is not None)

    def learn(self, shown: LoggedList) -> None:
        learner = self.of(shown.code)
        ranking: Sequence[Any] = shown.items
        if self.shared is not None:
            ranking = learner.adopt(shown.items, now=shown.moment, prior=self._prior(learner, shown))
        clicks = np.zeros(len(shown.items), np.int8)
        clicks[np.array(shown.clicks, int) - 1] = 1
        learner.update(ranking, clicks, now=shown.moment)

    def _prior(self, learner: Learner, shown: LoggedList) -> Prior:
        """Of the items shown, whose places are those in the caller's order."""
        if shown.baseline is None:
            return learner.prior(shown.items, ordered=False)
        order = list(dict.fromkeys([*self._offered(shown), *shown.items]))
        self._orders[shown.code] = list(dict.fromkeys([*order, *self.rows.labels.numbers[shown.code]]))
        at = {item: n for n, item in enumerate(order)}
        return learner.prior(order, ordered=True).at(np.array([at[item] for item in shown.items]))


class _Hazards:
    """Chances of a click by earlier lists of the query; recent ones count more."""

    def __init__(self, rows: LogRows) -> None:
        self._sums = [np.zeros((2, len(numbers))) for numbers in rows.labels.numbers]

    def of(self, code: int, items: Sequence[int]) -> Floats:
        clicks, looks = self._sums[code][:, items]
        chance: Floats = (clicks + PRIOR[0]) / (looks + PRIOR[1])
        return chance

    def learn(self, code: int, items: Sequence[int], first: int) -> None:
        sums = self._sums[code]
        sums *= _DISCOUNT
        for position, item in enumerate(items[:first], 1):
            sums[1, item] += 1
            sums[0, item] += position == first


@dataclass
class Shadow:
    """A learner in the shadow of a log, as a target."""

    rows: LogRows
    policy: Policy
    seed: int = 0
    lists: list[ShownLists] = field(default_factory=list)  #: what it would have shown, after :meth:`batches`
    final: dict[Any, list[Any]] = field(default_factory=dict)  #: likewise, the last list of each query

    def batches(self) -> Iterator[Batch]:
        rows, k = self.rows, self.rows.k
        learners, hazards = Learners(rows, self.policy, self.seed), _Hazards(rows)
        pending: list[tuple[LoggedList, list[int], Floats, int]] = []
        for shown in in_order(rows):
            wanted = learners.rank(shown)
            numbers = rows.labels.numbers[shown.code]
            items = [numbers[item] for item in wanted[: len(shown.items)]]
            self.final[rows.queries[shown.code]] = list(wanted)
            matched = 0
            while matched < len(items) and shown.items[matched] == wanted[matched]:
                matched += 1
            pending.append((shown, items, hazards.of(shown.code, items), matched))
            hazards.learn(shown.code, [numbers[item] for item in shown.items], shown.first)
            learners.learn(shown)
            if len(pending) == _BATCH:
                yield self._batch(pending, k)
                pending = []
        if pending:
            yield self._batch(pending, k)

    def _batch(self, pending: list[tuple[LoggedList, list[int], Floats, int]], k: int) -> Batch:
        rows, n = self.rows, len(pending)
        items, hazard = np.full((n, k), -2, np.int64), np.zeros((n, k))
        propensities = np.full((n, k), np.nan)
        mask, same = np.zeros((2, n), np.int64)
        for i, (shown, own, chances, _) in enumerate(pending):
            items[i, : len(own)], hazard[i, : len(own)] = own, chances
            given = (shown.propensities or [])[:k]
            propensities[i, : len(given)] = given
            for click in shown.clicks:
                mask[i] |= 1 << (click - 1)
            if rows.places:
                numbers = rows.labels.numbers[shown.code]
                here = [numbers[item] == wanted for item, wanted in zip(shown.items, own, strict=False)]
                same[i] = sum(1 << at for at, equal in enumerate(here) if equal)
        logged = [shown for shown, *_ in pending]
        segment = np.array([shown.segment for shown in logged])
        self.lists.append(ShownLists(items, segment, np.ones(n)))
        lengths = np.array([min(len(shown.items), len(own)) for shown, own, *_ in pending])
        flags = [np.array([getattr(shown, name) for shown in logged]) for name in ("now", "window", "bucket")]
        return rows.matching.batch(
            MatchedRows(
                query=np.array([shown.code for shown in logged]),
                cell=rows.cells.number(*flags),
                shown=lengths,
                first=np.array([shown.first for shown in logged]),
                matched=np.array([matched for *_, matched in pending]),
                propensities=propensities,
                hazard=hazard,
                attraction=rows.labels.attraction_of(items, segment),
                mask=mask,
                moment=None if rows.half_life is None else np.array([shown.moment for shown in logged]),
                same=same if rows.places else None,
            )
        )

    def shown_lists(self) -> ShownLists:
        parts = self.lists
        return ShownLists(
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.segment for part in parts]),
            np.concatenate([part.lists for part in parts]),
        )


def frozen(rows: LogRows, policy: Policy, seed: int = 0) -> list[dict[Any, list[Any]]]:
    """By fold, the lists that a learner prefers after it has learnt from all lists of the other fold.

    A list must not be measured on the lists that it was chosen by: it would look better than it is.
    """
    learners = [Learners(rows, policy, seed) for _ in range(FOLDS)]
    for shown in in_order(rows):
        for fold in range(FOLDS):
            if shown.bucket % FOLDS != fold:
                learners[fold].learn(shown)
    return [{query: own.greedy(code) for code, query in enumerate(rows.queries)} for own in learners]


def best_now(rows: LogRows) -> list[dict[Any, list[Any]]]:
    """By fold, the most attractive items of every query since its last change, by the labels of the other fold.

    Rates are drawn towards the mean of the query, as by two looks: an item that was never seen is not best.
    """
    labels, k = rows.labels, rows.k
    looks, clicks = labels.looks.sum(axis=2), labels.clicks.sum(axis=2)
    out = []
    for fold in range(FOLDS):
        lists = {}
        for code, query in enumerate(rows.queries):
            segment = rows.begin[code + 1] - 1
            own = slice(labels.start[segment], labels.start[segment + 1])
            n, c = looks[1 - fold, own], clicks[1 - fold, own]
            mean = (c.sum() + PRIOR[0]) / (n.sum() + PRIOR[1])
            order = np.argsort(-(c + 2 * mean) / (n + 2), kind="stable")[:k]
            names = list(labels.numbers[code])
            lists[query] = [names[number] for number in order]
        out.append(lists)
    return out
