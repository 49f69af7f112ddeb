"""DCMSWKLUCB: sliding-window KL-UCB for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_swklucb import CascadeSWKLUCB
from driftrank.policies.dcm import DCMPolicy


class DCMSWKLUCB(DCMPolicy, CascadeSWKLUCB):
    r"""Sliding-window KL-UCB for the dependent click model: :class:`DCMKLUCB` that looks at the last steps only.

    Everything down to the last click counts as observed, items have the index of :class:`CascadeSWKLUCB`, and the one
    with the k-th largest stands at the position where a click is the k-th likeliest to be the last, as in
    :class:`DCMKLUCB`.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    window, capacity, n_breakpoints, first_horizon, restart
        As of :class:`CascadeSWKLUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 3 floats and :math:`\tau` K + K + 2 integers; with a
    window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMSWKLUCB(window=2).start(items=["a", "b", "c"], k=3, seed=0)
    >>> for clicks in ([1, 1, 0], [0, 0, 1], [0, 0, 1]):
    ...     learner.update(["a", "b", "c"], clicks)
    >>> round(learner.scores()["a"], 3)  # two observations without a click: 1 - exp(-ln(2)/2)
    0.293
    """
