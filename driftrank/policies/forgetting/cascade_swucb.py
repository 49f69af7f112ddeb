"""CascadeSWUCB: forget by a sliding window."""

from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field
from driftrank.policies.base import RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.mean_plus_bonus import UNSEEN, bonus_fields, bonus_index, refresh_bonus
from driftrank.policies.memory.windowed import Windowed
from driftrank.validation import check_number


class CascadeSWUCB(Windowed):
    r"""Sliding-window UCB for the cascade model (Li and de Rijke, 2019, section 3.2).

    Only the last :math:`\tau` steps count. With :math:`N_t(a)` and :math:`X_t(a)` the observations and clicks of item
    a in them, the index is

    .. math:: U_t(a) = \frac{X_t(a)}{N_t(a)} + \sqrt{\frac{\epsilon \ln(t \wedge \tau)}{N_t(a)}} \quad\text{(eqs. 5, 6)}

    Parameters
    ----------
    window
        :math:`\tau` in steps; ``"auto"``: :math:`\lceil 2\sqrt{n \ln(n)/\Upsilon_n} \rceil` if the horizon n is known,
        otherwise ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step, and
        at least ``max(2, L)``. A duration, ``"90s"``, ``"15m"``, ``"24h"``, ``"7d"`` or ``"2w"``: the steps within that
        time count; see the notes.
    capacity
        Most steps kept of a window given as a duration; with more traffic, the oldest leave earlier.
    epsilon
        Width of the confidence interval; the paper's experiments use 0.5, its theorems require more than 0.5.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``; the paper's experiments assume 1.
    unseen
        ``"inf"``: items not in the window come first; ``"paper"``: the paper's rule x/0 := 1, which makes their index
        2.
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.

    Notes
    -----
    Guarantee: Theorem 2, :math:`R(n) = O(\sqrt{n \Upsilon_n \ln n})` for known n and :math:`\Upsilon_n`,
    :math:`\epsilon > 1/2` (``driftrank.theory``); it holds for this implementation with ``unseen="paper"`` and a fixed
    window. Observed items are counted, not displayed ones: the paper's pseudo-code counts :math:`a \in R_s`, its text
    and its update loop count observations.

    With a window in time, steps leave at the first ``update`` at which they are too old, and the number of steps held,
    including the current one, replaces :math:`t \wedge \tau`. Time is the argument ``now`` of ``update``; late feedback
    counts as given at the latest time seen. In a simulation a step lasts one second.

    State: 4 L + 3 floats and :math:`\tau` K + 2 integers; with a window in time, where :math:`\tau` is the capacity (or
    the number of steps if smaller), another :math:`\tau` floats. A step costs O(L), independent of the window.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSWUCB(window=2).start(items=["a", "b", "c"], k=2, seed=1)
    >>> for clicked in ("b", None, None):
    ...     learner.update(["b", "c"], clicked)
    >>> round(learner.scores()["b"], 3)  # the click has left the window
    0.416
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "unseen": UNSEEN}

    epsilon: float = 0.5
    unseen: str = "inf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, 0, open_low=True)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | {"unseen_index": math.inf if self.unseen == "inf" else 2.0}

    def item_fields(self) -> dict[str, Field]:
        return bonus_fields()

    @staticmethod
    @kernel
    def level_of(p, steps):
        return np.sqrt(p.epsilon * log(steps))

    index = staticmethod(bonus_index)
    refresh = staticmethod(refresh_bonus)
