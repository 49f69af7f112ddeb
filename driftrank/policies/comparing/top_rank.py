"""TopRank: sort items into blocks by pairwise comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, integers
from driftrank.kernels.random_order import offer
from driftrank.kernels.rng import derive, uniform
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.parameters import planned_horizon
from driftrank.validation import check_integer, check_number

#: c = 4 sqrt(2/pi) / erf(sqrt 2)
C = 3.3436764018810767
_SOME = 0.0  # in the memo: not all items were candidates


class TopRank(Policy):
    r"""TopRank (Lattimore, Kveton, Li and Szepesvári, 2018) sorts items into blocks by pairwise comparison.

    Items are in blocks: first those that no item is known to be better than, then those for which this holds without
    the first block, and so on. The blocks are shown one after the other, each in uniformly random order. For two items
    i, j of a block, :math:`S(i,j)` sums the differences of their clicks (items not shown have none) and :math:`M(i,j)`
    the absolute differences; j is known to be worse than i once

    .. math:: S(i, j) \ge \sqrt{2 M(i, j) \ln\frac{c \sqrt{M(i, j)}}{\delta}}, \qquad
        c = \frac{4\sqrt{2/\pi}}{\mathrm{erf}(\sqrt 2)} \approx 3.34.

    Parameters
    ----------
    delta
        Probability of an error, in (0, 1); ``"auto"``: 1/n.
    horizon
        The number of steps n, which ``delta="auto"`` requires; by default that given at the start.

    Notes
    -----
    Guarantee, in a stationary world, for the cascade and position-based models among others: regret :math:`O(\sum_{i<j}
    \frac{1}{\Delta_{ij}} \ln n)` and :math:`O(\sqrt{K^3 L n \ln n})`. Established relations are never revised, so it
    does not follow changes.

    A cycle of worse items (probability :math:`\delta`) is put into one block. If only some items are candidates, only
    shown items are compared with each other, since the others could not be clicked. A new item is not known to be worse
    than any other, and is compared once it has been shown. Every position of a list counts, also below a click
    (feedback ``"all"``): the compared items of a block are in random order.

    State: :math:`2 L^2 + 5 L` integers. A step costs O(L), and O(L) for every click; blocks are computed only when a
    new relation is found, at most :math:`L^2/2` times. ``scores`` are minus the number of items in better blocks.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.TopRank(delta=0.01).start(items=["a", "b"], k=1, seed=0)
    >>> for _ in range(15):
    ...     learner.update(["a"], clicks=[1])
    >>> learner.scores()
    {'a': 0.0, 'b': -1.0}
    """

    memo: ClassVar[int] = 1  # 1 if all items were candidates
    own_lists: ClassVar[bool] = True

    delta: float | str = "auto"
    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta != "auto":
            check_number('delta ("auto" or a number)', self.delta, 0, 1, open_low=True, open_high=True)
        if self.horizon is not None:
            check_integer("horizon", self.horizon, 1)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        if isinstance(self.delta, str):
            inverse = float(planned_horizon(type(self).__name__, self.horizon, problem))
        else:
            inverse = 1.0 / self.delta
        numbers = super().parameters(problem)
        numbers.pop("delta", None)
        numbers.pop("horizon", None)
        return numbers | {"width": 2.0 * float(pure(log)(C * inverse))}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "wins": integers("L", "L"),  # S(i, j) = wins(i, j) - wins(j, i), M(i, j) is their sum
            "worse": integers("L", "L"),  # (i, j): 1 if j is known to be worse than i
            "order": integers("L"),  # items, block by block
            "block": integers("L"),  # by item: the beginning of its block in the order
            "end": integers("L"),  # by the beginning of a block: its end
            "better": integers("L"),  # scratch: the number of better items not placed yet
            "new": integers("L"),  # 1 if the item was added later and has not been shown since
        }

    @staticmethod
    @kernel
    def init(p, s, e, c):
        _build(p, s)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        K = r.items.shape[0]
        n = c.items.shape[0]
        everyone = n == p.L
        filled = 0
        begin = 0
        while filled < K:
            end = s.end[begin]
            if everyone:
                if end - begin == 1:
                    r.items[filled] = s.order[begin]
                    r.score[filled] = 0.0
                    filled += 1
                else:
                    first = filled
                    for j in range(begin, end):
                        a = s.order[j]
                        filled = offer(r, first, filled, K, uniform(derive(e.key, c.token[a])), a)
            else:
                first = filled
                for j in range(n):
                    a = c.items[j]
                    if s.block[a] == begin:
                        filled = offer(r, first, filled, K, uniform(derive(e.key, c.token[a])), a)
            begin = end
        known = 1.0 if everyone or _all_known(p, s, c) else _SOME
        for i in range(K):
            r.memo[i] = known

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        K = r.items.shape[0]
        clicked = 0
        for i in range(K):
            s.new[r.items[i]] = 0
            if clicks[i]:
                clicked += 1
        if clicked == 0:
            return
        grown = False
        for i in range(K):
            if not clicks[i]:
                continue
            a = r.items[i]
            begin = s.block[a]
            if r.memo[i] == _SOME:
                for j in range(K):
                    if not clicks[j] and s.block[r.items[j]] == begin:
                        grown |= _beats(p, s, a, r.items[j])
            else:
                for j in range(begin, s.end[begin]):
                    b = s.order[j]
                    if b != a and not s.new[b] and (clicked == 1 or not _clicked(r, clicks, b)):
                        grown |= _beats(p, s, a, b)
        if grown:  # not before: this step's list was made with the old blocks
            _build(p, s)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = -s.block[c.items[j]]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        for b in range(p.L):
            s.wins[a * p.L + b] = 0
            s.wins[b * p.L + a] = 0
            s.worse[a * p.L + b] = 0
            s.worse[b * p.L + a] = 0
        s.new[a] = 1
        _build(p, s)


@kernel
def _clicked(r, clicks, a):
    for i in range(r.items.shape[0]):
        if r.items[i] == a:
            return clicks[i] != 0
    return False


@kernel
def _all_known(p, s, c):
    """True if the candidates contain every item except new ones that have not been shown yet."""
    there = 0
    for j in range(c.items.shape[0]):
        if not s.new[c.items[j]]:
            there += 1
    for a in range(p.L):
        if not s.new[a]:
            there -= 1
    return there == 0


@kernel
def _beats(p, s, a, b):
    """Learn that item ``a`` was clicked and ``b`` was not. True if ``b`` is now known to be worse, and was not
    before."""
    s.wins[a * p.L + b] += 1
    won = s.wins[a * p.L + b]
    lost = s.wins[b * p.L + a]
    lead = np.float64(won - lost)
    total = np.float64(won + lost)
    # S^2 >= M (2 ln(c/delta) + ln M); without the last term this is a bound without a logarithm
    if lead <= 0.0 or lead * lead < p.width * total or lead * lead < total * (p.width + log(total)):
        return False
    if s.worse[a * p.L + b]:
        return False
    s.worse[a * p.L + b] = 1
    return True


@kernel
def _build(p, s):
    """Compute the blocks."""
    L = p.L
    for a in range(L):
        s.better[a] = 0
        s.block[a] = -1
    for a in range(L):
        for b in range(L):
            s.better[b] += s.worse[a * L + b]
    begin = 0
    while begin < L:
        end = begin
        for a in range(L):
            if s.block[a] < 0 and s.better[a] == 0:
                s.order[end] = a
                end += 1
        if end == begin:  # a cycle: every item is dominated
            for a in range(L):
                if s.block[a] < 0:
                    s.order[end] = a
                    end += 1
        for j in range(begin, end):
            a = s.order[j]
            s.block[a] = begin
            for b in range(L):
                s.better[b] -= s.worse[a * L + b]
        s.end[begin] = end
        begin = end
