"""GLRTCascadeUCB: UCB1, started anew when the likelihood ratio says so."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import GLR, Detector
from driftrank.policies.detectors.glr import THRESHOLDS
from driftrank.policies.local_clocks import _LocalUCB1


class GLRTCascadeUCB(ChangeDetection):
    r"""UCB1 with a likelihood ratio test of every item (GLRT-CascadeUCB; Wang, Zhou, Yang, Carin and Shen, 2021).

    As :class:`GLRTCascadeKLUCB`, but items are ranked by

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{3 \ln(t-\tau)}{2 N(a)}}.

    Parameters
    ----------
    width
        The constant under the root, 1.5 in the paper.
    explore, delta
        As of :class:`GLRTCascadeKLUCB`.
    schedule, restart, n_breakpoints, threshold, every
        As of :class:`CascadeCD`.

    Notes
    -----
    Guarantee: for ``threshold="exact"`` and breakpoints far enough apart Wang et al. prove regret of order
    :math:`\sqrt{\Upsilon L n \ln n}`.

    State: 267 L + 136 numbers, most of them 32 bit integers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.GLRTCascadeUCB(delta=0.05).start(items=["a", "b"], k=1)
    >>> for clicked in [0] * 10 + [1] * 4:
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=14, item='a', everything=True)]
    """

    choices = {**ChangeDetection.choices, "threshold": THRESHOLDS}

    width: float = 1.5
    delta: float | str = "auto"
    threshold: str = "leading"
    every: int = 1

    def _base(self) -> Policy:
        return _LocalUCB1(**self._shared("width"))

    def _detector(self) -> Detector:
        return GLR.of(self)
