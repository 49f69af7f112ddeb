"""CascadeLinUCB: upper confidence bounds with features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import RankingProblem
from driftrank.policies.contextual.ridge import (
    Linear,
    add_columns,
    add_squares,
    clear,
    estimate,
    factorise,
    fade,
    learn,
    look_anew,
    prepare,
    renew,
    root_of_pivot,
    wipe_axis,
)
from driftrank.policies.index_policy import IndexPolicy
from driftrank.validation import check_number

#: the radius of a discounted estimate: with the matrix of squared discounts, or by M alone
RADIUS = ("exact", "simple")


@kernel
def confidence(d, K, sigma, n, weighed):
    """c = sqrt(d ln(1 + nK/(d sigma^2)) + 2 ln(nK))/sigma + 1 (Theorem 1 of the paper).

    ``weighed`` replaces the n in the first logarithm if steps are discounted.
    """
    return np.sqrt(d * log(1.0 + weighed * K / (d * sigma * sigma)) + 2.0 * log(n * K)) / sigma + 1.0


def _sum_of_powers(x: float, n: int) -> float:
    """1 + x + ... + x^(n-1)."""
    return float((1.0 - pure(exp)(n * pure(log)(x))) / (1.0 - x))


class CascadeLinUCB(Linear):
    r"""Linear UCB for the cascade model (Zong, Ni, Sung, Ke, Wen and Kveton, 2016), with discounting.

    Attraction is modelled as linear in the features of an item, :math:`\alpha(a) = x_a^\top \theta`, so observations of
    one item inform the estimates of similar ones, including new ones. The K items with the largest

    .. math:: U(a) = \min\Bigl(1,\; x_a^\top \theta + c \sqrt{x_a^\top M^{-1} x_a}\Bigr)

    are shown, where

    .. math:: M \leftarrow \gamma M + (1-\gamma) I + \sum x x^\top / \sigma^2, \quad
              B \leftarrow \gamma B + \sum y x, \quad \theta = M^{-1} B / \sigma^2

    with the sums over the items observed at the step, where y is 1 for a click; initially M = I and B = 0.

    Parameters
    ----------
    c
        Width of the confidence interval. ``"auto"``: :math:`\frac1\sigma \sqrt{d \ln(1 + \frac{n_\gamma K}{d\sigma^2})
        + 2 \ln(nK)} + 1`, with n the horizon, or the step if it is unknown, and :math:`n_\gamma = \sum_{t<n}
        \gamma^{2t}`.
    radius
        Radius of a discounted estimate. ``"exact"``: :math:`\sqrt{x^\top M^{-1} \tilde M M^{-1} x}` instead of the root
        above, with :math:`\tilde M` discounted by :math:`\gamma^2`, as in D-LinUCB (Russac, Vernade and Cappé, 2019);
        ``"simple"``: the root above, which is never smaller. Without discount both are the same.
    sigma
        :math:`\sigma`, the noise of a click.
    discount
        :math:`\gamma` in (0, 1]; 1, as in the paper, forgets nothing. ``"auto"``: as for ``CascadeDUCB``, :math:`1 -
        \frac14 \sqrt{\Upsilon_n/n}` if the horizon n is known, otherwise the same with n the largest power of two up to
        the step.
    half_life
        Forget by time instead of by steps: the time after which an observation has half its weight, ``"24h"``,
        ``"7d"``, or a number of seconds, between consecutive updates. In a simulation a step lasts one second.
    n_breakpoints
        :math:`\Upsilon_n`, used by ``"auto"``.

    Notes
    -----
    Features are given to ``start(items, k, features=...)`` and ``add_items(items, features=...)``, the same number for
    every item, preferably with norm at most 1. There is no intercept: add a feature that is 1 for all items if
    attraction has a base level. Without features every item has its own indicator, and nothing is shared.

    Guarantee, in a stationary linear world with features and :math:`\theta` of norm at most 1, with known n and
    ``discount=1``: :math:`R(n) \le 2cK \sqrt{dn \ln(1 + \frac{nK}{d\sigma^2}) / \ln(1 + \sigma^{-2})} + 1` (Theorem 1
    of the paper). None is proven under change.

    State: :math:`2Ld + 3L + 3d^2 + 3d + 4` floats, :math:`2d^2` more for the exact radius under discount, one integer.
    An update costs :math:`O((L + d) d^2)`, less if features are zero; a list costs O(L).

    Examples
    --------
    A new item is ranked by what was learnt about similar ones:

    >>> import driftrank as dr
    >>> topics = {"cup final": [1, 0], "derby": [1, 0], "election": [0, 1], "budget": [0, 1]}
    >>> learner = dr.CascadeLinUCB(c=1).start(items=list(topics), k=2, features=topics)
    >>> for _ in range(50):
    ...     learner.update(["cup final", "election"], clicks="election")
    >>> learner.add_items(["transfer", "coalition"], features=[[1, 0], [0, 1]])
    >>> learner.rank(["transfer", "coalition"])
    ['coalition', 'transfer']
    """

    optimistic = True
    choices = {**IndexPolicy.choices, "radius": RADIUS}

    c: float | str = "auto"
    radius: str = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c != "auto":
            check_number('c ("auto" or a number)', self.c, 0)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        numbers = super().parameters(problem)
        gamma, n = numbers["discount"], problem.horizon
        fades = gamma < 1.0 or numbers["timed"]
        c = -1.0  # computed at every step
        if self.c != "auto":
            c = float(self.c)
        elif n is not None and not numbers["timed"]:
            weighed = _sum_of_powers(gamma * gamma, n) if gamma < 1.0 else float(n)
            c = float(pure(confidence)(numbers["features"], problem.K, self.sigma, float(n), weighed))
        return numbers | {"c": c, "exact": int(self.radius == "exact" and bool(fades))}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        d = p["features"]
        squared = d if p["exact"] else 0
        return {
            **super().fields(p),
            "mean": field("L"),
            "width": field("L"),
            "room": field("L"),
            "G": field(d, d),  # lower, the inverse of R^T
            "M2": field(squared, squared),
            "F": field(squared, squared),  # the width is the length of F x, or of G x
            "weighed": field(1),  # steps so far, discounted by gamma^2
        }

    @staticmethod
    @kernel
    def init(p, s, e, c):
        prepare(p, s)
        d = p.features
        if p.exact:
            for i in range(d):
                s.M2[i * d + i] = 1.0
        for a in range(p.L):
            square = 0.0
            for i in range(d):
                square += s.features[a * d + i] * s.features[a * d + i]
            s.width[a] = np.sqrt(square)

    @staticmethod
    @kernel
    def level(p, s, e):
        if p.c >= 0.0:
            return p.c
        return confidence(p.features, p.K, p.sigma, np.float64(e.t), s.weighed[0] + 1.0)

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return min(1.0, s.mean[a] + q * s.width[a])

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        gamma = learn(p, s, e, r, clicks, observed)
        s.weighed[0] = gamma * gamma * s.weighed[0] + 1.0
        if p.exact:
            fade(s.M2, gamma * gamma, p.features)
            add_squares(p, s.features, s.M2, r, observed)
        _refresh(p, s)

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        if renew(p, s, a) and p.exact:
            wipe_axis(s.M2, a, p.features)
        _refresh(p, s)

    @staticmethod
    @kernel
    def features_changed(p, s, e, slots):
        look_anew(p, s, slots)
        _refresh(p, s)


@kernel
def _refresh(p, s):
    """Mean and width of every item."""
    d = p.features
    estimate(p, s)
    if s.one_hot[0]:  # all matrices are diagonal
        for a in range(d):
            s.mean[a] = s.theta[a]
            s.width[a] = s.inverse[a]
            if p.exact:
                s.width[a] *= root_of_pivot(s.M2[a * d + a], s.M2[a * d + a]) * s.inverse[a]
        return
    _invert(s.R, s.inverse, s.G, d)
    if p.exact:
        factorise(s.M2, s.R, s.inverse, d)  # M's factor is no longer needed
        _combine(s.R, s.G, s.F, d)
    _lengths(s.F if p.exact else s.G, s.columns, s.width, s.room, d)
    clear(s.mean)
    add_columns(s.columns, s.theta, d, s.mean)


@kernel
def _invert(R, inverse, G, d):
    """G = R^-T, lower: M^-1 = G^T G, and x^T M^-1 x = |G x|^2."""
    for k in range(d):
        row = G[k * d : k * d + d]
        for i in range(d):
            row[i] = 0.0
        row[k] = inverse[k]
        for j in range(k):
            u = R[j * d + k] * inverse[k]
            if u != 0.0:
                above = G[j * d : j * d + d]
                for i in range(j + 1):
                    row[i] -= u * above[i]


@kernel
def _combine(R, G, F, d):
    """F = R G^T G: with R^T R = M2, x^T M^-1 M2 M^-1 x = |F x|^2. R is lost."""
    for i in range(d):
        top = R[i * d : i * d + d]
        for n in range(d - i):
            j = d - 1 - n  # from the right: entries still needed are to the left
            row = G[j * d : j * d + d]
            u = 0.0
            for k in range(i, j + 1):
                u += top[k] * row[k]
            top[j] = u
        out = F[i * d : i * d + d]
        for j in range(d):
            out[j] = 0.0
        for k in range(i, d):
            u = top[k]
            if u != 0.0:
                row = G[k * d : k * d + d]
                for j in range(k + 1):
                    out[j] += u * row[j]


@kernel
def _lengths(F, columns, width, room, d):
    """|F x| of every item."""
    clear(width)
    for i in range(d):
        clear(room)
        add_columns(columns, F[i * d : i * d + d], d, room)
        for a in range(width.shape[0]):
            width[a] += room[a] * room[a]
    for a in range(width.shape[0]):
        width[a] = np.sqrt(width[a])
