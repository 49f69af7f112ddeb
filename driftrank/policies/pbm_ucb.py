"""PBMUCB: UCB for users who look at each position with a probability of its own."""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.policies.bonus import bonus_index
from driftrank.policies.cumulative import Cumulative
from driftrank.policies.pbm import PBMPolicy


class PBMUCB(PBMPolicy, Cumulative):
    r"""UCB for the position-based model (PBM-UCB; Lagrée, Vernade and Cappé, 2016).

    Users look at position k with probability :math:`\kappa_k`, which is known. With :math:`S_a` clicks on item a in
    :math:`N_a` lists, which were worth :math:`\tilde N_a = \sum_k \kappa_k N_{a,k}` looks, the index is

    .. math:: U_t(a) = \frac{S_a}{\tilde N_a} + \sqrt{\frac{N_a}{\tilde N_a}} \sqrt{\frac{\delta_t}{2 \tilde N_a}},
        \quad \delta_t = (1 + \epsilon) \ln t,

    and the item with the k-th largest one stands at the position with the k-th largest :math:`\kappa`. Items never seen
    come first.

    Parameters
    ----------
    examination
        :math:`\kappa`, how likely users look at each position, numbers in (0, 1], at least K of them; ``"auto"``:
        1/k at position k.
    epsilon
        Of the confidence level.

    Notes
    -----
    Guarantee, in a stationary world: regret of order :math:`\ln n` in the number of clicks,
    :math:`\sum_k \kappa_k \alpha(R(k))`. Every position of a list counts as shown
    (feedback ``"all"``), for that is what the model says. State: 2 K L + 2 L + K floats and K integers. A step
    costs :math:`O(L + K^2)`.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMUCB(examination=(1, 0.5)).start(items=["a", "b", "c"], k=2, seed=0)
    >>> for _ in range(10):
    ...     learner.update(["a", "b"], clicks=[0, 1])
    >>> round(learner.scores()["b"], 3)  # 10 clicks of 5 looks, and sqrt(10 ln(11) / 2) / 5
    2.693
    """

    @staticmethod
    @kernel
    def level(p, s, e):
        return np.sqrt(0.5 * (1.0 + p.epsilon) * log(np.float64(e.t)))

    index = staticmethod(bonus_index)
