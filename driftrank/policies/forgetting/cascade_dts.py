"""CascadeDTS: Thompson sampling that forgets by discounting."""

from __future__ import annotations

from typing import ClassVar

from driftrank.kernels import kernel
from driftrank.policies.indices.beta_posterior import check_prior, draw, posterior_mean
from driftrank.policies.memory.discounted import Discounted, present


@kernel
def _weight(p, s, e):
    unit, _ = present(p, s, e)
    return 1.0 / unit


class CascadeDTS(Discounted):
    r"""Discounted Thompson sampling for the cascade model (after Raj and Kalyani, 2017).

    Every step multiplies the past by the discount :math:`\gamma`. Each item's attraction is drawn from :math:`\theta(a)
    \sim \mathrm{Beta}(a_0 + S_t(a), b_0 + F_t(a))`, with the discounted numbers S of clicks and F of observations
    without a click, and the K largest draws are shown. The prior is not discounted, so an item not observed for long is
    like a new one.

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
    first_horizon, restart
        Doubling trick: the horizon assumed at first; True to reset the statistics at every doubling.
    a0, b0
        The prior.

    Notes
    -----
    No guarantee is known for cascades. ``scores`` are posterior means. State: 2 L + 6 floats, one more with a
    ``half_life``. A step costs L draws.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeDTS(discount=0.5).start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in ("a", None, None):
    ...     learner.update(["a"], clicked)
    >>> learner.scores()["a"]  # the mean of Beta(1 + 1/4, 1 + 3/2)
    0.3333333333333333
    """

    costly: ClassVar[bool] = True

    a0: float = 1.0
    b0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self)

    level = staticmethod(_weight)

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return draw(p, e, c, a, s.X[a] * q, max(0.0, s.N[a] - s.X[a]) * q)

    @staticmethod
    @kernel
    def refresh(p, s, a):
        pass

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        q = _weight(p, s, e)
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = posterior_mean(p, s.X[a] * q, max(0.0, s.N[a] - s.X[a]) * q)
