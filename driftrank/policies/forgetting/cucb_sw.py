"""CUCBSW: combinatorial UCB with a sliding window."""

from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field
from driftrank.policies.base import RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.mean_plus_bonus import bonus_fields, refresh_bonus
from driftrank.policies.memory.windowed import Windowed
from driftrank.validation import check_number

#: the regret bound that the window minimises: without gaps, or with the smallest gap
FORMS = ("gap_free", "gap_dependent")
_GAP_DEPENDENT = 1


def cucb_parameters(problem: RankingProblem) -> dict[str, float]:
    """Parameters of the index: ln n (-1 if n is unknown), and unseen items first."""
    return {"log_n": float(pure(log)(problem.horizon)) if problem.horizon else -1.0, "unseen_index": math.inf}


@kernel
def cucb_level(p, s, e):
    return np.sqrt(p.exploration * (p.log_n if p.log_n >= 0.0 else log(np.float64(e.t))))


@kernel
def cucb_index(p, s, e, c, a, q):
    u = s.mean[a] + q * s.radius[a]
    return 1.0 if 1.0 < u < np.inf else u  # items not in the window stay above those at the bound


class CUCBSW(Windowed):
    r"""Sliding-window combinatorial UCB (Chen, Wang, Zhao and Zheng, 2021), for cascades.

    With :math:`N_t(a)` and :math:`X_t(a)` the observations and clicks of item a in the last w steps, the index is

    .. math:: U_t(a) = \min\Bigl(1, \frac{X_t(a)}{N_t(a)} + \sqrt{\frac{3 \ln n}{2 N_t(a)}}\Bigr)

    where n is the horizon, or the step t if it is unknown. Items not in the window come first. It differs from
    :class:`CascadeSWUCB` in the wider interval, clipped to 1, and in the window.

    Parameters
    ----------
    window
        w in steps; ``"auto"``: by ``form``, rounded up, if the horizon is known, otherwise ``"doubling"``: the same
        with n the largest ``first_horizon`` times a power of two up to the step, and at least ``max(2, L)``. A duration
        such as ``"24h"``: the steps within that time count; see :class:`CascadeSWUCB`. In a simulation a step lasts one
        second.
    form
        ``"gap_free"``: :math:`w = \min(L^{1/3} n^{2/3} K^{-1/3} V^{-2/3}, n)`; ``"gap_dependent"``: :math:`w =
        \min(\sqrt{n/V}, n)`.
    variation
        V, the total variation of attractions; ``"auto"``: ``n_breakpoints``.
    exploration
        The constant under the root, 1.5 in the paper.
    capacity
        Most steps kept of a window given as a duration.
    n_breakpoints
        :math:`\Upsilon_n`, used for V by ``"auto"``.
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.

    Notes
    -----
    Guarantee, for known n and V: regret :math:`\tilde O((LV)^{1/3} (Kn)^{2/3})` for the gap-free window. State: 4 L + 3
    floats and w K + 2 integers; with a window in time, w is the capacity, and there are w more floats. A step costs
    O(L), independent of the window.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CUCBSW(window=400).start(items=["a", "b"], k=1, seed=0, horizon=1000)
    >>> for n in range(400):
    ...     learner.update(["a"], [n % 2])
    >>> round(learner.scores()["a"], 3)  # 1/2 + sqrt(3 ln(1000) / 800)
    0.661
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "form": FORMS}

    form: str = "gap_free"
    variation: float | str = "auto"
    exploration: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variation != "auto":
            check_number('variation ("auto" or a number)', self.variation, 0, open_low=True)
        check_number("exploration", self.exploration, 0)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | cucb_parameters(problem)

    def numbers(self, problem: RankingProblem) -> dict[str, float]:
        V = float(self.n_breakpoints if isinstance(self.variation, str) else self.variation)
        return super().numbers(problem) | {"variation": V}

    def item_fields(self) -> dict[str, Field]:
        return bonus_fields()

    @staticmethod
    @kernel
    def window_for(p, n):
        if p.form == _GAP_DEPENDENT:
            w = np.sqrt(n / p.variation)
        else:
            w = exp((log(p.L / p.K) + 2.0 * log(n / p.variation)) / 3.0)
        return min(w, n) * (1.0 - 1e-12)  # so that rounding up does not add a step to an integer

    level = staticmethod(cucb_level)
    index = staticmethod(cucb_index)
    refresh = staticmethod(refresh_bonus)
