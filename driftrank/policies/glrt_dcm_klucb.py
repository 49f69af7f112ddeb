"""GLRTDCMKLUCB: KL-UCB for users who may click several times, started anew when the likelihood ratio says so."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.dcm import DCMPolicy
from driftrank.policies.glrt_cascade_klucb import GLRTCascadeKLUCB
from driftrank.policies.local_clocks import _LocalKLUCB


class _LocalDCMKLUCB(DCMPolicy, _LocalKLUCB):
    """The policy that ranks."""


class GLRTDCMKLUCB(DCMPolicy, GLRTCascadeKLUCB):
    r"""KL-UCB for the dependent click model with a likelihood ratio test of every item: :class:`DCMKLUCB` that detects
    changes.

    As :class:`GLRTCascadeKLUCB`, but every label down to the last click counts and goes to its item's test, and the
    item with the k-th largest index stands at the position where a click is the k-th likeliest to be the last. In a
    part p of the steps the items take turns on top, where they are looked at whatever happens; the worst leaves for
    them.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    explore, delta, c, schedule, restart, n_breakpoints, threshold, every
        As of :class:`GLRTCascadeKLUCB`.

    Notes
    -----
    No guarantee is known. State: 267 L + 136 numbers and K integers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.GLRTDCMKLUCB().start(items=["a", "b", "c"], k=2, horizon=1000)
    >>> for clicked in [0] * 20 + [1] * 9:
    ...     learner.update(["a", "b"], [0, clicked])
    >>> learner.alarms
    [Alarm(step=26, item='b', everything=True)]
    """

    def _base(self) -> Policy:
        return _LocalDCMKLUCB(**self._shared("c", "termination"))
