"""TSCascade: Thompson sampling with one normal number for all items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import SECOND_SET, derive
from driftrank.policies.estimates import believe_counts
from driftrank.policies.index_policy import IndexPolicy


class TSCascade(IndexPolicy):
    r"""Thompson sampling for the cascade model with a shared normal number (Cheung, Tan and Zhong, 2019).

    One :math:`Z_t \sim \mathcal N(0, 1)` is drawn per step for all items; with N(a) observations of item a of mean
    :math:`\bar\alpha(a)` (initially 0) and :math:`\nu(a) = \bar\alpha(a)(1 - \bar\alpha(a))` the index is

    .. math:: \theta_t(a) = \bar\alpha(a) + Z_t \max\Bigl(\sqrt{\frac{\nu(a) \ln(t+1)}{N(a)+1}},
        \frac{\ln(t+1)}{N(a)+1}\Bigr).

    Notes
    -----
    Guarantee, in a stationary world: :math:`R(n) = O(\sqrt{K L n} \ln n + L \ln^{5/2} n)`. If :math:`Z_t` is positive,
    the least observed items come first, otherwise they come last, all together: independent numbers per item would be a
    different algorithm. Indices are not clipped. ``scores`` are the means.

    State: 5 L floats. A step costs O(L), with roots and divisions for the observed items only.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.TSCascade().start(items=["a", "b"], k=1, seed=0)
    >>> for clicked in ("a", None):
    ...     learner.update(["a"], clicked)
    >>> learner.scores()
    {'a': 0.5, 'b': 0.0}
    """

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {
            "N": field("L"),
            "X": field("L"),
            "mean": field("L"),
            "root": field("L"),  # sqrt(nu / (N + 1))
            "share": field("L", fill=1.0),  # 1 / (N + 1)
        }

    @staticmethod
    @kernel
    def level(p, s, e):
        log_t = log(e.t + 1.0)
        # the items' own keys are used for tie-breaking
        return normal(derive(e.key, SECOND_SET)), np.sqrt(log_t), log_t

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        z, root, log_t = q
        return s.mean[a] + z * max(root * s.root[a], log_t * s.share[a])

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
            s.share[a] = 1.0 / (s.N[a] + 1.0)
            s.root[a] = np.sqrt(mean * (1.0 - mean) * s.share[a])

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = s.mean[c.items[j]]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0
        s.mean[a] = 0.0
        s.root[a] = 0.0
        s.share[a] = 1.0

    believe = staticmethod(believe_counts)
