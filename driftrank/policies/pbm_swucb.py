"""PBMSWUCB: UCB for the position-based model that forgets by a sliding window."""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.policies.bonus import bonus_index
from driftrank.policies.pbm import PBMPolicy
from driftrank.policies.windowed import Windowed


class PBMSWUCB(PBMPolicy, Windowed):
    r"""Sliding-window UCB for the position-based model: :class:`PBMUCB` that looks at the last steps only.

    The counts :math:`N_{a,k}` and :math:`S_{a,k}` are those of the last :math:`\tau` steps, and
    :math:`\delta_t = (1 + \epsilon) \ln(t \wedge \tau)`. Items not in the window come first.

    Parameters
    ----------
    examination
        :math:`\kappa`, how likely users look at each position, numbers in (0, 1], at least K of them; ``"auto"``:
        1/k at position k.
    epsilon
        Of the confidence level.
    window, capacity, n_breakpoints, first_horizon, restart
        As of :class:`CascadeSWUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), for that is what the
    model says. State: 2 K L + 2 L + K + 3 floats and :math:`\tau` K + K + 2 integers; with a window in time,
    :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMSWUCB(window=2, examination=(1, 0.5)).start(items=["a", "b"], k=2, seed=0)
    >>> for clicks in ([0, 1], [0, 1], [0, 0]):
    ...     learner.update(["a", "b"], clicks)
    >>> round(learner.scores()["b"], 3)  # 1 click of 1 look, and sqrt(2 ln(2) / 2)
    1.833
    """

    @staticmethod
    @kernel
    def level_of(p, steps):
        return np.sqrt(0.5 * (1.0 + p.epsilon) * log(steps))

    index = staticmethod(bonus_index)
