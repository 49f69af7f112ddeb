"""Ridge regression with discounting, shared by the contextual policies.

Matrices are symmetric and stored as their upper triangle, row by row. A Cholesky factor is computed from the sums at
every update (or at least every few thousand observations), so that errors do not accumulate. Zero entries are skipped,
which makes features with many zeros (indicators of topics, or of the items themselves) cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp
from driftrank.kernels.layout import Field, field, integers
from driftrank.policies.base import RankingProblem
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.memory.discounted import discount_for
from driftrank.policies.parameters import seconds
from driftrank.validation import check_integer, check_number

_LN2 = 0.6931471805599453


class Linear(IndexPolicy):
    r"""Policies that model attraction as linear in the features of items, :math:`\alpha(a) = x_a^\top \theta`.

    With :math:`M` and :math:`B` initially :math:`I` and 0, an update multiplies the past by the discount
    :math:`\gamma`, :math:`M \leftarrow \gamma M + (1-\gamma) I` and :math:`B \leftarrow \gamma B`, so that the ridge
    stays, and then adds :math:`x x^\top / \sigma^2` and :math:`y x` for every observed item, where y is 1 if it was
    clicked. The estimate is :math:`\theta = M^{-1} B / \sigma^2`.

    A subclass writes ``init``, ``update``, ``forget`` and ``features_changed`` out of :func:`prepare`, :func:`learn`,
    :func:`renew`, :func:`look_anew` and :func:`estimate`.

    Items without features have an indicator each (one-hot), and then every axis belongs to an item: its statistics are
    forgotten with it, and its randomness belongs to the item and not to its slot.
    """

    abstract: ClassVar[bool] = True
    contextual: ClassVar[bool] = True

    #: gamma in (0, 1], or the rule that sets it
    discount: float | str = 1.0
    #: the time after which an observation has half its weight, instead of a discount per step
    half_life: float | str | None = None
    n_breakpoints: int = 1
    #: the noise of a click, in the regression
    sigma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount != "auto":
            check_number('discount ("auto" or a number)', self.discount, 0, 1, open_low=True)
        if self.half_life is not None:
            seconds("half_life", self.half_life)
            if self.discount != 1:
                raise ValueError(f"half_life={self.half_life!r}: cannot be combined with discount={self.discount!r}")
        check_integer("n_breakpoints", self.n_breakpoints, 1)
        check_number("sigma", self.sigma, 1e-6, 1e6)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        timed = self.half_life is not None
        automatic = self.discount == "auto"
        gamma = pure(discount_for)(problem.horizon or 1, self.n_breakpoints) if automatic else self.discount
        numbers = super().parameters(problem)
        numbers.pop("half_life", None)
        return numbers | {
            "features": problem.features or problem.L,  # items without features have an indicator each
            "discount": float(gamma),
            "doubling": int(automatic and problem.horizon is None),
            "timed": int(timed),
            "decay": _LN2 / seconds("half_life", self.half_life) if timed else 0.0,
        }

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        d = p["features"]
        return {
            "features": field("L", d),
            "columns": field(d, "L"),  # transposed, one item per column: sums over all items are faster
            "M": field(d, d),
            "B": field(d),
            "R": field(d, d),  # upper, M = R^T R
            "inverse": field(d),  # of R's diagonal
            "theta": field(d),
            "gamma": field(1),
            "assumed": field(1, fill=1.0),  # the horizon, if the discount is found by doubling it
            "last": field(1, fill=-np.inf),  # the time of the last update
            "one_hot": integers(1),  # 1 if axis a belongs to the item in slot a
        }

    def moved(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for name in ("M", "M2"):
            if name in new:
                fresh = range(len(old[name]), len(new[name]))
                new[name][fresh, fresh] = 1.0  # the ridge

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        d = p.features
        x = s.features[a * d : a * d + d]
        estimate = 0.0
        square = 0.0
        seen = 0.0  # x^T (M - I) x: the observations in the direction of this item
        for i in range(d):
            estimate += x[i] * s.theta[i]
            square += x[i] * x[i]
            if x[i] != 0.0:
                seen += (s.M[i * d + i] - 1.0) * x[i] * x[i]
                for j in range(i + 1, d):
                    seen += 2.0 * s.M[i * d + j] * x[i] * x[j]
        if not seen > 0.0:
            return np.nan, 0.0
        return estimate, seen / square / square * (p.sigma * p.sigma)


@kernel
def prepare(p, s):
    """The state before the first step."""
    s.gamma[0] = discount_for(1.0, p.n_breakpoints) if p.doubling else p.discount
    d = p.features
    s.one_hot[0] = d == p.L
    for i in range(d):
        s.M[i * d + i] = 1.0
        s.R[i * d + i] = 1.0
        s.inverse[i] = 1.0
        if s.one_hot[0] and not own_axis(s.features, i, d):
            s.one_hot[0] = 0
    for a in range(p.L):
        _copy_features(p, s, a)


@kernel
def learn(p, s, e, r, clicks, observed):
    """Discount M and B and add the observations. Returns the discount."""
    d = p.features
    gamma = s.gamma[0]
    if p.timed:
        gamma = _left(p, s, e)
        s.last[0] = max(s.last[0], e.now)
    if gamma < 1.0:
        fade(s.M, gamma, d)
        for i in range(d):
            s.B[i] *= gamma
    add_squares(p, s.features, s.M, r, observed)
    for n in range(observed):
        if clicks[n]:
            a = np.intp(r.items[n])
            for i in range(d):
                s.B[i] += s.features[a * d + i]
    if p.doubling and e.t + 1 >= 2.0 * s.assumed[0]:
        s.assumed[0] *= 2.0
        s.gamma[0] = discount_for(s.assumed[0], p.n_breakpoints)
    return gamma


@kernel
def _left(p, s, e):
    """The discount for the time since the last update; 1 if time goes backwards."""
    elapsed = e.now - s.last[0]
    if s.last[0] == -np.inf or not elapsed > 0.0:
        return 1.0
    return exp(-elapsed * p.decay)


@kernel
def fade(M, gamma, d):
    """M <- gamma M + (1 - gamma) I."""
    for i in range(d):
        row = M[i * d : i * d + d]
        for j in range(i, d):
            row[j] *= gamma
        row[i] += 1.0 - gamma


@kernel
def add_squares(p, features, M, r, observed):
    """M <- M + x x^T / sigma^2 for every observed item."""
    d = p.features
    weight = 1.0 / (p.sigma * p.sigma)
    for n in range(observed):
        a = np.intp(r.items[n])
        x = features[a * d : a * d + d]
        for i in range(d):
            u = x[i] * weight
            if u != 0.0:
                row = M[i * d : i * d + d]
                for j in range(i, d):
                    row[j] += u * x[j]


@kernel
def renew(p, s, a):
    """Prepare slot ``a`` for a new item. True if its axis was reset: the statistics of an indicator are lost with its
    item, those of features remain."""
    _copy_features(p, s, a)
    if s.one_hot[0]:
        if a < p.features and own_axis(s.features, a, p.features):
            s.B[a] = 0.0
            wipe_axis(s.M, a, p.features)
            return True
        s.one_hot[0] = 0  # from now on, axes are features
    return False


@kernel
def look_anew(p, s, slots):
    """Note that the features of the items in these slots have changed. Statistics of features remain."""
    for i in range(slots.shape[0]):
        a = np.int64(slots[i])
        _copy_features(p, s, a)
        if s.one_hot[0] and not (a < p.features and own_axis(s.features, a, p.features)):
            s.one_hot[0] = 0


@kernel
def _copy_features(p, s, a):
    for i in range(p.features):
        s.columns[i * p.L + a] = s.features[a * p.features + i]


@kernel
def wipe_axis(M, a, d):
    for i in range(d):
        M[min(i, a) * d + max(i, a)] = 0.0
    M[a * d + a] = 1.0


@kernel
def own_axis(features, a, d):
    """True if the features of the item in slot ``a`` are its indicator."""
    for i in range(d):
        if features[a * d + i] != (1.0 if i == a else 0.0):
            return False
    return True


@kernel
def estimate(p, s):
    """Compute the factor of M, and theta."""
    d = p.features
    if s.one_hot[0]:  # M is diagonal
        for i in range(d):
            s.R[i * d + i] = root_of_pivot(s.M[i * d + i], s.M[i * d + i])
            s.inverse[i] = 1.0 / s.R[i * d + i]
            s.theta[i] = s.B[i] / (p.sigma * p.sigma) * s.inverse[i] * s.inverse[i]
        return
    factorise(s.M, s.R, s.inverse, d)
    solve(p, s)


@kernel
def solve(p, s):
    """theta = M^-1 B / sigma^2, by the factor of M."""
    d = p.features
    for i in range(d):
        s.theta[i] = s.B[i] / (p.sigma * p.sigma)
    for k in range(d):
        s.theta[k] *= s.inverse[k]
        u = s.theta[k]
        if u != 0.0:
            row = s.R[k * d : k * d + d]
            for j in range(k + 1, d):
                s.theta[j] -= row[j] * u
    back_substitute(s.R, s.inverse, s.theta, d)


@kernel
def root_of_pivot(pivot, diagonal):
    """Bound a pivot from below. M - I has no negative eigenvalue, nor has its remainder in a factorisation, so a pivot
    below 1 is a rounding error; so is one that has lost all digits of its diagonal entry (enormous features)."""
    return np.sqrt(max(pivot, 1.0, 1e-12 * diagonal))


@kernel
def factorise(M, R, inverse, d):
    """R upper with M = R^T R, and the reciprocals of its diagonal."""
    for i in range(d * d):
        R[i] = M[i]
    for k in range(d):
        top = R[k * d : k * d + d]
        top[k] = root_of_pivot(top[k], M[k * d + k])
        inverse[k] = 1.0 / top[k]
        for j in range(k + 1, d):
            u = top[j] * inverse[k]
            if u * u > R[j * d + j]:  # larger only by rounding, which must not grow
                most = root_of_pivot(R[j * d + j], M[j * d + j])
                u = min(max(u, -most), most)
            top[j] = u
        for i in range(k + 1, d):
            u = top[i]
            if u != 0.0:
                row = R[i * d : i * d + d]
                for j in range(i, d):
                    row[j] -= u * top[j]


@kernel
def add_to_factor(R, inverse, x, d):
    """R of M + x x^T from that of M, in O(d^2). x is overwritten."""
    for k in range(d):
        if x[k] != 0.0:
            row = R[k * d : k * d + d]
            before = inverse[k]
            root = np.sqrt(row[k] * row[k] + x[k] * x[k])
            row[k] = root
            inverse[k] = 1.0 / root
            sine = x[k] * before
            cosine = root * before
            back = 1.0 / cosine
            for j in range(k + 1, d):
                row[j] = (row[j] + sine * x[j]) * back
                x[j] = cosine * x[j] - sine * row[j]


@kernel
def back_substitute(R, inverse, x, d):
    """Solve R y = x in place. With x standard normal, y has the covariance M^-1."""
    for n in range(d):
        k = d - 1 - n
        row = R[k * d : k * d + d]
        u = x[k]
        for j in range(k + 1, d):
            u -= row[j] * x[j]
        x[k] = u * inverse[k]


@kernel
def add_columns(columns, weight, n, out):
    """Add weight . x, over the first ``n`` features, to ``out`` for every item."""
    L = out.shape[0]
    for j in range(n):
        u = weight[j]
        if u != 0.0:
            x = columns[j * L : j * L + L]
            for a in range(L):
                out[a] += u * x[a]


@kernel
def clear(x):
    for a in range(x.shape[0]):
        x[a] = 0.0
