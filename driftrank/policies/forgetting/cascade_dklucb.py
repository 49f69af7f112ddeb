"""CascadeDKLUCB: KL confidence bounds that forget by discounting."""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.kl_ucb import kl_fields, kl_index, rank_by_kl, refresh_kl
from driftrank.policies.memory.discounted import CLOCK, Discounted, present


@kernel
def _level(p, s, e):
    # counts are in units, and so is the level. A count so small that the quotient overflows has the bound 1, as it
    # should
    unit, log_clock = present(p, s, e)
    return log_clock * unit


class CascadeDKLUCB(Discounted):
    r"""Discounted KL-UCB for the cascade model: :class:`CascadeDUCB` with the tighter confidence bound.

    .. math:: U_t(a) = \max\{q: N_t(a)\, \mathrm{kl}(X_t(a)/N_t(a), q) \le \ln N_t(\gamma)\}

    with :math:`N_t(a)` and :math:`X_t(a)` the discounted numbers of observations and clicks of item a, and
    :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`. Items never observed come first.

    Parameters
    ----------
    discount
        :math:`\gamma` in (0, 1]; ``"auto"``: :math:`1 - \frac14 \sqrt{\Upsilon_n/n}` if the horizon n is known,
        otherwise ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step.
    half_life
        Forget by time instead of by steps: the time after which an observation has half its weight, ``"24h"``,
        ``"7d"``, or a number of seconds; see :class:`CascadeDUCB`. In a simulation a step lasts one second.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``.
    clock
        ``"steps"``: :math:`N_t(\gamma)` counts steps; ``"pulls"``: the discounted observations of all items.
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.

    Notes
    -----
    No guarantee is known for cascades; the bandit version is that of Garivier and Moulines with the bound of Garivier
    and Cappé (2011). State: 4 L + 6 floats, one more with a ``half_life``. A step costs O(L), usually with K bounds to
    invert.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeDKLUCB(discount=0.5).start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in (None, "a", None):
    ...     learner.update(["a"], clicked)
    >>> round(learner.scores()["a"], 3)  # X/N = 0.5/1.75 and ln N_4(1/2) = ln 1.875
    0.698
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "clock": CLOCK}

    clock: str = "steps"

    def item_fields(self) -> dict[str, Field]:
        return kl_fields()

    level = staticmethod(_level)
    index = staticmethod(kl_index)
    rank = staticmethod(rank_by_kl(_level))
    refresh = staticmethod(refresh_kl)
