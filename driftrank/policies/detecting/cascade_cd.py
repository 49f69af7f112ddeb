"""CascadeCD: detect changes and restart, with a choice of every part."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.detecting.base import ChangeDetection
from driftrank.policies.detecting.detectors import CUSUM, GLR, Detector, PageHinkley, WindowTest
from driftrank.policies.detecting.detectors.glr import THRESHOLDS
from driftrank.policies.detecting.restartable import CLOCK, RestartableKLUCB, RestartableUCB1
from driftrank.policies.stationary.cascade_ts import CascadeTS
from driftrank.policies.stationary.cascade_ucbv import CascadeUCBV

#: the detectors
DETECTORS: dict[str, type[Detector]] = {"glr": GLR, "cusum": CUSUM, "pht": PageHinkley, "window": WindowTest}
#: the base policies
BASES = ("klucb", "ucb1", "ucbv", "ts")


class CascadeCD(ChangeDetection):
    r"""Detect changes and restart: any base, any detector, any schedule of forced exploration.

    The named policies of this family (:class:`GLRTCascadeKLUCB`, :class:`GLRTCascadeUCB`, :class:`CascadeCUSUM`,
    :class:`CascadePHT`, :class:`CascadeMUCB`) are choices among these. With ``detector="glr"``, ``restart="global"``
    and the schedule ``"episode"`` or ``"diminishing"`` it is DAL (Gerogiannis et al., 2025) for cascades.

    Parameters
    ----------
    base
        The policy that ranks, with a clock that restarts: ``"klucb"`` (:math:`\mathrm{kl}` bounds of level
        :math:`\ln t + c \ln\ln t`), ``"ucb1"``, ``"ucbv"`` or ``"ts"``.
    detector
        The detector: ``"glr"``, ``"cusum"``, ``"pht"`` (Page-Hinkley) or ``"window"`` (the test of M-UCB).
    explore
        p, the part of the steps in which an item is forced to the top for the detector (of the schedule
        ``"diminishing"``: the factor). ``"auto"``: the choice of the detector's authors for the horizon n,
        :math:`\sqrt{\Upsilon L \ln n/n}` (GLR), :math:`\sqrt{\Upsilon/n \ln(n/\Upsilon)}` (CUSUM, PHT),
        :math:`\sqrt{\Upsilon L (2b + 3\sqrt w)/(2n)}` (window); of ``"diminishing"``: 1; if n is unknown, the
        first with the step t for n.
    schedule
        ``"constant"``, ``"episode"``, ``"diminishing"`` or ``"random"``, see
        :mod:`driftrank.policies.detecting.forced_exploration`; ``"auto"``: constant, but diminishing if neither
        ``explore`` nor the horizon is given.
    restart
        ``"global"``: an alarm resets all items; ``"local"``: only its own.
    n_breakpoints
        :math:`\Upsilon`, used by ``"auto"``.
    clock
        The time in the logarithms of ``"klucb"`` and ``"ucb1"``: ``"steps"`` since the item's start, or ``"pulls"``:
        the observations of all items since theirs.
    c, width, a0, b0
        Of ``"klucb"``: c; of ``"ucb1"``: the constant under the root; of ``"ts"``: the prior.
    delta, threshold, every
        Of the detector :class:`~driftrank.policies.detecting.detectors.GLR`.
    h, slack, calibration
        Of :class:`~driftrank.policies.detecting.detectors.CUSUM`, and the first two of
        :class:`~driftrank.policies.detecting.detectors.PageHinkley`.
    window, b
        Of :class:`~driftrank.policies.detecting.detectors.WindowTest`.

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
        for name in BASES:  # a wrong value is refused even if it is not used
            base_policy(self, name)
        for detector in DETECTORS.values():
            detector.of(self)

    def make_base(self) -> Policy:
        return base_policy(self, self.base)

    def make_detector(self) -> Detector:
        return DETECTORS[self.detector].of(self)


def base_policy(policy: ChangeDetection, name: str) -> Policy:
    """The base of that name, with the parameters that ``policy`` has for it."""
    match name:
        case "klucb":
            return RestartableKLUCB(**policy.shared("c", "clock"))
        case "ucb1":
            return RestartableUCB1(**policy.shared("width", "clock"))
        case "ucbv":
            return CascadeUCBV(**policy.shared())
        case _:
            return CascadeTS(**policy.shared("a0", "b0"))
