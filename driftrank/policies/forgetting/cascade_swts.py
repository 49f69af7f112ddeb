"""CascadeSWTS: Thompson sampling that forgets by a sliding window."""

from __future__ import annotations

from typing import ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field
from driftrank.policies.indices.beta_posterior import (
    check_prior,
    draw_scaled,
    posterior_mean,
    refresh_scales,
    scale_fields,
)
from driftrank.policies.memory.windowed import Windowed


class CascadeSWTS(Windowed):
    r"""Sliding-window Thompson sampling for the cascade model (after Trovò, Paladino, Restelli and Gatti, 2020).

    Each item's attraction is drawn from :math:`\theta(a) \sim \mathrm{Beta}(a_0 + S_t(a), b_0 + F_t(a))`, with S clicks
    and F observations without a click in the last :math:`\tau` steps, and the K largest draws are shown.

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
    a0, b0
        The prior.

    Notes
    -----
    No guarantee is known for cascades. ``scores`` are posterior means. State: 4 L + 3 floats and :math:`\tau` K + 2
    integers; with a window in time, :math:`\tau` is the capacity, and there are :math:`\tau` more floats. A step costs
    L draws, independent of the window.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeSWTS(window=2).start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in ("a", None, None):
    ...     learner.update(["a"], clicked)
    >>> learner.scores()["a"]  # the click has left the window: the mean of Beta(1, 3)
    0.25
    """

    costly: ClassVar[bool] = True

    a0: float = 1.0
    b0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self)

    def item_fields(self) -> dict[str, Field]:
        return scale_fields()

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return draw_scaled(p, s, e, c, a, s.X[a], s.N[a] - s.X[a])

    @staticmethod
    @kernel
    def refresh(p, s, a):
        refresh_scales(p, s, a, s.X[a], s.N[a] - s.X[a])

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = posterior_mean(p, s.X[a], s.N[a] - s.X[a])
