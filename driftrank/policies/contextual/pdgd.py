"""PDGD: pairwise differentiable gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.distributions import inner_uniform
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import derive
from driftrank.kernels.top_k import insert, listed
from driftrank.policies.contextual.linear_ranker import LinearRanker, linear_score

#: the smallest weight relative to the largest
_SMALLEST = 1e-300


class PDGD(LinearRanker):
    r"""Pairwise differentiable gradient descent for linear rankers (Oosterhuis and de Rijke, 2018).

    Lists are drawn from a Plackett-Luce model over the scores :math:`f(a) = \theta^\top x_a`: position i shows item a,
    of those not shown above, with probability :math:`e^{f(a)} / D_i`, where :math:`D_i = \sum_b e^{f(b)}` over the
    candidates not shown above. An item k that was clicked is preferred to every item l that was not, if l stands above
    the last click or next below it. With :math:`R^*` the list R in which k and l are exchanged,

    .. math:: \theta \leftarrow \theta + \eta \sum_{k > l} \rho_{kl}\,
              \frac{e^{f(k)} e^{f(l)}}{(e^{f(k)} + e^{f(l)})^2}\, (x_k - x_l), \qquad
              \rho_{kl} = \frac{P(R^*)}{P(R) + P(R^*)}.

    The weights :math:`\rho` remove the preference for items at better positions. Scores, and the sums :math:`D_i`, are
    those of the time when the list was made, which travel with it.

    Parameters
    ----------
    rate
        :math:`\eta`; 0.1 as in the paper.

    Notes
    -----
    A baseline of learning to rank from features; no bound on regret is known. The lists of ``rank`` carry exact
    ``propensities``. From a list that was made elsewhere it learns as if its items had been the only candidates.
    State: :math:`Ld + d + 2K` floats, one integer. A list costs :math:`O(nd + nK)` for n candidates, an update
    :math:`O(K^3 + K^2 d)`.

    Examples
    --------
    >>> import driftrank as dr
    >>> topics = {"cup final": [1, 0], "derby": [1, 0], "election": [0, 1], "budget": [0, 1]}
    >>> learner = dr.PDGD().start(items=list(topics), k=2, features=topics)
    >>> for _ in range(200):
    ...     learner.update(["derby", "election"], clicks="election")
    >>> scores = learner.scores()
    >>> scores["budget"] == scores["election"] > scores["derby"]
    True
    """

    memo: ClassVar[int] = 2  # the propensity, and the score
    propensities: ClassVar[bool] = True

    def scratch(self, p: Mapping[str, Any]) -> int:
        need: int = p["L"]
        return need

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        # of the list that is learnt from, by position: e^f, and D
        return {**super().fields(p), "weight": field("K"), "left": field("K")}

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        K = r.items.shape[0]
        top = linear_score(p, s, c.items[0])
        for j in range(c.items.shape[0]):
            a = c.items[j]
            r.scratch[a] = linear_score(p, s, a)
            top = max(top, r.scratch[a])
        # G = -ln E with an exponential number E: the largest f + G are the smallest E / e^f
        filled = 0
        for j in range(c.items.shape[0]):
            a = c.items[j]
            r.scratch[a] = max(exp(r.scratch[a] - top), _SMALLEST)
            u = log(inner_uniform(derive(e.key, c.token[a]))) / r.scratch[a]
            filled = insert(r, 0, filled, K, u, a, e, c, p.ties)
        left = 0.0
        for j in range(c.items.shape[0]):
            if not listed(r, c.items[j]):
                left += r.scratch[c.items[j]]
        for i in range(K - 1, -1, -1):  # upwards, so that nothing is subtracted
            w = r.scratch[r.items[i]]
            left += w
            r.memo[2 * i] = w / left
            r.memo[2 * i + 1] = top + log(w)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        K = r.items.shape[0]
        considered = 0
        for i in range(K):
            if clicks[i]:
                considered = min(i + 2, K)
        if considered == 0:
            return
        lost = r.memo[0] < 0.0
        top = _score_then(p, s, r, 0, lost)
        for i in range(K):
            top = max(top, _score_then(p, s, r, i, lost))
        left = 0.0
        for i in range(K - 1, -1, -1):
            w = max(exp(_score_then(p, s, r, i, lost) - top), _SMALLEST)
            left += w
            s.weight[i] = w
            s.left[i] = left if lost else w / r.memo[2 * i]
        for k in range(considered):
            for n in range(considered):
                if clicks[k] and not clicks[n]:
                    _prefer(p, s, r, k, n)


@kernel
def _score_then(p, s, r, i, lost):
    """The score of an item when the list was made; now, if that is lost."""
    return linear_score(p, s, r.items[i]) if lost else r.memo[2 * i + 1]


@kernel
def _prefer(p, s, r, k, n):
    """Take the step for the item at position ``k``, which is preferred to that at ``n``."""
    wk = s.weight[k]
    wn = s.weight[n]
    first = min(k, n)
    up = s.weight[first]  # the weights of the upper and the lower one
    down = s.weight[max(k, n)]
    ratio = 1.0  # of the probabilities of the list with both exchanged and of this one
    for i in range(first + 1, max(k, n) + 1):
        ratio *= s.left[i] / (max(s.left[i] - down, 0.0) + up)
    step = p.rate * (ratio / (1.0 + ratio)) * (wk / (wk + wn)) * (wn / (wk + wn))
    of_k = int(r.items[k]) * p.features
    of_n = int(r.items[n]) * p.features
    for i in range(p.features):
        s.theta[i] += step * (s.features[of_k + i] - s.features[of_n + i])
