"""LinearFeatures: attraction as a linear function of features."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import NEVER, Environment
from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.rng import derive
from driftrank.queries import Queries
from driftrank.validation import check_integer, check_number


class LinearFeatures(Environment):
    r"""Attraction is a linear function of an item's features.

    :math:`\alpha_t(a) = x_a^\top \theta_t`, clipped to [0, 1]. For contextual policies: observations of one item are
    informative about the others. An item's d features are :math:`x_a = (1, z_a) / \sqrt 2` with a random unit vector
    :math:`z_a` of d - 1 numbers, the same in every run; and :math:`\theta_t = \sqrt 2\, (m, s v_t)` with another,
    :math:`v_t`. So attraction is :math:`m + s\, z_a^\top v_t`.

    Parameters
    ----------
    L, K, d
        Items of a query, positions, features of an item (the first is constant).
    n_queries
        Number of queries, each with its own items; their first theta is the same.
    middle, spread
        m and s. With s at most m and 1 - m nothing is clipped.
    period
        A new theta is drawn (in every run) after this many steps; None: it never changes.
    seed
        Seed of the features and the first theta.

    >>> env = LinearFeatures(L=30, d=4)
    >>> env.features(0).shape, bool(np.allclose((env.features(0) ** 2).sum(axis=1), 1))
    ((30, 4), True)
    """

    kind: ClassVar[str] = "stationary"

    L: int = 50
    K: int = 3
    d: int = 5
    n_queries: int = 5
    middle: float = 0.25
    spread: float = 0.25
    period: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("L", self.L, 1)
        check_integer("K", self.K, 1, self.L)
        check_integer("d", self.d, 2)
        check_integer("n_queries", self.n_queries, 1)
        check_number("middle", self.middle, 0, 1)
        check_number("spread", self.spread, 0, 1)
        check_integer("seed", self.seed, 0)
        if self.period is not None:
            check_integer("period", self.period, 1)
            object.__setattr__(self, "kind", "abrupt")
        rng = np.random.default_rng([self.seed, 20160711])
        theta = _units(rng.standard_normal((1, self.d - 1)))[0]
        known, queries = {}, {}
        for i in range(self.n_queries):
            name = f"linear-{self.seed}-{i}"
            # rounded, so that the last bits of a matrix product do not matter
            z = _units(rng.standard_normal((self.L, self.d - 1))).round(8)
            queries[name] = np.clip(self.middle + self.spread * (z @ theta), 0, 1).round(8)
            known[name] = np.column_stack([queries[name], z])
        object.__setattr__(self, "queries", Queries.of(queries))
        object.__setattr__(self, "k", self.K)
        object.__setattr__(self, "_known", known)

    def parameters(self) -> dict[str, float]:
        return super().parameters() | {"period": NEVER if self.period is None else self.period}

    def features(self, query: str | int = 0) -> NDArray[np.float64]:
        x: NDArray[np.float64] = self.given(query) / np.sqrt(2.0)
        x[:, 0] = np.sqrt(0.5)
        return x

    def given(self, query: str | int = 0) -> NDArray[np.float64]:
        known: NDArray[np.float64] = vars(self)["_known"][self.lookup(query)[0]]
        return known

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        """``base``: per item the first attraction, then z."""
        epoch = (t - 1) // p.period
        until = (epoch + 1) * p.period + 1
        L = base.shape[0]
        if epoch == 0:
            for a in range(L):
                alpha[a] = base[a, 0]
            return until
        draw = derive(key, epoch)
        square = 0.0
        for a in range(L):
            alpha[a] = 0.0
        for i in range(1, base.shape[1]):
            v = normal(derive(draw, i))
            square += v * v
            for a in range(L):
                alpha[a] += base[a, i] * v
        scale = p.spread / np.sqrt(square)
        for a in range(L):
            alpha[a] = min(max(p.middle + scale * alpha[a], 0.0), 1.0)
        return until


def _units(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths: NDArray[np.float64] = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return rows / lengths
