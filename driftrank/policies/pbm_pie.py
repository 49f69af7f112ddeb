"""PBMPIE: parsimonious item exploration for users who look at each position with a probability of its own."""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.policies.cumulative import Cumulative
from driftrank.policies.pie import PIEPolicy


class PBMPIE(PIEPolicy, Cumulative):
    r"""Parsimonious item exploration for the position-based model (PBM-PIE; Lagrée, Vernade and Cappé, 2016).

    Users look at position k with probability :math:`\kappa_k`, which is known. The K items with the largest estimates
    :math:`\hat\theta_a = S_a / \sum_k \kappa_k N_{a,k}` are the leaders; the better they are, the larger the
    :math:`\kappa` of their position. An item that is no leader has the bound

    .. math:: U_t(a) = \sup\Big\{q: \sum_k N_{a,k}\, \mathrm{kl}(S_{a,k}/N_{a,k}, \kappa_k q) \le \delta_t\Big\},
        \quad \delta_t = (1 + \epsilon) \ln t,

    and with probability 1/2 one of those whose bound is not below the last leader's estimate, drawn uniformly, takes
    the place of this leader. So exploration costs the least important position only. In the first L steps the items
    take turns, in L rotations of their list.

    Parameters
    ----------
    examination
        :math:`\kappa`, how likely users look at each position, numbers in (0, 1], at least K of them; ``"auto"``:
        1/k at position k.
    epsilon
        Of the confidence level.

    Notes
    -----
    Guarantee, in a stationary world: regret in the number of clicks of order :math:`\ln n` with the best constant that
    any policy can have (for :math:`\epsilon > 0`, :math:`\delta` with the horizon for t, and estimates that agree in
    order with the attractions). Every position of a list counts as shown (feedback ``"all"``), for that is what the
    model says. Items that come later are unknown, and so are drawn from until they were seen. ``scores`` are the
    estimates, 0 for items never seen. State: 2 K L + 2 L + K floats and L + K integers. A step costs O(L K).

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
