"""Parsimonious item exploration: one item at a time is tried out, and at the position that counts least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import entropy
from driftrank.kernels.rng import derive, uniform
from driftrank.kernels.top import listed
from driftrank.kernels.tuples import Field, integers
from driftrank.policies.base import rank_by_index
from driftrank.policies.pbm import PBMPolicy
from driftrank.policies.turns import order_by_token, stand_last

# branches of a step's key that no item's token leads to
_COIN = np.uint64(2**64 - 2)
_CHOICE = np.uint64(2**64 - 3)
_MOST = np.uint64(2**64 - 1)
#: the largest attraction that bounds are compared with: above it no click could be missing
_LARGEST = 1.0 - 1e-9


class PIEPolicy(PBMPolicy):
    r"""Policies that show the K items with the largest estimates, the leaders, and now and then another.

    The bound of item a is

    .. math:: U_a = \sup\Big\{q \ge q_a: \sum_k N_{a,k}\, \mathrm{kl}(S_{a,k}/N_{a,k}, \kappa_k q) \le \delta\Big\}

    with :math:`q_a` where the sum is smallest. With probability 1/2, one of the items that are no leaders and have
    :math:`U_a \ge \hat\theta` of the last leader, drawn uniformly, takes the place of this one. In the first L steps
    the items take turns, in L rotations of their list. Items never seen are no leaders, and always drawn from.

    A subclass says by ``level(p, s, e)`` what :math:`\delta` is, in units of the counts, and adds the statistics.
    """

    abstract: ClassVar[bool] = True
    unseen_mean: ClassVar[float] = -1.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if not vars(cls).get("abstract", False):
            cls.rank = staticmethod(_rank_by(cls.level))
        super().__init_subclass__(**kwargs)
        if not vars(cls).get("abstract", False):
            start, renew = _in_turn(cls.init, cls.forget)
            cls.init, cls.forget = staticmethod(start), staticmethod(renew)

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | {"turn": integers("L", fill=-1)}

    def scratch(self, p: Mapping[str, Any]) -> int:
        return 3 * int(p["K"])

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = max(s.mean[c.items[j]], 0.0)


@kernel
def _no_level(p, s, e):
    return 0.0


@kernel
def _estimate(p, s, e, c, a, q):
    return s.mean[a]


_show_leaders = rank_by_index(_no_level, _estimate)


def _rank_by(level: Any) -> Any:
    @kernel
    def rank(p, s, e, c, r):
        if e.t <= p.L:
            _rotate(p, s, e, c, r)
            return
        _show_leaders(p, s, e, c, r)
        if uniform(derive(e.key, _COIN)) < 0.5:
            _try_another(p, s, e, c, r, level(p, s, e))

    return rank


@kernel
def _is_among(c, a):
    for j in range(c.items.shape[0]):
        if c.items[j] == a:
            return True
    return False


@kernel
def _rotate(p, s, e, c, r):
    """The candidates as they stand in the turn, from the place of this step on."""
    everyone = c.items.shape[0] == p.L
    i = 0
    for j in range(e.t - 1, e.t - 1 + p.L):
        a = s.turn[j % p.L]
        if i < r.items.shape[0] and a >= 0 and (everyone or _is_among(c, a)):
            r.items[i] = a
            r.score[i] = s.mean[a]
            i += 1


@kernel
def _try_another(p, s, e, c, r, q):
    """Give the place of the last leader to an item that may be better, if there is one."""
    last = r.items.shape[0] - 1
    theta = r.score[last]
    at_theta = r.memo
    for k in range(p.K):
        clicked = s.kappa[k] * min(theta, _LARGEST)
        at_theta[3 * k] = log(clicked)
        at_theta[3 * k + 1] = log(1.0 - clicked)
        at_theta[3 * k + 2] = clicked / (1.0 - clicked)
    key = derive(e.key, _CHOICE)
    least = _MOST
    chosen = np.int64(-1)
    for j in range(c.items.shape[0]):
        a = np.int64(c.items[j])
        u = derive(key, c.token[a])
        # whoever has the smallest number is drawn, so that most bounds need not be looked at
        if u < least and _may_be_better(p, s, a, theta, at_theta, q) and not listed(r, a):
            least = u
            chosen = a
    if chosen >= 0:
        r.items[last] = chosen
        r.score[last] = s.mean[chosen]


@kernel
def _may_be_better(p, s, a, theta, at_theta, q):
    """Whether the bound of item ``a`` is at least ``theta``: whether theta is left of where the sum is smallest, or the
    sum at theta is not above the level. No bound need be inverted.

    ``at_theta`` holds, of the chance x of a click on an item with this attraction, ln x, ln(1-x) and x/(1-x) for every
    position.
    """
    if s.mean[a] < 0.0 or theta <= 0.0:
        return True
    total = 0.0
    slope = 0.0  # of the sum, times theta
    for k in range(p.K):
        n = s.N[a * p.K + k]
        x = s.X[a * p.K + k]
        total -= x * at_theta[3 * k] + (n - x) * at_theta[3 * k + 1]
        slope += (n - x) * at_theta[3 * k + 2] - x
    if slope <= 0.0 or total <= q:  # what is left to add to the sum is not positive
        return True
    if s.mean[a] + np.sqrt(0.5 * q) * s.radius[a] * (1.0 + 1e-9) < theta:
        return False  # PBM-UCB's index is at least as large, by the inequalities of Pinsker and Cauchy-Schwarz
    for k in range(p.K):
        n = s.N[a * p.K + k]
        x = s.X[a * p.K + k]
        if 0.0 < x < n:
            total += n * entropy(x / n)
    return total <= q


def _in_turn(init: Any, forget: Any) -> tuple[Any, Any]:
    """The kernels of a policy whose items take turns at the start."""

    @kernel
    def start(p, s, e, c):
        init(p, s, e, c)
        order_by_token(s.turn, c)

    @kernel
    def renew(p, s, e, a):
        forget(p, s, e, a)
        stand_last(s.turn, a)

    return start, renew
