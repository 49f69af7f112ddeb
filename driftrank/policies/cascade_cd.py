"""CascadeCD: detect changes and start anew, every part to choose."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.cascade_ts import CascadeTS
from driftrank.policies.cascade_ucbv import CascadeUCBV
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import CUSUM, GLR, Detector, PageHinkley, WindowTest
from driftrank.policies.detectors.glr import THRESHOLDS
from driftrank.policies.local_clocks import CLOCK, _LocalKLUCB, _LocalUCB1

#: the tests that can watch
DETECTORS: dict[str, type[Detector]] = {"glr": GLR, "cusum": CUSUM, "pht": PageHinkley, "window": WindowTest}
#: the policies that can rank
BASES = ("klucb", "ucb1", "ucbv", "ts")


class CascadeCD(ChangeDetection):
    r"""Detect changes and start anew: any base, any detector, any schedule of forced exploration.

    The named policies of this family (:class:`GLRTCascadeKLUCB`, :class:`GLRTCascadeUCB`, :class:`CascadeCUSUM`,
    :class:`CascadePHT`, :class:`CascadeMUCB`) are choices among these. With ``detector="glr"``, ``restart="global"``
    and the schedule ``"episode"`` or ``"diminishing"`` it is DAL (Gerogiannis et al., 2025) for cascades.

    Parameters
    ----------
    base
        What ranks, with a clock that starts anew: ``"klucb"`` (:math:`\mathrm{kl}` bounds of level :math:`\ln t + c
        \ln\ln t`), ``"ucb1"``, ``"ucbv"`` or ``"ts"``.
    detector
        What watches: ``"glr"``, ``"cusum"``, ``"pht"`` (Page-Hinkley) or ``"window"`` (the test of M-UCB).
    explore
        p, how much is forced to the top for the detector's sake: the part of the steps (of the schedule
        ``"diminishing"``: the factor). ``"auto"``: what the authors of the detector take for the horizon n,
        :math:`\sqrt{\Upsilon L \ln n/n}` (GLR), :math:`\sqrt{\Upsilon/n \ln(n/\Upsilon)}` (CUSUM, PHT),
        :math:`\sqrt{\Upsilon L (2b + 3\sqrt w)/(2n)}` (window); of ``"diminishing"``: 1; where n is not known, the
        first with the step t for n.
    schedule
        ``"constant"``, ``"episode"``, ``"diminishing"`` or ``"random"``, see :mod:`driftrank.policies.forced`;
        ``"auto"``: constant, but diminishing where neither ``explore`` nor the horizon is known.
    restart
        ``"global"``: an alarm starts all items anew; ``"local"``: only its own.
    n_breakpoints
        :math:`\Upsilon`, used by ``"auto"``.
    clock
        What the logarithms of ``"klucb"`` and ``"ucb1"`` count: ``"steps"`` since the item started, or ``"pulls"``:
        the observations of all items since theirs.
    c, width, a0, b0
        Of ``"klucb"``: c; of ``"ucb1"``: the constant under the root; of ``"ts"``: the prior.
    delta, threshold, every
        Of the detector :class:`~driftrank.policies.detectors.GLR`.
    h, slack, calibration
        Of :class:`~driftrank.policies.detectors.CUSUM`, and the first two of
        :class:`~driftrank.policies.detectors.PageHinkley`.
    window, b
        Of :class:`~driftrank.policies.detectors.WindowTest`.

    Notes
    -----
    State: that of base and detector, L integers, and 135 numbers: at most 267 L + 136 numbers with GLR. A step costs
    O(L), and O(1) for every label.

    Examples
    --------
    >>> import driftrank as dr
    >>> policy = dr.CascadeCD(base="ts", detector="cusum", calibration=20, restart="local", explore=0.1)
    >>> learner = policy.start(items=["a", "b", "c"], k=1, horizon=1000)
    >>> for clicked in [0] * 20 + [1] * 8:
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=28, item='a', everything=False)]
    """

    choices = {
        **ChangeDetection.choices,
        "base": BASES,
        "detector": tuple(DETECTORS),
        "clock": CLOCK,
        "threshold": THRESHOLDS,
    }

    base: str = "klucb"
    detector: str = "glr"
    clock: str = "steps"
    c: float = 0.0
    width: float = 1.5
    a0: float = 1.0
    b0: float = 1.0
    delta: float | str = "auto"
    threshold: str = "leading"
    every: int = 1
    h: float | str = "auto"
    slack: float = 0.05
    calibration: int = 100
    window: int = 800
    b: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for word in BASES:  # a wrong value is wrong even where it is not used
            self._base(word)
        for detector in DETECTORS.values():
            detector.of(self)

    def _base(self, word: str = "") -> Policy:
        return base_policy(self, word or self.base)

    def _detector(self) -> Detector:
        return DETECTORS[self.detector].of(self)


def base_policy(policy: ChangeDetection, word: str) -> Policy:
    """The base of that name, with the parameters that ``policy`` has for it."""
    made: Policy
    match word:
        case "klucb":
            made = _LocalKLUCB(**policy._shared("c", "clock"))
        case "ucb1":
            made = _LocalUCB1(**policy._shared("width", "clock"))
        case "ucbv":
            made = CascadeUCBV(**policy._shared())
        case _:
            made = CascadeTS(**policy._shared("a0", "b0"))
    return made
