"""CascadeDUCB: forget by discounting."""

from __future__ import annotations

import math

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field
from driftrank.policies.base import RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.mean_plus_bonus import UNSEEN, bonus_fields, bonus_index, refresh_bonus, rescale_bonus
from driftrank.policies.memory.discounted import CLOCK, Discounted, present
from driftrank.validation import check_number


class CascadeDUCB(Discounted):
    r"""Discounted UCB for the cascade model (Li and de Rijke, 2019, section 3.2).

    Every step multiplies the past by the discount :math:`\gamma`. With :math:`N_t(a)` and :math:`X_t(a)` the
    discounted numbers of observations and clicks of item a, and :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`, the
    index is

    .. math:: U_t(a) = \frac{X_t(a)}{N_t(a)} + 2 \sqrt{\frac{\epsilon \ln N_t(\gamma)}{N_t(a)}} \quad\text{(eqs. 3, 4)}

    Parameters
    ----------
    discount
        :math:`\gamma` in (0, 1]; ``"auto"``: :math:`1 - \frac14 \sqrt{\Upsilon_n/n}` if the horizon n is known,
        otherwise ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step.
    half_life
        Forget by time instead of by steps: the time after which an observation has half its weight, ``"90s"``,
        ``"15m"``, ``"24h"``, ``"7d"``, ``"2w"``, or a number of seconds. See the notes.
    epsilon
        Width of the confidence interval; the paper's experiments use 0.5, its theorems require more than 0.5.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``; the paper's experiments assume 1.
    unseen
        ``"inf"``: items never observed come first; ``"paper"``: the paper's rule x/0 := 1, which makes their index 3.
    clock
        ``"steps"``: :math:`N_t(\gamma)` counts steps, as in the paper; ``"pulls"``: the discounted observations of all
        items, as for the bandit DUCB, which in a cascade is up to K times larger.
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.

    Notes
    -----
    Guarantee: Theorem 1, :math:`R(n) = O(\sqrt{n \Upsilon_n} \ln n)` for known n and :math:`\Upsilon_n`,
    :math:`\epsilon > 1/2` (``driftrank.theory``); it holds for this implementation with ``unseen="paper"`` and a fixed
    discount. A gap smaller than the bonus of an item that is always observed,
    :math:`2\sqrt{\epsilon(1-\gamma)\ln\frac{1}{1-\gamma}}` (0.106 at n = 100,000), is never resolved.

    With a ``half_life`` h, an observation made :math:`\Delta` seconds ago has weight :math:`2^{-\Delta/h}`, and
    :math:`N_t(\gamma)` is the weighted number of steps. Time is the argument ``now`` of ``rank`` and ``update``;
    ``rank`` uses the weights at its time. Late feedback counts as given at the latest time seen. In a simulation a step
    lasts one second.

    State: 4 L + 6 floats, one more with a ``half_life``. A step costs O(L), with roots and divisions only for observed
    items: counts are stored in units of :math:`\gamma^{-t}`, so all items share the factor :math:`q_t` in :math:`U =
    \bar\alpha + q_t r` with cached r.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeDUCB(discount=0.99).start(items=["a", "b", "c"], k=2, seed=1)
    >>> learner.update(["a", "b"], clicks=[0, 1])
    >>> learner.rank()[0]  # never seen, so it comes first
    'c'
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "unseen": UNSEEN, "clock": CLOCK}

    epsilon: float = 0.5
    unseen: str = "inf"
    clock: str = "steps"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("epsilon", self.epsilon, 0, open_low=True)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | {"unseen_index": math.inf if self.unseen == "inf" else 3.0}

    def item_fields(self) -> dict[str, Field]:
        return bonus_fields()

    @staticmethod
    @kernel
    def level(p, s, e):
        unit, log_clock = present(p, s, e)
        return 2.0 * np.sqrt(p.epsilon * log_clock * unit)

    index = staticmethod(bonus_index)
    refresh = staticmethod(refresh_bonus)
    rescaled = staticmethod(rescale_bonus)
