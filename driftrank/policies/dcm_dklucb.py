"""DCMDKLUCB: discounted KL-UCB for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_dklucb import CascadeDKLUCB
from driftrank.policies.dcm import DCMPolicy


class DCMDKLUCB(DCMPolicy, CascadeDKLUCB):
    r"""Discounted KL-UCB for the dependent click model: :class:`DCMKLUCB` that forgets by discounting.

    Everything down to the last click counts as observed, items have the index of :class:`CascadeDKLUCB`, and the one
    with the k-th largest stands at the position where a click is the k-th likeliest to be the last, as in
    :class:`DCMKLUCB`.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    discount, half_life, n_breakpoints, clock, first_horizon, restart
        As of :class:`CascadeDKLUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 6 floats, one more with a ``half_life``, and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMDKLUCB(discount=0.5).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[0, 1, 0])
    >>> round(learner.scores()["a"], 3)  # one observation without a click: 1 - 1/N_2(1/2)
    0.333
    """
