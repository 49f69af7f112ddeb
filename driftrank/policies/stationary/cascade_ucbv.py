"""CascadeUCBV: variance-aware confidence bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy


class CascadeUCBV(IndexPolicy):
    r"""UCB-V for the cascade model (Vial, Shakkottai and Srikant, 2022).

    With N(a) observations of item a, of mean :math:`\bar\alpha(a)` and variance :math:`\nu(a) = \bar\alpha(a)(1 -
    \bar\alpha(a))`,

    .. math:: U_t(a) = \min\Bigl(1, \bar\alpha(a) + \sqrt{\frac{4 \nu(a) \ln t}{N(a)}} + \frac{6 \ln t}{N(a)}\Bigr).

    Notes
    -----
    Guarantee, in a stationary world: regret of order :math:`\sqrt{L n \ln n}` for any attractions, without the factor
    :math:`\sqrt K` of fixed-width bounds when clicks are rare. Its constants are large: it starts more slowly than
    :class:`CascadeUCB1`. Items never observed come first, before those whose bound is clipped to 1; the latter are
    ordered by tie-breaks.

    State: 5 L floats. A step costs O(L), with roots and divisions for the observed items only.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeUCBV().start(items=["a", "b"], k=1, seed=0)
    >>> learner.update(["a"], clicks=[0])
    >>> learner.scores()  # 6 ln 2 is more than 1
    {'a': 1.0, 'b': inf}
    """

    optimistic = True

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field("L"),
            "X": field("L"),
            "mean": field("L", fill=math.inf),
            "root": field("L"),  # sqrt(4 nu / N)
            "share": field("L"),  # 6 / N
        }

    @staticmethod
    @kernel
    def level(p, s, e):
        log_t = log(np.float64(e.t))
        return np.sqrt(log_t), log_t

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        root, log_t = q
        mean = s.mean[a]
        # a mean above 1 marks an item never observed
        return max(mean, min(1.0, mean + root * s.root[a] + log_t * s.share[a]))

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = r.items[i]
            s.N[a] += 1.0
            if clicks[i]:
                s.X[a] += 1.0
            mean = s.X[a] / s.N[a]
            s.mean[a] = mean
            s.root[a] = np.sqrt(4.0 * mean * (1.0 - mean) / s.N[a])
            s.share[a] = 6.0 / s.N[a]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0
        s.mean[a] = np.inf
        s.root[a] = 0.0
        s.share[a] = 0.0

    believe = staticmethod(believe_counts)
