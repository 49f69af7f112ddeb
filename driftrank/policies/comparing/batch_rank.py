"""BatchRank: split and eliminate batches of items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import kl_lcb, kl_ucb
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.random_order import offer
from driftrank.kernels.rng import SECOND_SET, derive, uniform
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.parameters import planned_horizon
from driftrank.validation import check_integer

_LOST, _NOTHING = -1.0, -2.0  # in the memo: lost; nothing to count


class BatchRank(Policy):
    r"""BatchRank (Zoghi, Tunys, Ghavamzadeh, Kveton, Szepesvári and Wen, 2017) splits and eliminates batches of items.

    A baseline of the paper.

    Items are explored in batches, each on a range of positions; initially all items are in one batch on all positions.
    A batch shows its items equally often and in random order, in stages :math:`\ell = 0, 1, \dots` of

    .. math:: n_\ell = \lceil 16 \cdot 4^\ell \ln n \rceil

    displays of every item. At the end of a stage every item has a lower and an upper confidence bound, :math:`W, U =
    \{q: \mathrm{kl}(\bar\alpha, q) \le (\ln n + 3 \ln\ln n)/n_\ell\}`. If the s best items are surely better than the
    rest (:math:`W > \max U`, the largest such s), the batch is split there, and both parts start from stage 0;
    otherwise the items that are surely not among the best that fit the positions are eliminated, and the next stage
    begins.

    Parameters
    ----------
    horizon
        The number of steps n; required, by default that given at the start.

    Notes
    -----
    Guarantee, in a stationary world, for click models in which examination does not depend on the order above (cascade
    and position-based): regret of order :math:`\frac{K^3 L}{\Delta_{\min}} \ln n`. Eliminations and placements are
    never reconsidered, which is fatal if users change.

    The printed algorithm does not advance a batch that has as many items as positions and cannot be split; here it
    enters the next stage, as the analysis assumes. An item that is not a candidate misses its turn and has wider
    bounds; one that is absent for a whole stage is ignored in it, and stays in the lower part of a split. A new item
    joins the lowest batch, which restarts. Every position of a list counts, also below a click (feedback ``"all"``):
    items are compared at the same positions, so examination need not be known.

    State: 2 L + K floats and 4 L + 2 K + 1 integers. A step costs O(L). ``scores`` are the click rates of the stage,
    less the position of the batch.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.BatchRank(horizon=1000).start(items=["a", "b", "c"], k=2, seed=1)
    >>> first = learner.rank()
    >>> learner.update(first, clicks=[0, 1])
    >>> set(learner.rank()) - set(first) != set()  # the item not shown yet is due
    True
    """

    memo: ClassVar[int] = 2  # the displays that were due, and the number of items that were due but did not fit
    own_lists: ClassVar[bool] = True

    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is not None:
            check_integer("horizon", self.horizon, 1)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        n = planned_horizon(type(self).__name__, self.horizon, problem)
        log_n = float(pure(log)(n))
        level = log_n + 3.0 * float(pure(log)(max(1.0, log_n)))
        return super().parameters(problem) | {"horizon": n, "log_horizon": log_n, "level": level}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "count": integers("L"),  # displays in this stage
            "clicks": integers("L"),  # clicks in this stage
            "low": field("L"),  # bounds, at the end of a stage
            "high": field("L"),
            # the items of the batch that begins at position b are order[b], order[b+1], ...; only the last batch can
            # have more items than positions; behind it are the eliminated ones
            "order": integers("L", fill=-1),
            "batch": integers("L", fill=-1),  # the position at which the item's batch begins, -1 if eliminated
            "size": integers("K"),  # by first position: the number of positions of the batch
            "stage": integers("K"),
            "length": field("K"),  # displays of every item in this stage
            "active": integers(1),  # items not eliminated
        }

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            s.order[a] = a
            s.batch[a] = 0
        s.active[0] = p.L
        s.size[0] = p.K
        _begin_stage(p, s, 0, 0)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        K = r.items.shape[0]
        n = c.items.shape[0]
        filled = 0
        b = 0
        while b < p.K and filled < K:
            size = s.size[b]
            if n == p.L and _end_of(p, s, b) == b + 1:  # settled
                r.items[filled] = s.order[b]
                r.score[filled] = 0.0
                r.memo[2 * filled] = _NOTHING
                filled += 1
            else:
                free = K - filled if b + size == p.K else min(size, K - filled)
                filled = _show(p, s, e, c, r, b, filled, free)
            b += size
        if filled < K:  # too few candidates: fill with eliminated items
            begin = filled
            filled = _show(p, s, e, c, r, -1, filled, K - filled)
            for i in range(begin, filled):
                r.memo[2 * i] = _NOTHING

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        K = r.items.shape[0]
        for i in range(K):
            if r.memo[2 * i] == _LOST:
                _recall(p, s, r, i)
        ripe = False
        for i in range(K):
            a = r.items[i]
            due = r.memo[2 * i]
            b = s.batch[a]
            if due < 0.0 or b < 0:
                continue
            # items shown to fill the list, but not due, are not counted: exploration stays even
            if s.count[a] == due:
                s.count[a] += 1
                if clicks[i]:
                    s.clicks[a] += 1
            if r.memo[2 * i + 1] == 0.0 and due + 1.0 >= s.length[b]:
                ripe = True
        if ripe:
            for i in range(K):
                a = r.items[i]
                b = s.batch[a]
                if b < 0 or r.memo[2 * i] + 1.0 < s.length[b] or r.memo[2 * i + 1] != 0.0:
                    continue
                if s.count[a] >= s.length[b]:  # otherwise it is already in a new stage
                    _end_stage(p, s, b)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = -p.K if s.batch[a] < 0 else -s.batch[a]
            if s.batch[a] >= 0 and s.count[a] > 0:
                out[j] += s.clicks[a] / s.count[a]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        last = _last_batch(p, s)
        place = 0
        while s.order[place] != a and s.order[place] >= 0:
            place += 1
        b = s.batch[a]
        if b < 0:  # eliminated, or never added
            s.order[place] = s.order[s.active[0]]
            s.active[0] += 1
        else:
            for j in range(place, s.active[0] - 1):
                s.order[j] = s.order[j + 1]
            if b < last:  # the batch cedes a position to the lowest one
                s.size[b] -= 1
                q = b + s.size[b] + 1
                while q < p.K:
                    size = s.size[q]
                    s.size[q] = 0
                    s.size[q - 1] = size + 1 if q == last else size
                    s.stage[q - 1] = s.stage[q]
                    s.length[q - 1] = s.length[q]
                    q += size
                last -= 1
                for x in range(p.L):
                    if s.batch[x] > b:
                        s.batch[x] -= 1
        s.order[s.active[0] - 1] = a
        s.batch[a] = last
        _begin_stage(p, s, last, 0)


@kernel
def _last_batch(p, s):
    b = 0
    while b + s.size[b] < p.K:
        b += s.size[b]
    return b


@kernel
def _end_of(p, s, b):
    """The end of batch ``b`` in the order."""
    return s.active[0] if b + s.size[b] == p.K else b + s.size[b]


@kernel
def _show(p, s, e, c, r, b, filled, free):
    """Put the ``free`` least shown candidates of batch ``b`` on the list, from position ``filled``, in random order."""
    all_present = c.items.shape[0] == p.L and b >= 0
    first = b if all_present else 0
    end = _end_of(p, s, b) if all_present else c.items.shape[0]
    least = np.int64(2**62)
    present = 0
    due = 0
    for j in range(first, end):
        a = s.order[j] if all_present else np.int32(c.items[j])
        if all_present or s.batch[a] == b:
            present += 1
            if s.count[a] < least:
                least = np.int64(s.count[a])
                due = 0
            if s.count[a] == least:
                due += 1
    stop = filled + free
    at = filled
    partial = due < free < present  # some of those not due are shown, but not all
    only_due = due >= free
    for j in range(first, end):
        a = s.order[j] if all_present else np.int32(c.items[j])
        if not (all_present or s.batch[a] == b):
            continue
        ahead = s.count[a] - least
        if only_due and ahead > 0:
            continue
        u = uniform(derive(e.key, c.token[a]))
        at = offer(r, filled, at, stop, ahead + u if partial else u, a)
    # Items of equal count, or all of them, sorted by their random numbers are in random order; others need new numbers
    if partial:
        key = derive(e.key, SECOND_SET)
        shown = at
        at = filled
        for i in range(filled, shown):
            a = np.int32(r.items[i])
            at = offer(r, filled, at, stop, uniform(derive(key, c.token[a])), a)
    left = np.float64(due - free) if only_due else 0.0
    for i in range(filled, at):
        r.memo[2 * i] = least
        r.memo[2 * i + 1] = left
    return at


@kernel
def _recall(p, s, r, i):
    """Fill in the memo of position ``i`` as if all items had been candidates."""
    b = s.batch[r.items[i]]
    r.memo[2 * i] = _NOTHING
    if b < 0:
        return
    end = _end_of(p, s, b)
    least = s.count[s.order[b]]
    for j in range(b, end):
        least = min(least, s.count[s.order[j]])
    left = 0
    for j in range(b, end):
        if s.count[s.order[j]] == least:
            left += 1
    for j in range(r.items.shape[0]):
        if s.batch[r.items[j]] == b and s.count[r.items[j]] == least:
            left -= 1
    r.memo[2 * i] = least
    r.memo[2 * i + 1] = left


@kernel
def _begin_stage(p, s, b, stage):
    """Start a stage of batch ``b`` with counts 0."""
    s.stage[b] = stage
    length = 16.0 * p.log_horizon
    for _ in range(stage):
        length *= 4.0
    s.length[b] = max(1.0, np.ceil(length))
    for j in range(b, _end_of(p, s, b)):
        s.count[s.order[j]] = 0
        s.clicks[s.order[j]] = 0


@kernel
def _end_stage(p, s, b):
    size = s.size[b]
    end = _end_of(p, s, b)
    for j in range(b, end):
        a = s.order[j]
        s.low[a] = -1.0  # absent for the whole stage: sorted last, and ignored
        s.high[a] = -1.0
        if s.count[a] > 0:
            mean = s.clicks[a] / s.count[a]
            s.low[a] = kl_lcb(mean, p.level / s.count[a])
            s.high[a] = kl_ucb(mean, p.level / s.count[a])
        i = j
        while i > b and s.low[s.order[i - 1]] < s.low[a]:
            s.order[i] = s.order[i - 1]
            i -= 1
        s.order[i] = a
    best_below = -1.0
    for j in range(end - 1, b, -1):
        best_below = max(best_below, s.high[s.order[j]])
        split = j - b
        if split < size and best_below >= 0.0 and s.low[s.order[j - 1]] > best_below:
            s.size[b] = split
            s.size[j] = size - split
            for i in range(j, end):
                s.batch[s.order[i]] = j
            _begin_stage(p, s, b, 0)
            _begin_stage(p, s, j, 0)
            return
    if end - b > size:
        bar = s.low[s.order[b + size - 1]]
        kept = b
        for j in range(b, end):
            a = s.order[j]
            if s.high[a] >= bar or s.count[a] == 0:
                s.order[j] = s.order[kept]
                s.order[kept] = a
                kept += 1
            else:
                s.batch[a] = -1
        s.active[0] = kept
    _begin_stage(p, s, b, s.stage[b] + 1)
