"""CascadeLinTS: Thompson sampling with features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import SECOND_SET, derive
from driftrank.kernels.top_k import arrange, insert
from driftrank.policies.contextual.ridge import (
    Linear,
    add_columns,
    add_to_factor,
    back_substitute,
    clear,
    estimate,
    learn,
    look_anew,
    prepare,
    renew,
    solve,
)
from driftrank.validation import check_number

#: adding an observation to the factor of M takes about this / d of the time to compute it from scratch (measured)
PATCH = 6
#: observations after which it is computed from scratch anyway, so that errors do not accumulate
REBUILD = 4096
#: the square of x / sigma above which adding would be inexact
LARGE = 1e6


class CascadeLinTS(Linear):
    r"""Linear Thompson sampling for the cascade model (Zong, Ni, Sung, Ke, Wen and Kveton, 2016), with discounting.

    Attraction is modelled as linear in the features of an item, :math:`\alpha(a) = x_a^\top \theta`, so observations of
    one item inform the estimates of similar ones, including new ones. Every step draws one :math:`\tilde\theta \sim
    N(\theta, v^2 M^{-1})` and shows the K items with the largest :math:`x_a^\top \tilde\theta`, where

    .. math:: M \leftarrow \gamma M + (1-\gamma) I + \sum x x^\top / \sigma^2, \quad
              B \leftarrow \gamma B + \sum y x, \quad \theta = M^{-1} B / \sigma^2

    with the sums over the items observed at the step, where y is 1 for a click; initially M = I and B = 0.

    Parameters
    ----------
    v
        Scale of the draws; 1 as in the paper.
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

    No guarantee is proven. ``scores`` are :math:`x_a^\top \theta`. State: :math:`2Ld + 2d^2 + 4d + 3` floats, two
    integers. A list costs :math:`O(d^2 + Ld)` and d draws; an update :math:`O(Kd^2)` without discount, else
    :math:`O(d^3 + Kd^2)`, less if features are zero.

    Examples
    --------
    A new item is ranked by what was learnt about similar ones:

    >>> import driftrank as dr
    >>> topics = {"cup final": [1, 0], "derby": [1, 0], "election": [0, 1], "budget": [0, 1]}
    >>> learner = dr.CascadeLinTS().start(items=list(topics), k=2, features=topics)
    >>> for _ in range(50):
    ...     learner.update(["cup final", "election"], clicks="election")
    >>> learner.add_items(["transfer", "coalition"], features=[[1, 0], [0, 1]])
    >>> {item: round(score, 2) for item, score in learner.scores().items()}["coalition"]
    0.98
    >>> learner.rank(["transfer", "coalition"])
    ['coalition', 'transfer']
    """

    v: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("v", self.v, 0, 1e6)

    def scratch(self, p: Mapping[str, Any]) -> int:
        need: int = p["features"] + p["L"]  # the draw, and the scores of items
        return need

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {**super().fields(p), "room": field(p["features"]), "patched": integers(1)}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        prepare(p, s)

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        d = p.features
        drawn = r.scratch[:d]
        worth = r.scratch[d : d + p.L]
        key = derive(e.key, SECOND_SET)
        if s.one_hot[0]:  # every item has its own axis
            for j in range(c.items.shape[0]):
                a = c.items[j]
                worth[a] = s.theta[a] + p.v * (s.inverse[a] * normal(derive(key, c.token[a])))
        else:
            for i in range(d):
                drawn[i] = normal(derive(key, i))
            back_substitute(s.R, s.inverse, drawn, d)
            for i in range(d):
                drawn[i] = s.theta[i] + p.v * drawn[i]
            clear(worth)
            add_columns(s.columns, drawn, d, worth)
        filled = 0
        for j in range(c.items.shape[0]):
            a = c.items[j]
            filled = insert(r, 0, filled, r.items.shape[0], worth[a], a, e, c, p.ties)
        arrange(r, p.order)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        gamma = learn(p, s, e, r, clicks, observed)
        if gamma == 1.0 and _can_patch(p, s, r, observed):
            for n in range(observed):
                _scaled(p, s, r.items[n])
                add_to_factor(s.R, s.inverse, s.room, p.features)
            s.patched[0] += observed
            solve(p, s)
        else:
            s.patched[0] = 0
            estimate(p, s)

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            first = np.intp(c.items[j]) * p.features
            out[j] = 0.0
            for i in range(p.features):
                out[j] += s.features[first + i] * s.theta[i]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        renew(p, s, a)
        s.patched[0] = 0
        estimate(p, s)

    @staticmethod
    @kernel
    def features_changed(p, s, e, slots):
        look_anew(p, s, slots)
        s.patched[0] = 0
        estimate(p, s)  # the general form: axes are features from now on


@kernel
def _can_patch(p, s, r, observed):
    """True if observations are few enough to be added one by one, and not so large that rounding matters."""
    if PATCH * observed >= p.features or s.patched[0] >= REBUILD or s.one_hot[0]:
        return False
    for n in range(observed):
        if not _scaled(p, s, r.items[n]) < LARGE:
            return False
    return True


@kernel
def _scaled(p, s, a):
    """Write x / sigma to the buffer; returns its square."""
    first = np.intp(a) * p.features
    square = 0.0
    for i in range(p.features):
        s.room[i] = s.features[first + i] / p.sigma
        square += s.room[i] * s.room[i]
    return square
