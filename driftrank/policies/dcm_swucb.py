"""DCMSWUCB: sliding-window UCB for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_swucb import CascadeSWUCB
from driftrank.policies.dcm import DCMPolicy


class DCMSWUCB(DCMPolicy, CascadeSWUCB):
    r"""Sliding-window UCB for the dependent click model: :class:`DCMUCB` that looks at the last steps only.

    Everything down to the last click counts as observed, items have the index of :class:`CascadeSWUCB`, and the one
    with the k-th largest stands at the position where a click is the k-th likeliest to be the last, as in
    :class:`DCMKLUCB`.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    window, capacity, n_breakpoints, epsilon, unseen, first_horizon, restart
        As of :class:`CascadeSWUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 3 floats and :math:`\tau` K + K + 2 integers; with a
    window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMSWUCB(window=2).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[1, 1, 0])
    >>> learner.scores()["c"]  # below the last click
    inf
    """
