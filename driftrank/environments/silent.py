"""Silent: changes outside the top k, invisible to a policy that shows only the top k."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.environments.order import better, kth_best
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.validation import check_integer, check_number


class Silent(QueryEnvironment):
    r"""Only items outside the top k change: in every epoch but the first, another one of them is among the best.

    The item is drawn in every run and epoch from those outside the top k by default; its attraction becomes
    :math:`\alpha(k) + \text{gain} (1 - \alpha(k))`, where :math:`\alpha(k)` is that of the k-th best. The top items
    keep theirs, so a policy that shows nothing else cannot notice.

    Parameters
    ----------
    period
        Steps of an epoch.
    gain
        Gain over the k-th best, as a fraction of the largest possible.

    >>> env = Silent([[0.8, 0.6, 0.2, 0.1]], k=2, period=100, gain=0.5)
    >>> sorted(env.attraction(101).round(3).tolist(), reverse=True)[:3]
    [0.8, 0.8, 0.6]
    """

    kind: ClassVar[str] = "abrupt"

    period: int = 10_000
    gain: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)
        check_number("gain", self.gain, 0, 1, open_low=True)
        for name, alpha in self.queries.attraction.items():
            if len(alpha) == self.k:
                raise ValueError(f"k={self.k!r}: query {name!r} has no items outside its top {self.k}")

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        L = base.shape[0]
        for a in range(L):
            alpha[a] = base[a]
        epoch = (t - 1) // p.period
        if epoch > 0:
            last = kth_best(base, p.k)
            left = below(derive(key, epoch), L - p.k)
            for a in range(L):
                if better(base, last, a):
                    if left == 0:
                        alpha[a] = base[last] + p.gain * (1.0 - base[last])
                    left -= 1
        return (epoch + 1) * p.period + 1
