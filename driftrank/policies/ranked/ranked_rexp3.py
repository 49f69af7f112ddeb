"""RankedREXP3: an adversarial bandit with periodic restarts, for every position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import RankingProblem
from driftrank.policies.indices.exp3 import (
    FORMS,
    auer_rate,
    exp3_draw,
    exp3_enter,
    exp3_fields,
    exp3_learn,
    exp3_probabilities,
    exp3_probability,
    exp3_restart,
    exp3_start,
)
from driftrank.policies.ranked.base import RankedBandits
from driftrank.validation import check_integer, check_number


@kernel
def batch_for(log_L, L, n, variation):
    """D = ceil((L ln L)^(1/3) (n/V)^(2/3)), at least 1."""
    return max(1.0, np.ceil(exp((log(L * log_L) + 2.0 * log(n / variation)) / 3.0)))


class RankedREXP3(RankedBandits):
    r"""Ranked bandits with Rexp3 at every position (Besbes, Gur and Zeevi, 2014).

    EXP3 in Auer's form (see :class:`RankedEXP3`), reset every D steps,

    .. math:: D = \Bigl\lceil (L \ln L)^{1/3} (n/V)^{2/3} \Bigr\rceil, \qquad
        g = \min\Bigl(1, \sqrt{\tfrac{L \ln L}{(e-1) D}}\Bigr),

    where V is the variation budget :math:`\sum_t \max_a |\alpha_{t+1}(a) - \alpha_t(a)|`: the amount of change matters,
    abrupt or gradual, not the number of breakpoints.

    Parameters
    ----------
    batch
        D in steps; ``"auto"``: as above.
    rate
        g in (0, 1]; ``"auto"``: as above.
    variation
        V, used by ``"auto"``.

    Notes
    -----
    If the horizon n is unknown, ``batch="auto"`` uses the largest power of two up to the step, and a batch also ends
    when that doubles.

    Guarantee, for known n and V: expected reward within :math:`O(K (L \ln L\, V)^{1/3} n^{2/3})` of 1 - 1/e times that
    of the best lists, which may change at every step. Candidates, new items, ``scores`` and feedback
    (``"all"``) are as for :class:`RankedEXP3`.

    State: 2 K L + K + 4 floats and L integers. A step costs O(K L), with an exponential for every reward.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.RankedREXP3(batch=2, rate=0.5).start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[1])  # w = exp(0.5 / (0.5 x 2))
    >>> round(learner.scores()["a"], 4)
    0.5612
    >>> learner.update(["a"], clicks=[1])
    >>> learner.scores()["a"]  # a new batch
    0.5
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")

    batch: int | str = "auto"
    rate: float | str = "auto"
    variation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch != "auto":
            check_integer('batch ("auto" or steps)', self.batch, 1)
        if self.rate != "auto":
            check_number('rate ("auto" or a number)', self.rate, 0, 1, open_low=True)
        check_number("variation", self.variation, 0, open_low=True)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        log_L = float(pure(log)(problem.L))
        doubling = self.batch == "auto" and problem.horizon is None
        steps = self.batch
        if isinstance(steps, str):
            steps = pure(batch_for)(log_L, problem.L, problem.horizon or 1, self.variation)
        rate = pure(auer_rate)(log_L, problem.L, steps) if isinstance(self.rate, str) else self.rate
        return super().parameters(problem) | {
            "batch": float(steps),
            "rate": float(rate),
            "auto_rate": int(self.rate == "auto"),
            "doubling": int(doubling),
            "log_L": log_L,
            "form": FORMS.index("auer"),
            "anytime": 0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        scalars = {
            "batch": field(1),
            "rate": field(1),
            "age": field(1),  # steps of this batch so far
            "assumed": field(1, fill=1.0),  # the horizon of the doubling trick
        }
        return exp3_fields() | scalars

    @staticmethod
    @kernel
    def init(p, s, e, c):
        exp3_start(p, s, c)
        s.batch[0] = p.batch
        s.rate[0] = p.rate

    @staticmethod
    @kernel
    def level(p, s, e):
        return s.rate[0]

    @staticmethod
    @kernel
    def propose(p, s, e, c, i, key, q):
        return exp3_draw(p, s, c, i, key, q)

    @staticmethod
    @kernel
    def learn(p, s, e, i, b, reward, probability):
        if probability < 0.0:
            probability = exp3_probability(p, s, i, b, s.rate[0])
        exp3_learn(p, s, i, b, reward, probability, s.rate[0])

    @staticmethod
    @kernel
    def finish(p, s, e):
        s.age[0] += 1.0
        over = s.age[0] >= s.batch[0]
        if p.doubling and e.t + 1 >= 2.0 * s.assumed[0]:
            over = True
            s.assumed[0] *= 2.0
            s.batch[0] = batch_for(p.log_L, p.L, s.assumed[0], p.variation)
            if p.auto_rate:
                s.rate[0] = auer_rate(p.log_L, p.L, s.batch[0])
        if over:
            s.age[0] = 0.0
            exp3_restart(p, s)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        exp3_probabilities(p, s, c, 0, s.rate[0], out)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        exp3_enter(p, s, a, s.rate[0])
