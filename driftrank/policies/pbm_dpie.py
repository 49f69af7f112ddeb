"""PBMDPIE: parsimonious item exploration that forgets by discounting."""

from __future__ import annotations

from driftrank.kernels import kernel
from driftrank.policies.discounted import Discounted, present
from driftrank.policies.pbm import believe_by_position
from driftrank.policies.pie import PIEPolicy


class PBMDPIE(PIEPolicy, Discounted):
    r"""Discounted parsimonious item exploration: :class:`PBMPIE` that forgets by discounting.

    Every step multiplies the counts :math:`N_{a,k}` and :math:`S_{a,k}` by the discount :math:`\gamma`, and
    :math:`\delta_t = (1 + \epsilon) \ln N_t(\gamma)` with :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`.

    Parameters
    ----------
    examination
        :math:`\kappa`, how likely users look at each position, numbers in (0, 1], at least K of them; ``"auto"``:
        1/k at position k.
    epsilon
        Of the confidence level.
    discount, half_life, n_breakpoints, first_horizon, restart
        As of :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), for that is what the
    model says. State: 2 K L + 2 L + K + 6 floats, one more with a ``half_life``, and L + K integers.

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
    def believe(p, s, e, a):
        estimate, shown = believe_by_position(p, s, a)
        return estimate, shown / present(p, s, e)[0]
