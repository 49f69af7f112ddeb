"""GLRTCascadeKLUCB: KL-UCB, started anew when the likelihood ratio says so."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import GLR, Detector
from driftrank.policies.detectors.glr import THRESHOLDS
from driftrank.policies.local_clocks import _LocalKLUCB


class GLRTCascadeKLUCB(ChangeDetection):
    r"""KL-UCB with a likelihood ratio test of every item (GLRT-CascadeKL-UCB; Wang, Zhou, Yang, Carin and Shen, 2021).

    With :math:`\tau` the last restart, items are ranked by

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln(t-\tau) + c \ln\ln(t-\tau)\}.

    In a part p of the steps the items take turns on top. Every label goes to the item's test,
    :class:`~driftrank.policies.detectors.GLR`, and when one fires all items start anew.

    Parameters
    ----------
    explore
        p; ``"auto"``: :math:`\sqrt{\Upsilon L \ln n/n}` where the horizon n is known (the paper counts segments, one
        more than breakpoints, where it knows them). Otherwise the schedule is diminishing, :math:`\sqrt{L/(t-\tau)}`.
    delta
        Of the test; ``"auto"``: 1/n, as the paper has it, or :math:`1/\sqrt t` where the horizon is not known. Besson
        et al. take :math:`1/\sqrt n`.
    c
        0, which explores less and is better in practice; 3 in the paper.
    schedule, restart, n_breakpoints, threshold, every
        As of :class:`CascadeCD`.

    Notes
    -----
    Guarantee: for ``c=3``, ``threshold="exact"`` and breakpoints far enough apart Wang et al. prove regret of order
    :math:`\sqrt{\Upsilon L n \ln n}`. It is sensitive to p: too little, and changes of items that are not shown go
    unnoticed; too much, and regret grows by p times what a wrong item on top costs.

    State: 267 L + 136 numbers, most of them 32 bit integers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.GLRTCascadeKLUCB().start(items=["a", "b", "c"], k=1, horizon=1000)
    >>> for clicked in [0] * 20 + [1] * 9:
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=26, item='a', everything=True)]
    """

    choices = {**ChangeDetection.choices, "threshold": THRESHOLDS}

    c: float = 0.0
    delta: float | str = "auto"
    threshold: str = "leading"
    every: int = 1

    def _base(self) -> Policy:
        return _LocalKLUCB(**self._shared("c"))

    def _detector(self) -> Detector:
        return GLR.of(self)
