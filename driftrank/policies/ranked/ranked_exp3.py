"""RankedEXP3: an adversarial bandit for every position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field
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
    exp3_rate,
    exp3_start,
    loss_rate,
)
from driftrank.policies.ranked.base import RankedBandits
from driftrank.validation import check_number


class RankedEXP3(RankedBandits):
    r"""Ranked bandits with EXP3 at every position (Radlinski, Kleinberg and Joachims, 2008); a baseline of the paper.

    The bandit of a position proposes item a with probability p(a). In the loss form, with :math:`S(a)` the sum of
    :math:`(1 - \text{reward})/p(a)` over the steps at which a was proposed,

    .. math:: p(a) \propto \exp(-\eta S(a)), \qquad \eta = \sqrt{\frac{2 \ln L}{n L}};

    in the form of Auer, Cesa-Bianchi, Freund and Schapire (2002), with :math:`G(a)` the sum of
    :math:`\text{reward}/p(a)`,

    .. math:: p(a) = (1-g) \frac{w(a)}{\sum_b w(b)} + \frac gL, \quad w(a) = \exp(g\,G(a)/L), \quad
        g = \min\Bigl(1, \sqrt{\tfrac{L \ln L}{(e-1) n}}\Bigr).

    Parameters
    ----------
    form
        ``"loss"`` or ``"auer"``.
    rate
        :math:`\eta` or g; ``"auto"``: as above if the horizon n is known, otherwise ``"anytime"``: :math:`\eta_t =
        \sqrt{\ln L/(t L)}`, or g with the step t for n.

    Notes
    -----
    Guarantee: expected reward within :math:`O(K \sqrt{n L \ln L})` of 1 - 1/e times that of the best *fixed* list, for
    any behaviour of users; there is no guarantee relative to changing lists. If only some items are candidates,
    probabilities are conditional on drawing one of them. A new item enters with the mean weight of the others.
    ``scores`` are the probabilities at the top position. Every position learns at every step, also below a click
    (feedback ``"all"``).

    State: 2 K L + K floats and L integers. A step costs O(K L), with one exponential per position (K L if the rate is
    "anytime").

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.RankedEXP3(rate=0.5).start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[0])  # a loss of 1 / (1/2)
    >>> round(learner.scores()["a"], 4)  # 1 / (1 + e)
    0.2689
    """

    choices = {**RankedBandits.choices, "form": FORMS}

    form: str = "loss"
    rate: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate not in ("auto", "anytime"):
            name = 'rate ("auto", "anytime" or a number)'
            if self.form == "auer":
                check_number(name, self.rate, 0, 1, open_low=True)
            else:
                check_number(name, self.rate, 0, open_low=True)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        log_L = float(pure(log)(problem.L))
        anytime = self.rate == "anytime" or (self.rate == "auto" and problem.horizon is None)
        if not isinstance(self.rate, str):
            rate = float(self.rate)
        elif anytime:
            rate = 0.0
        else:
            rule = pure(loss_rate if self.form == "loss" else auer_rate)
            rate = float(rule(log_L, problem.L, problem.horizon))
        return super().parameters(problem) | {"rate": rate, "anytime": int(anytime), "log_L": log_L}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return exp3_fields()

    @staticmethod
    @kernel
    def init(p, s, e, c):
        exp3_start(p, s, c)

    @staticmethod
    @kernel
    def level(p, s, e):
        return exp3_rate(p, e.t)

    @staticmethod
    @kernel
    def propose(p, s, e, c, i, key, q):
        return exp3_draw(p, s, c, i, key, q)

    @staticmethod
    @kernel
    def learn(p, s, e, i, b, reward, probability):
        q = exp3_rate(p, e.t)
        if probability < 0.0:
            probability = exp3_probability(p, s, i, b, q)
        exp3_learn(p, s, i, b, reward, probability, q)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        q = exp3_rate(p, e.t)
        exp3_probabilities(p, s, c, 0, q, out)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        exp3_enter(p, s, a, exp3_rate(p, e.t))
