"""CascadeTS: Thompson sampling with Beta posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.distributions import beta, beta_above_one, gamma_scale
from driftrank.kernels.rng import derive
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import IndexPolicy
from driftrank.validation import check_number


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
        check_number("a0", self.a0, 0, open_low=True)
        check_number("b0", self.b0, 0, open_low=True)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"S": field("L"), "F": field("L"), "scale_S": field("L"), "scale_F": field("L")}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            _refresh(p, s, a)

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        key = derive(e.key, c.token[a])
        if p.a0 < 1.0 or p.b0 < 1.0:
            return beta(key, p.a0 + s.S[a], p.b0 + s.F[a])
        return beta_above_one(key, p.a0 + s.S[a], s.scale_S[a], p.b0 + s.F[a], s.scale_F[a])

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            if clicks[i]:
                s.S[a] += 1.0
            else:
                s.F[a] += 1.0
            _refresh(p, s, a)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            a = c.items[j]
            out[j] = (p.a0 + s.S[a]) / (p.a0 + p.b0 + s.S[a] + s.F[a])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.S[a] = 0.0
        s.F[a] = 0.0
        _refresh(p, s, a)


@kernel
def _refresh(p, s, a):
    """What a draw needs of the counts, so that no draw takes a root."""
    s.scale_S[a] = gamma_scale(p.a0 + s.S[a] - 1.0 / 3.0)
    s.scale_F[a] = gamma_scale(p.b0 + s.F[a] - 1.0 / 3.0)
