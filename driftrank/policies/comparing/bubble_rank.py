"""BubbleRank: safe exchanges of neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, integers
from driftrank.kernels.random_order import offer
from driftrank.kernels.rng import derive
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.parameters import planned_horizon
from driftrank.validation import check_integer, check_number

#: items below the last position: compared, or never shown
EXTEND = ("outside", "none")
#: the first base list
INITIAL = ("random", "given")
_OUTSIDE, _RANDOM = 0, 0
_LOST, _NOBODY = -1, -2  # in the memo: lost; not compared
_ONE = np.uint64(1)


class BubbleRank(Policy):
    r"""BubbleRank (Li, Kveton, Lattimore, Markov, de Rijke, Szepesvári and Zoghi, 2019) exchanges neighbours, safely.

    A baseline of the paper's appendix.

    It shows a base list, except that neighbours whose order is not settled are exchanged with probability 1/2:
    positions (1, 2), (3, 4), ... at even steps, (2, 3), (4, 5), ... at odd ones. If exactly one of two such items is
    clicked, say i and not j, :math:`s(i,j)` increases by 1, :math:`s(j,i) = -s(i,j)`, and :math:`m(i,j)` counts these
    steps. The order "i above j" is settled once

    .. math:: s(i, j) > 2 \sqrt{m(i, j) \ln(1/\delta)},

    and if i was below j, they swap places in the base list. So no list is ever much worse than the first one.

    Parameters
    ----------
    initial
        The first base list: ``"random"``, or the items in the order ``"given"`` (such as that of a production ranker).
    extend
        ``"outside"``: at steps at which the last position has no partner, its item is compared with a random one below
        it that is not settled to be worse: one of the two is shown, with probability 1/2 each, and a click counts for
        it; ``"none"``: items below the last position are never shown, as in the paper, where L = K.
    delta
        Probability of an error; ``"auto"``: :math:`n^{-4}`, as in the paper.
    horizon
        The number of steps n, which ``delta="auto"`` requires; by default that given at the start.

    Notes
    -----
    Guarantee, in a stationary world and for ``extend="none"``, with V wrongly ordered pairs in the first list: regret
    of order :math:`\frac{K (K + V)}{\Delta_{\min}} \ln n`, and never more than V + K/2 wrongly ordered pairs in a list,
    with probability :math:`1 - \sqrt\delta K^2 n`. The threshold is wide: of two new items, one must win :math:`4
    \ln(1/\delta)` times in a row, 185 times at n = 100,000. If only some items are candidates, the base list without
    the others is shown. A new item is appended to the base list. Every position of a list counts, also below a click
    (feedback ``"all"``): compared neighbours are exchanged at random.

    State: :math:`L^2 + 2 L` integers (wins of each item against each other). A step costs O(K), and O(L) if it compares
    with items outside. ``scores`` are minus the places in the base list.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.BubbleRank(initial="given", delta=0.5).start(items=["a", "b"], k=2)
    >>> for _ in range(8):
    ...     shown = learner.rank()
    ...     learner.update(shown, "b")
    >>> learner.scores()
    {'a': -1.0, 'b': 0.0}
    """

    claims: ClassVar[tuple[str, ...]] = ()  # its guarantee is relative to its first list, which may be bad
    memo: ClassVar[int] = 1  # the item that it is compared with
    own_lists: ClassVar[bool] = True
    choices = {**Policy.choices, "extend": EXTEND, "initial": INITIAL}

    initial: str = "random"
    extend: str = "outside"
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
            log_inverse = 4.0 * float(pure(log)(planned_horizon(type(self).__name__, self.horizon, problem)))
        else:
            log_inverse = -float(pure(log)(self.delta))
        numbers = super().parameters(problem)
        numbers.pop("delta", None)
        numbers.pop("horizon", None)
        return numbers | {"width": 4.0 * log_inverse}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "base": integers("L", fill=-1),
            "place": integers("L", fill=-1),  # of an item in the base list
            "wins": integers("L", "L"),  # s(i, j) = wins(i, j) - wins(j, i), m(i, j) is their sum
        }

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for j in range(c.items.shape[0]):
            a = c.items[j]
            i = j
            if p.initial == _RANDOM:
                while i > 0 and derive(e.key, c.token[a]) < derive(e.key, c.token[s.base[i - 1]]):
                    s.base[i] = s.base[i - 1]
                    i -= 1
            s.base[i] = a
        for i in range(c.items.shape[0]):
            s.place[s.base[i]] = i

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        K = r.items.shape[0]
        n = c.items.shape[0]
        if n == p.L:
            for i in range(K):
                r.items[i] = s.base[i]
                r.score[i] = i
        else:
            filled = 0
            for j in range(n):
                filled = offer(r, 0, filled, K, np.float64(s.place[c.items[j]]), c.items[j])
        for i in range(K):
            r.memo[i] = _NOBODY
        for i in range(e.t & 1, K - 1, 2):
            a = r.items[i]
            b = r.items[i + 1]
            if not _settled(p, s, a, b):
                if derive(e.key, i) & _ONE:
                    r.items[i] = b
                    r.items[i + 1] = a
                    a, b = b, a
                r.memo[i] = b
                r.memo[i + 1] = a
        if p.extend == _OUTSIDE and n > K and _looks_outside(e, K):
            key = derive(e.key, K - 1)
            a = r.items[K - 1]
            b = a
            least = np.uint64(0)
            for j in range(n):
                x = c.items[j]
                if s.place[x] > s.place[a] and not _settled(p, s, a, x):
                    u = derive(key, c.token[x])
                    if b == a or u < least:
                        b = x
                        least = u
            if b != a:
                if key & _ONE:
                    a, b = b, a
                r.items[K - 1] = a
                r.memo[K - 1] = b

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        K = r.items.shape[0]
        i = 0
        while i < K:
            a = np.int64(r.items[i])
            b = np.int64(r.memo[i])
            if b == _LOST:
                b = _partner(p, s, e, r, i)
            if b >= 0:
                if i + 1 < K and r.items[i + 1] == b:
                    if clicks[i] and not clicks[i + 1]:
                        s.wins[a * p.L + b] += 1
                    elif clicks[i + 1] and not clicks[i]:
                        s.wins[b * p.L + a] += 1
                    i += 1  # the pair is done
                elif clicks[i]:
                    s.wins[a * p.L + b] += 1
                _reorder(p, s, a, b)
            i += 1
        for i in range(p.K - 1):
            if _settled(p, s, s.base[i + 1], s.base[i]):
                _exchange(s, s.base[i], s.base[i + 1])

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = -s.place[c.items[j]]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        for b in range(p.L):
            s.wins[a * p.L + b] = 0
            s.wins[b * p.L + a] = 0
        i = s.place[a]
        if i < 0:  # a slot that was never in the list
            i = 0
            while s.base[i] >= 0:
                i += 1
        while i + 1 < p.L and s.base[i + 1] >= 0:
            s.base[i] = s.base[i + 1]
            s.place[s.base[i]] = i
            i += 1
        s.base[i] = a
        s.place[a] = i


@kernel
def _settled(p, s, a, b):
    """True if ``a`` is known to be better than ``b``: s > 2 sqrt(m ln(1/delta))."""
    won = s.wins[a * p.L + b]
    lost = s.wins[b * p.L + a]
    lead = np.float64(won - lost)
    return lead > 0.0 and lead * lead > p.width * (won + lost)


@kernel
def _reorder(p, s, a, b):
    """Swap two items in the wrong order that the sweep over neighbours does not compare."""
    if s.place[a] < s.place[b]:
        a, b = b, a
    if (s.place[a] >= p.K or s.place[a] > s.place[b] + 1) and _settled(p, s, a, b):
        _exchange(s, a, b)


@kernel
def _looks_outside(e, K):
    """True if the last of K positions has no partner in the list at this step."""
    return (K - e.t) & 1 == 1 or K == 1


@kernel
def _exchange(s, a, b):
    i = s.place[a]
    j = s.place[b]
    s.base[i] = b
    s.base[j] = a
    s.place[a] = j
    s.place[b] = i


@kernel
def _partner(p, s, e, r, i):
    """The item with which that at position ``i`` was compared, inferred from list, step and base list."""
    K = r.items.shape[0]
    a = r.items[i]
    if i < K - 1 and (i - e.t) & 1 == 0:
        b = r.items[i + 1]
        first, second = (a, b) if s.place[a] < s.place[b] else (b, a)
        if s.place[first] == i and s.place[second] == i + 1 and not _settled(p, s, first, second):
            return np.int64(b)
    stranger = i == K - 1 and s.place[a] > i
    if stranger and p.extend == _OUTSIDE and _looks_outside(e, K) and not _settled(p, s, s.base[i], a):
        return np.int64(s.base[i])
    return np.int64(_NOBODY)
