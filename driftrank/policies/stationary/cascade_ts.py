"""CascadeTS: Thompson sampling with Beta posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field
from driftrank.policies.estimates import believe_clicks_and_skips
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.indices.beta_posterior import (
    check_prior,
    draw_scaled,
    posterior_mean,
    refresh_scales,
    scale_fields,
)


class CascadeTS(IndexPolicy):
    r"""Thompson sampling for the cascade model.

    Each item's attraction is drawn from its posterior, :math:`\theta(a) \sim \mathrm{Beta}(a_0 + S(a), b_0 + F(a))`
    with S clicks and F observations without a click, and the K largest draws are shown.

    Parameters
    ----------
    a0, b0
        The prior.

    Notes
    -----
    For stationary worlds; no guarantee is claimed under change. ``scores`` are posterior means. State: 4 L floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeTS().start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in ("a", None, None):
    ...     learner.update(["a"], clicked)
    >>> learner.scores()["a"]  # the mean of Beta(2, 3)
    0.4
    """

    costly: ClassVar[bool] = True

    a0: float = 1.0
    b0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_prior(self)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"S": field("L"), "F": field("L"), **scale_fields()}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            refresh_scales(p, s, a, s.S[a], s.F[a])

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return draw_scaled(p, s, e, c, a, s.S[a], s.F[a])

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            if clicks[i]:
                s.S[a] += 1.0
            else:
                s.F[a] += 1.0
            refresh_scales(p, s, a, s.S[a], s.F[a])

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = posterior_mean(p, s.S[a], s.F[a])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.S[a] = 0.0
        s.F[a] = 0.0
        refresh_scales(p, s, a, s.S[a], s.F[a])

    believe = staticmethod(believe_clicks_and_skips)
