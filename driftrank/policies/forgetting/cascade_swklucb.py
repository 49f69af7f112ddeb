"""CascadeSWKLUCB: KL confidence bounds that forget by a sliding window."""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field
from driftrank.policies.indices.kl_ucb import kl_fields, kl_index, rank_by_kl, refresh_kl
from driftrank.policies.memory.windowed import Windowed


class CascadeSWKLUCB(Windowed):
    r"""Sliding-window KL-UCB for the cascade model: :class:`CascadeSWUCB` with the tighter confidence bound.

    .. math:: U_t(a) = \max\{q: N_t(a)\, \mathrm{kl}(X_t(a)/N_t(a), q) \le \ln(t \wedge \tau)\}

    with :math:`N_t(a)` and :math:`X_t(a)` the observations and clicks of item a in the last :math:`\tau` steps. Items
    not in the window come first.

    Parameters
    ----------
    window
        :math:`\tau` in steps; ``"auto"``: :math:`\lceil 2\sqrt{n \ln(n)/\Upsilon_n} \rceil` if the horizon n is known,
        otherwise ``"doubling"``: the same with n the largest ``first_horizon`` times a power of two up to the step, and
        at least ``max(2, L)``. A duration such as ``"24h"``: the steps within that time count; see
        :class:`CascadeSWUCB`. In a simulation a step lasts one second.
    capacity
        Most steps kept of a window given as a duration.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``.
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.

    Notes
    -----
    No guarantee is known for cascades; the bandit version is that of Garivier and Moulines with the bound of Garivier
    and Cappé (2011). State: 4 L + 3 floats and :math:`\tau` K + 2 integers; with a window in time, :math:`\tau` is the
    capacity, and there are :math:`\tau` more floats. A step costs O(L), usually with K bounds to invert.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSWKLUCB(window=2).start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in ("a", None, None):
    ...     learner.update(["a"], clicked)
    >>> round(learner.scores()["a"], 3)  # two observations without a click: 1 - exp(-ln(2)/2)
    0.293
    """

    optimistic = True

    def item_fields(self) -> dict[str, Field]:
        return kl_fields()

    @staticmethod
    @kernel
    def level_of(p, steps):
        return log(steps)

    index = staticmethod(kl_index)
    rank = staticmethod(rank_by_kl(Windowed.level))
    refresh = staticmethod(refresh_kl)
