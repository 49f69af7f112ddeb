"""DCMDUCB: discounted UCB for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_ducb import CascadeDUCB
from driftrank.policies.dcm import DCMPolicy


class DCMDUCB(DCMPolicy, CascadeDUCB):
    r"""Discounted UCB for the dependent click model: :class:`DCMUCB` that forgets by discounting.

    Everything down to the last click counts as observed, items have the index of :class:`CascadeDUCB`, and the one
    with the k-th largest stands at the position where a click is the k-th likeliest to be the last, as in
    :class:`DCMKLUCB`.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    discount, half_life, n_breakpoints, epsilon, unseen, clock, first_horizon, restart
        As of :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 6 floats, one more with a ``half_life``, and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMDUCB(discount=0.5).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[1, 1, 0])
    >>> learner.scores()["c"]  # below the last click
    inf
    """
