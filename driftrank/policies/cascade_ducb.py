"""CascadeDUCB: forget by discounting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import IndexPolicy, Problem
from driftrank.validation import check_integer, check_number

#: what an item that was never observed is worth: more than any other, or the paper's x/0 := 1
UNSEEN = ("inf", "paper")
#: what the discounted time counts: steps as in the paper, or observations of all items as in Garivier and Moulines
CLOCK = ("steps", "pulls")
_PULLS = 1


@kernel
def discount_for(horizon, n_breakpoints):
    """gamma = 1 - (1/4) sqrt(Upsilon_n / n) (section 4.1); at least 1/2, as Theorem 1 asks."""
    return max(0.5, 1.0 - 0.25 * np.sqrt(n_breakpoints / horizon))


class CascadeDUCB(IndexPolicy):
    r"""Discounted UCB for the cascade model (Li and de Rijke, 2019, section 3.2).

    Every step multiplies the past by the discount :math:`\gamma`. With :math:`N_t(a)` and :math:`X_t(a)` the
    discounted numbers of observations and clicks of item a, and :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`, the
    index is

    .. math:: U_t(a) = \frac{X_t(a)}{N_t(a)} + 2 \sqrt{\frac{\epsilon \ln N_t(\gamma)}{N_t(a)}} \quad\text{(eqs. 3, 4)}

    Parameters
    ----------
    discount
        :math:`\gamma` in (0, 1]; ``"auto"``: :math:`1 - \frac14 \sqrt{\Upsilon_n/n}` where the horizon n is known, else
        ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step.
    epsilon
        Width of the confidence interval; the paper's experiments use 0.5, its theorems ask for more than 0.5.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``; the paper's experiments assume 1.
    unseen
        ``"inf"``: items never observed come first; ``"paper"``: the paper's rule x/0 := 1, which makes their index 3.
    clock
        ``"steps"``: :math:`N_t(\gamma)` counts steps, as in the paper; ``"pulls"``: the discounted observations of all
        items, as for the bandit DUCB, which in a cascade is up to K times larger.
    first_horizon, restart
        Of the doubling trick: the horizon assumed at first, and whether the past is wiped at every doubling.

    Notes
    -----
    Guarantee: Theorem 1, :math:`R(n) = O(\sqrt{n \Upsilon_n} \ln n)` for known n and :math:`\Upsilon_n`,
    :math:`\epsilon > 1/2` (``driftrank.theory``); it holds for this implementation with ``unseen="paper"`` and a fixed
    discount. A gap smaller than the bonus of an item that is always observed,
    :math:`2\sqrt{\epsilon(1-\gamma)\ln\frac{1}{1-\gamma}}` (0.106 at n = 100,000), is never resolved.

    State: 4 L + 6 floats. A step costs O(L) with no root or division but for the observed items: the counts are kept
    in units of :math:`\gamma^{-t}`, so that all items share the factor :math:`q_t` in :math:`U = \bar\alpha + q_t r`
    with r cached.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeDUCB(discount=0.99).start(items=["a", "b", "c"], k=2, seed=1)
    >>> learner.update(["a", "b"], clicks=[0, 1])
    >>> learner.rank()[0]  # never seen, so it comes first
    'c'
    """

    claims: ClassVar[tuple[str, ...]] = ("stationary", "abrupt")
    choices = {**IndexPolicy.choices, "unseen": UNSEEN, "clock": CLOCK}

    discount: float | str = "auto"
    epsilon: float = 0.5
    n_breakpoints: int = 1
    unseen: str = "inf"
    clock: str = "steps"
    first_horizon: int = 1
    restart: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount not in ("auto", "doubling"):
            check_number('discount ("auto", "doubling" or a number)', self.discount, 0, 1, open_low=True)
        check_number("epsilon", self.epsilon, 0, open_low=True)
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_integer("first_horizon", self.first_horizon, 1)

    def parameters(self, problem: Problem) -> dict[str, float]:
        doubling = self.discount == "doubling" or (self.discount == "auto" and problem.horizon is None)
        n = problem.horizon or self.first_horizon
        gamma = pure(discount_for)(n, self.n_breakpoints) if isinstance(self.discount, str) else self.discount
        return super().parameters(problem) | {
            "discount": float(gamma),
            "doubling": int(doubling),
            "unseen_index": math.inf if self.unseen == "inf" else 3.0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        # N and X are counted in units of gamma^-t, which is what an observation at step t weighs; mean + q * radius
        # is the index
        scalars = {
            "unit": field(1, fill=1.0),
            "growth": field(1),  # 1/gamma, what the unit is multiplied by
            "clock": field(1),  # discounted time so far
            "log_clock": field(1),  # ln N_t(gamma) of the coming step
            "gamma": field(1),
            "assumed": field(1),
        }
        return {"N": field("L"), "X": field("L"), "mean": field("L"), "radius": field("L"), **scalars}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        _set_discount(s, p.discount)
        if p.doubling:
            s.assumed[0] = p.first_horizon
            _set_discount(s, discount_for(s.assumed[0], p.n_breakpoints))
        for a in range(s.mean.shape[0]):
            s.mean[a] = p.unseen_index

    @staticmethod
    @kernel
    def level(p, s, e):
        return 2.0 * np.sqrt(p.epsilon * s.log_clock[0] * s.unit[0])

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return s.mean[a] + q * s.radius[a]

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        s.unit[0] *= s.growth[0]
        if s.unit[0] > 1e150:
            _rescale(s)
        one = s.unit[0]
        for i in range(observed):
            a = r.items[i]
            s.N[a] += one
            if clicks[i]:
                s.X[a] += one
            per_one = 1.0 / s.N[a]
            s.mean[a] = s.X[a] * per_one
            s.radius[a] = np.sqrt(per_one)
        before = s.clock[0]
        s.clock[0] = s.gamma[0] * before + (observed if p.clock == _PULLS else 1)
        changed = s.clock[0] != before  # the clock of steps comes to rest at 1/(1-gamma), and so does its logarithm
        if p.doubling and e.t + 1 >= 2.0 * s.assumed[0]:
            changed = True
            s.assumed[0] *= 2.0
            _set_discount(s, discount_for(s.assumed[0], p.n_breakpoints))
            if p.restart:
                s.clock[0] = 0.0
                s.unit[0] = 1.0
                for a in range(s.N.shape[0]):
                    _wipe(p, s, a)
        if changed:
            coming = max(s.clock[0], 1.0) if p.clock == _PULLS else s.gamma[0] * s.clock[0] + 1.0
            s.log_clock[0] = log(coming)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        _wipe(p, s, a)


@kernel
def _set_discount(s, gamma):
    s.gamma[0] = gamma
    s.growth[0] = 1.0 / gamma


@kernel
def _wipe(p, s, a):
    s.N[a] = 0.0
    s.X[a] = 0.0
    s.mean[a] = p.unseen_index
    s.radius[a] = 0.0


@kernel
def _rescale(s):
    """Bring the unit back to 1 before gamma^-t overflows."""
    for a in range(s.N.shape[0]):
        if s.N[a] > 0.0:
            s.N[a] = max(s.N[a] / s.unit[0], 1e-290)  # an item out of sight for ages stays seen
            s.X[a] /= s.unit[0]
            s.radius[a] = np.sqrt(1.0 / s.N[a])
    s.unit[0] = 1.0
