"""RankedEXP3S: an adversarial bandit that tracks changes, for every position."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import RankingProblem
from driftrank.policies.indices.exp3 import (
    SHARING,
    exp3_draw,
    exp3_enter,
    exp3_probabilities,
    exp3_probability,
    exp3_share,
    exp3_start,
    sharing_fields,
)
from driftrank.policies.ranked.base import RankedBandits
from driftrank.validation import check_integer, check_number

_E = 2.718281828459045


@kernel
def sharing_rate(L, n, n_breakpoints):
    """The rate g of Exp3.S for n steps and a number of breakpoints."""
    return min(1.0, np.sqrt(L * (n_breakpoints * log(L * np.float64(n)) + _E) / ((_E - 1.0) * n)))


class RankedEXP3S(RankedBandits):
    r"""Ranked bandits with Exp3.S at every position (Auer, Cesa-Bianchi, Freund and Schapire, 2002, section 8).

    The bandit of a position proposes item a with probability :math:`p(a) = (1-g) w(a)/W + g/L`, W the sum of the
    weights. When its proposal b earned a reward,

    .. math:: w(b) \leftarrow w(b) \exp\Bigl(\frac{g\, \text{reward}}{p(b) L}\Bigr) + \frac{e\,a}{L} W, \qquad
        w(c) \leftarrow w(c) + \frac{e\,a}{L} W \quad (c \ne b).

    The shared part of the weight keeps the weights of inferior items from vanishing, so that the bandit can return to
    them: the direction that the paper's conclusion names for adversarial change.

    Parameters
    ----------
    rate
        g in (0, 1]; ``"auto"``: :math:`\min(1, \sqrt{L (\Upsilon_n \ln(L n) + e) / ((e-1) n)})`.
    sharing
        a in [0, 1]; ``"auto"``: 1/n. With 0 this is RankedEXP3 in Auer's form.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``.

    Notes
    -----
    If the horizon n is unknown, ``"auto"`` uses the largest power of two up to the step; the weights are kept when it
    doubles.

    Guarantee, for known n and :math:`\Upsilon_n`: expected reward within :math:`O(K \sqrt{n L \Upsilon_n \ln(n L)})` of
    1 - 1/e times that of the best sequence of lists that changes :math:`\Upsilon_n` times. Candidates, new items,
    ``scores`` and feedback (``"all"``) are as for :class:`RankedEXP3`.

    State: K L + 3 floats and L integers. A step costs O(K L), with an exponential for every reward.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.RankedEXP3S(rate=0.1, sharing=0.01).start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[1])  # weights 1.132 and 1.027
    >>> round(learner.scores()["a"], 4)
    0.5219
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")

    rate: float | str = "auto"
    sharing: float | str = "auto"
    n_breakpoints: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate != "auto":
            check_number('rate ("auto" or a number)', self.rate, 0, 1, open_low=True)
        if self.sharing != "auto":
            check_number('sharing ("auto" or a number)', self.sharing, 0, 1)
        check_integer("n_breakpoints", self.n_breakpoints, 1)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        n = problem.horizon or 1
        auto = pure(sharing_rate)(problem.L, n, self.n_breakpoints), 1.0 / n
        return super().parameters(problem) | {
            "rate": float(auto[0] if isinstance(self.rate, str) else self.rate),
            "sharing": float(auto[1] if isinstance(self.sharing, str) else self.sharing),
            "doubles_rate": int(self.rate == "auto" and problem.horizon is None),
            "doubles_sharing": int(self.sharing == "auto" and problem.horizon is None),
            "form": SHARING,
            "anytime": 0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        # g; the part e a / L of the total weight that every arm gets; the horizon they are for
        return sharing_fields() | {"rate": field(1), "part": field(1), "assumed": field(1, fill=1.0)}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        exp3_start(p, s, c)
        s.rate[0] = p.rate
        s.part[0] = _E * p.sharing / p.L

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
        exp3_share(p, s, i, b, reward, probability, s.rate[0], s.part[0])

    @staticmethod
    @kernel
    def finish(p, s, e):
        if e.t + 1 >= 2.0 * s.assumed[0]:
            s.assumed[0] *= 2.0
            if p.doubles_rate:
                s.rate[0] = sharing_rate(p.L, s.assumed[0], p.n_breakpoints)
            if p.doubles_sharing:
                s.part[0] = _E / (s.assumed[0] * p.L)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        exp3_probabilities(p, s, c, 0, s.rate[0], out)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        exp3_enter(p, s, a, s.rate[0])
