"""DBGD: dueling bandit gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import EXPLORATION_COIN, SECOND_SET, derive, uniform
from driftrank.kernels.top_k import wins_tie
from driftrank.policies.contextual.linear_ranker import LinearRanker, linear_score
from driftrank.validation import check_number


class DBGD(LinearRanker):
    r"""Dueling bandit gradient descent for linear rankers (Yue and Joachims, 2009), with team-draft interleaving.

    Every list is a duel of the ranker :math:`\theta` with :math:`\theta + \delta u`, for a random unit vector u. Their
    rankings are interleaved by team draft (Radlinski, Kurup and Joachims, 2008): in every round of two positions a coin
    decides who goes first, and each contributes its best item that is not yet shown. The ranker whose items get more
    clicks wins; if that is :math:`\theta + \delta u`,

    .. math:: \theta \leftarrow \theta + \gamma u.

    Parameters
    ----------
    delta
        :math:`\delta`, how far away the other ranker is; 1 is usual.
    rate
        :math:`\gamma`; 0.01 is usual.

    Notes
    -----
    A baseline of learning to rank from features. The paper bounds regret if the probability to win a duel is a
    smooth and concave function of the two rankers, which it is not for ranked lists, and projects :math:`\theta` to
    a bounded set; here it is not bounded. It counts all clicks of a list (feedback ``"all"``), and learns nothing
    from a list that was made elsewhere, since that is not a duel. Without features every item has a weight of its
    own, and only those of shown items move. State: :math:`Ld + 2d` floats, one integer. A list costs
    :math:`O(nd + nK)` for n candidates and d draws.

    Examples
    --------
    >>> import driftrank as dr
    >>> topics = {"cup final": [1, 0], "derby": [1, 0], "election": [0, 1], "budget": [0, 1]}
    >>> learner = dr.DBGD().start(items=list(topics), k=2, features=topics)
    >>> for _ in range(500):
    ...     ranking = learner.rank()
    ...     learner.update(ranking, clicks=[int(item == "election") for item in ranking])
    >>> scores = learner.scores()
    >>> scores["budget"] == scores["election"] > scores["derby"]
    True
    """

    memo: ClassVar[int] = 2  # who contributed the item (1: the other ranker), and u of its features
    own_lists: ClassVar[bool] = True

    rate: float = 0.01
    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("delta", self.delta, 0, 1e6, open_low=True)

    def scratch(self, p: Mapping[str, Any]) -> int:
        need: int = 2 * p["L"] + p["features"]  # scores, those of the direction, the direction
        return need

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {**super().fields(p), "direction": field(p["features"])}

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        score = r.scratch[: p.L]
        along = r.scratch[p.L : 2 * p.L]
        u = r.scratch[2 * p.L : 2 * p.L + p.features]
        key = derive(e.key, SECOND_SET)
        if s.one_hot[0]:  # a draw belongs to an item
            square = 0.0
            for j in range(c.items.shape[0]):
                a = c.items[j]
                along[a] = normal(derive(key, c.token[a]))
                square += along[a] * along[a]
            for j in range(c.items.shape[0]):
                along[c.items[j]] /= np.sqrt(square)
        else:
            _draw_direction(key, u)
        for j in range(c.items.shape[0]):
            a = c.items[j]
            score[a] = linear_score(p, s, a)
            if not s.one_hot[0]:
                first = int(a) * p.features
                along[a] = 0.0
                for i in range(p.features):
                    along[a] += s.features[first + i] * u[i]
        coins = derive(e.key, EXPLORATION_COIN)
        other = 0
        for i in range(r.items.shape[0]):
            other = 1 - other
            if i % 2 == 0:
                other = 1 if uniform(derive(coins, i // 2)) < 0.5 else 0
            best = -1
            for j in range(c.items.shape[0]):
                a = int(c.items[j])
                shown = False
                for n in range(i):
                    if r.items[n] == a:
                        shown = True
                if not shown:
                    value = score[a] + other * p.delta * along[a]
                    if best < 0 or value > r.score[i] or (value == r.score[i] and wins_tie(a, best, e.key, c, p.ties)):
                        best = a
                        r.score[i] = value
            r.items[i] = best
            r.memo[2 * i] = other
            r.memo[2 * i + 1] = along[best]

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        if r.items.shape[0] == 0 or r.memo[0] < 0.0:
            return
        won = 0
        for i in range(r.items.shape[0]):
            if clicks[i]:
                won += 1 if r.memo[2 * i] > 0.5 else -1
        if won <= 0:
            return
        if s.one_hot[0]:
            for i in range(r.items.shape[0]):
                s.theta[r.items[i]] += p.rate * r.memo[2 * i + 1]
            return
        _draw_direction(derive(e.key, SECOND_SET), s.direction)
        for i in range(p.features):
            s.theta[i] += p.rate * s.direction[i]


@kernel
def _draw_direction(key, u):
    """Draw a random unit vector."""
    square = 0.0
    for i in range(u.shape[0]):
        u[i] = normal(derive(key, i))
        square += u[i] * u[i]
    for i in range(u.shape[0]):
        u[i] /= np.sqrt(square)
