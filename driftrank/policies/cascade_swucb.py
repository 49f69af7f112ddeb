"""CascadeSWUCB: forget by a sliding window."""

from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.tuples import Field
from driftrank.policies.base import IndexPolicy, Problem
from driftrank.policies.bonus import UNSEEN, bonus_fields, bonus_index, refresh_bonus
from driftrank.policies.windowed import Windowed
from driftrank.validation import check_number


class CascadeSWUCB(Windowed):
    r"""Sliding-window UCB for the cascade model (Li and de Rijke, 2019, section 3.2).

    Only the last :math:`\tau` steps count. With :math:`N_t(a)` and :math:`X_t(a)` the observations and clicks of item
    a in them, the index is

    .. math:: U_t(a) = \frac{X_t(a)}{N_t(a)} + \sqrt{\frac{\epsilon \ln(t \wedge \tau)}{N_t(a)}} \quad\text{(eqs. 5, 6)}

    Parameters
    ----------
    window
        :math:`\tau` in steps; ``"auto"``: :math:`\lceil 2\sqrt{n \ln(n)/\Upsilon_n} \rceil` where the horizon n is
        known, else ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step,
        and at least ``max(2, L)``. A duration, ``"90s"``, ``"15m"``, ``"24h"``, ``"7d"`` or ``"2w"``: the steps of that
        time count; see the notes.
    capacity
        The most steps that are kept of a window given as a duration; with more traffic than that, the oldest leave
        earlier.
    epsilon
        Width of the confidence interval; the paper's experiments use 0.5, its theorems ask for more than 0.5.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``; the paper's experiments assume 1.
    unseen
        ``"inf"``: items not in the window come first; ``"paper"``: the paper's rule x/0 := 1, which makes their index
        2.
    first_horizon, restart
        Of the doubling trick: the horizon assumed at first, and whether the past is wiped at every doubling.

    Notes
    -----
    Guarantee: Theorem 2, :math:`R(n) = O(\sqrt{n \Upsilon_n \ln n})` for known n and :math:`\Upsilon_n`,
    :math:`\epsilon > 1/2` (``driftrank.theory``); it holds for this implementation with ``unseen="paper"`` and a fixed
    window. Observed items count, not displayed ones: the paper's pseudo-code counts :math:`a \in R_s`, its text and
    its update loop count what was observed.

    With a window in time, steps leave at the first ``update`` at which they are too old, whatever the traffic, and the
    number of steps held, the coming one included, takes the place of :math:`t \wedge \tau`. The time is what ``update``
    is told as ``now``; feedback that comes late counts as made at the latest time seen. In a simulation a step lasts
    one second.

    State: 4 L + 3 floats and :math:`\tau` K + 2 integers; with a window in time, where :math:`\tau` is the capacity (or
    the number of steps, while that is smaller), another :math:`\tau` floats. A step costs O(L), whatever the window.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSWUCB(window=2).start(items=["a", "b", "c"], k=2, seed=1)
    >>> for clicked in ("b", None, None):
    ...     learner.update(["b", "c"], clicked)
    >>> round(learner.scores()["b"], 3)  # the click has left the window
    0.416
    """

    choices = {**IndexPolicy.choices, "unseen": UNSEEN}

    epsilon: float = 0.5
    unseen: str = "inf"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, 0, open_low=True)

    def parameters(self, problem: Problem) -> dict[str, float]:
        return super().parameters(problem) | {"unseen_index": math.inf if self.unseen == "inf" else 2.0}

    def item_fields(self) -> dict[str, Field]:
        return bonus_fields()

    @staticmethod
    @kernel
    def level_of(p, steps):
        return np.sqrt(p.epsilon * log(steps))

    index = staticmethod(bonus_index)
    refresh = staticmethod(refresh_bonus)
