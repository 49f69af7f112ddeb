"""Parsimonious item exploration: one item at a time is explored, at the least important position."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.kl import entropy
from driftrank.kernels.layout import Field, integers
from driftrank.kernels.rng import EXPLORATION_COIN, EXPLORED_ITEM, LARGEST_KEY, derive, uniform
from driftrank.kernels.top_k import listed
from driftrank.policies.index_policy import no_level, rank_by_index
from driftrank.policies.item_order import order_by_token, stand_last
from driftrank.policies.memory.cumulative import Cumulative
from driftrank.policies.memory.discounted import Discounted, present
from driftrank.policies.memory.windowed import Windowed
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.policies.several_clicks.pbm import PBMPolicy, believe_by_position
from driftrank.policies.several_clicks.placement import placed

#: the largest attraction that bounds are compared with, so that 1 - kappa q stays positive
_LARGEST = 1.0 - 1e-9


class PIEPolicy(PBMPolicy):
    r"""Policies that show the K items with the largest estimates, the leaders, and sometimes another.

    The bound of item a is

    .. math:: U_a = \sup\Big\{q \ge q_a: \sum_k N_{a,k}\, \mathrm{kl}(S_{a,k}/N_{a,k}, \kappa_k q) \le \delta\Big\}

    with :math:`q_a` the minimiser of the sum. With probability 1/2, the last leader is replaced by an item drawn
    uniformly from those that are not leaders and have :math:`U_a \ge \hat\theta` of the last leader. In the first L
    steps the items take turns, in L rotations of their list. Items never seen are not leaders, and always among those
    drawn from.

    A subclass defines :math:`\delta` by ``level(p, s, e)``, in units of the counts, and adds the statistics.
    """

    abstract: ClassVar[bool] = True
    unseen_mean: ClassVar[float] = -1.0

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | {"turn": integers("L", fill=-1)}

    def scratch(self, p: Mapping[str, Any]) -> int:
        return 3 * int(p["K"])

    def kernels(self) -> PolicyKernels:
        own = super().kernels()
        init, forget = _in_turn(own.init, own.forget)
        return own._replace(init=init, rank=placed(_rank_by(self.level)), forget=forget)

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return s.mean[a]

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = max(s.mean[c.items[j]], 0.0)


_show_leaders = rank_by_index(no_level, PIEPolicy.index)


@cache
def _rank_by(level: Any) -> Any:
    @kernel
    def rank(p, s, e, c, r):
        if e.t <= p.L:
            _rotate(p, s, e, c, r)
            return
        _show_leaders(p, s, e, c, r)
        if uniform(derive(e.key, EXPLORATION_COIN)) < 0.5:
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
    """Show the candidates in the order of the turns, from the place of this step on."""
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
    """Replace the last leader by an item that may be better, if there is one."""
    last = r.items.shape[0] - 1
    theta = r.score[last]
    at_theta = r.scratch
    for k in range(p.K):
        clicked = s.kappa[k] * min(theta, _LARGEST)
        at_theta[3 * k] = log(clicked)
        at_theta[3 * k + 1] = log(1.0 - clicked)
        at_theta[3 * k + 2] = clicked / (1.0 - clicked)
    key = derive(e.key, EXPLORED_ITEM)
    least = LARGEST_KEY
    chosen = np.int64(-1)
    for j in range(c.items.shape[0]):
        a = np.int64(c.items[j])
        u = derive(key, c.token[a])
        # the item with the smallest number is drawn, so that most bounds need not be checked
        if u < least and _may_be_better(p, s, a, theta, at_theta, q) and not listed(r, a):
            least = u
            chosen = a
    if chosen >= 0:
        r.items[last] = chosen
        r.score[last] = s.mean[chosen]


@kernel
def _may_be_better(p, s, a, theta, at_theta, q):
    """True if the bound of item ``a`` is at least ``theta``: if theta is left of the minimiser of the sum, or the sum
    at theta is at most the level. No bound is inverted.

    ``at_theta`` holds ln x, ln(1-x) and x/(1-x) for every position, where x is the click probability of an item with
    this attraction.
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
    if slope <= 0.0 or total <= q:  # the remaining terms of the sum are not positive
        return True
    if s.mean[a] + np.sqrt(0.5 * q) * s.radius[a] * (1.0 + 1e-9) < theta:
        return False  # PBM-UCB's index is at least as large, by the inequalities of Pinsker and Cauchy-Schwarz
    for k in range(p.K):
        n = s.N[a * p.K + k]
        x = s.X[a * p.K + k]
        if 0.0 < x < n:
            total += n * entropy(x / n)
    return total <= q


@cache
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


class PBMPIE(PIEPolicy, Cumulative):
    r"""Parsimonious item exploration for the position-based model (PBM-PIE; Lagrée, Vernade and Cappé, 2016).

    Users examine position k with known probability :math:`\kappa_k`. The K items with the largest estimates
    :math:`\hat\theta_a = S_a / \sum_k \kappa_k N_{a,k}` are the leaders, placed in the order of :math:`\kappa`. Another
    item has the bound

    .. math:: U_t(a) = \sup\Big\{q: \sum_k N_{a,k}\, \mathrm{kl}(S_{a,k}/N_{a,k}, \kappa_k q) \le \delta_t\Big\},
        \quad \delta_t = (1 + \epsilon) \ln t,

    and with probability 1/2 the last leader is replaced by one of those whose bound is at least its estimate, drawn
    uniformly. So exploration uses only the least important position. In the first L steps the items take turns, in L
    rotations of their list.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.

    Notes
    -----
    Guarantee, in a stationary world: regret in the number of clicks of order :math:`\ln n` with the best possible
    constant (for :math:`\epsilon > 0`, :math:`\delta` with the horizon for t, and estimates that agree in order with
    the attractions). Every position of a list counts as shown (feedback ``"all"``), as in the model. Items added later
    are drawn from until they have been seen. ``scores`` are the estimates, 0 for items never seen. State: 2 K L + 2 L +
    K floats and L + K integers. A step costs O(L K).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMPIE(examination=(1, 0.5)).start(items=["a", "b", "c"], k=2, seed=0)
    >>> for clicks in ([1, 0], [0, 1], [0, 0], [1, 0]):
    ...     learner.update(["a", "b"], clicks)
    >>> learner.scores()
    {'a': 0.5, 'b': 0.5, 'c': 0.0}
    """

    @staticmethod
    @kernel
    def level(p, s, e):
        return (1.0 + p.epsilon) * log(np.float64(e.t))


class PBMDPIE(PIEPolicy, Discounted):
    r"""Discounted parsimonious item exploration: :class:`PBMPIE` that forgets by discounting.

    Every step multiplies the counts :math:`N_{a,k}` and :math:`S_{a,k}` by the discount :math:`\gamma`, and
    :math:`\delta_t = (1 + \epsilon) \ln N_t(\gamma)` with :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.
    discount, half_life, n_breakpoints, first_horizon, restart
        As in :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), as in the model. State: 2 K L
    + 2 L + K + 6 floats, one more with a ``half_life``, and L + K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMDPIE(discount=0.5, examination=(1, 0.5)).start(items=["a", "b"], k=2, seed=0)
    >>> for clicks in ([1, 0], [0, 1]):
    ...     learner.update(["a", "b"], clicks)
    >>> round(learner.scores()["a"], 3)  # half a click of 1.5 looks
    0.333
    """

    @staticmethod
    @kernel
    def level(p, s, e):
        unit, log_clock = present(p, s, e)
        return (1.0 + p.epsilon) * log_clock * unit

    rescaled = staticmethod(PIEPolicy.refresh)

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        estimate, shown = believe_by_position(p, s, a)
        return estimate, shown / present(p, s, e)[0]


class PBMSWPIE(PIEPolicy, Windowed):
    r"""Sliding-window parsimonious item exploration: :class:`PBMPIE` over the last steps only.

    The counts :math:`N_{a,k}` and :math:`S_{a,k}` are those of the last :math:`\tau` steps, and :math:`\delta_t = (1 +
    \epsilon) \ln(t \wedge \tau)`. Items not in the window are drawn from until they have been seen.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.
    window, capacity, n_breakpoints, first_horizon, restart
        As in :class:`CascadeSWUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), as in the model. State: 2 K L
    + 2 L + K + 3 floats and :math:`\tau` K + L + K + 2 integers; with a window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMSWPIE(window=2, examination=(1, 0.5)).start(items=["a", "b"], k=2, seed=0)
    >>> for clicks in ([0, 1], [0, 1], [0, 0]):
    ...     learner.update(["a", "b"], clicks)
    >>> learner.scores()["b"]  # 1 click of 1 look
    1.0
    """

    @staticmethod
    @kernel
    def level_of(p, steps):
        return (1.0 + p.epsilon) * log(steps)
