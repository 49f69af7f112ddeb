"""Named policies that detect changes: combinations of a base, a detector and a schedule from the literature."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.detecting.base import ChangeDetection
from driftrank.policies.detecting.cascade_cd import base_policy
from driftrank.policies.detecting.detectors import CUSUM, GLR, Detector, PageHinkley, WindowTest
from driftrank.policies.detecting.detectors.glr import THRESHOLDS
from driftrank.policies.detecting.restartable import CLOCK, RestartableKLUCB, RestartableUCB1

#: the base policies that have a clock
INDICES = ("ucb1", "klucb")


class _WalkTest(ChangeDetection):
    """Policies that test by a random walk: an index with a clock, random exploration, local restarts."""

    choices = {**ChangeDetection.choices, "base": INDICES, "clock": CLOCK}

    schedule: str = "random"
    restart: str = "local"
    base: str = "ucb1"
    clock: str = "pulls"
    c: float = 0.0
    width: float = 1.5
    h: float | str = "auto"
    slack: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in INDICES:
            base_policy(self, name)

    def make_base(self) -> Policy:
        return base_policy(self, self.base)


class CascadeCUSUM(_WalkTest):
    r"""CUSUM-UCB for the cascade model (after Liu, Lee and Shroff, 2018).

    Every label goes to the item's test, :class:`~driftrank.policies.detecting.detectors.CUSUM`, and when one fires that
    item is reset. With probability p a step puts any item on top. Items are ranked by UCB1 with the observations of all
    items since their restarts as the clock,

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{3 \ln \sum_b N(b)}{2 N(a)}}.

    Parameters
    ----------
    base
        ``"ucb1"`` as in the paper, or ``"klucb"``.
    explore
        p; ``"auto"``: :math:`\sqrt{\frac{\Upsilon}{n} \ln\frac{n}{\Upsilon}}` if the horizon n is known, else
        :math:`\sqrt{\Upsilon L \ln t/t}` at step t.
    h, slack, calibration
        Of the test: its threshold, ``"auto"``: :math:`\ln(n/\Upsilon)`; the tolerated deviation of a label; the
        number of labels that give the mean.
    clock, c, width, schedule, restart, n_breakpoints
        As of :class:`CascadeCD`.

    Notes
    -----
    The paper's guarantee, regret of order :math:`\sqrt{\Upsilon n \ln(n/\Upsilon)}`, is for bandits that pull one arm;
    none is claimed here. ``slack`` has to be below half of the smallest change, and with a mean from only 100 labels,
    false alarms are frequent.

    State: 10 L + 136 numbers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeCUSUM(calibration=2, slack=0.1, h=2).start(items=["a", "b"], k=1)
    >>> for clicked in (0, 0, 1, 1, 1):
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=5, item='a', everything=False)]
    """

    calibration: int = 100

    def make_detector(self) -> Detector:
        return CUSUM.of(self)


class CascadePHT(_WalkTest):
    r"""PHT-UCB for the cascade model (after Liu, Lee and Shroff, 2018).

    As :class:`CascadeCUSUM`, with :class:`~driftrank.policies.detecting.detectors.PageHinkley` as the test: labels are
    compared with the running mean, so that no calibration is needed.

    Parameters
    ----------
    base, explore, h, slack, clock, c, width, schedule, restart, n_breakpoints
        As of :class:`CascadeCUSUM`.

    Notes
    -----
    No guarantee is claimed. State: 10 L + 136 numbers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadePHT(slack=0.1, h=2).start(items=["a", "b"], k=1)
    >>> for clicked in [0] * 10 + [1] * 3:
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=13, item='a', everything=False)]
    """

    def make_detector(self) -> Detector:
        return PageHinkley.of(self)


class CascadeMUCB(ChangeDetection):
    r"""M-UCB for the cascade model (after Cao, Wen, Kveton and Xie, 2019).

    Every label goes to the item's test, :class:`~driftrank.policies.detecting.detectors.WindowTest`, and when one fires
    all items are reset. In a part p of the steps the items take turns on top; otherwise they are ranked by UCB1 since
    the last restart.

    Parameters
    ----------
    base
        ``"ucb1"`` as in the paper, or ``"klucb"``.
    explore
        p; ``"auto"``: :math:`\sqrt{\Upsilon L (2b + 3\sqrt w)/(2n)}` if the horizon n is known, as in the paper's
        experiments. Otherwise the schedule is diminishing.
    window, b
        Of the test: the number of labels that it uses, w, and its threshold, ``"auto"``:
        :math:`\sqrt{\frac w2 \ln(2 L n^2)}`.
    clock, c, width, schedule, restart, n_breakpoints
        As of :class:`CascadeCD`.

    Notes
    -----
    The paper's guarantee, regret of order :math:`\sqrt{\Upsilon L n \ln n}`, is for bandits that pull one arm and
    changes larger than :math:`2b/w` (0.26 with the defaults at n = 100,000 and L = 10); none is claimed here.

    State: L (w/16 + 10) + 136 numbers, w/16 rounded up. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.CascadeMUCB(window=4, b=1.5).start(items=["a", "b"], k=1)
    >>> for clicked in (0, 0, 1, 1):
    ...     learner.update(["a"], [clicked])
    >>> learner.alarms
    [Alarm(step=4, item='a', everything=True)]
    """

    choices = {**ChangeDetection.choices, "base": INDICES, "clock": CLOCK}

    base: str = "ucb1"
    clock: str = "steps"
    c: float = 0.0
    width: float = 1.5
    window: int = 800
    b: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in INDICES:
            base_policy(self, name)

    def make_base(self) -> Policy:
        return base_policy(self, self.base)

    def make_detector(self) -> Detector:
        return WindowTest.of(self)


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

    def make_base(self) -> Policy:
        return RestartableUCB1(**self.shared("width"))

    def make_detector(self) -> Detector:
        return GLR.of(self)


class GLRTCascadeKLUCB(ChangeDetection):
    r"""KL-UCB with a likelihood ratio test of every item (GLRT-CascadeKL-UCB; Wang, Zhou, Yang, Carin and Shen, 2021).

    With :math:`\tau` the last restart, items are ranked by

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln(t-\tau) + c \ln\ln(t-\tau)\}.

    In a part p of the steps the items take turns on top. Every label goes to the item's test,
    :class:`~driftrank.policies.detecting.detectors.GLR`, and when one fires all items are reset.

    Parameters
    ----------
    explore
        p; ``"auto"``: :math:`\sqrt{\Upsilon L \ln n/n}` if the horizon n is known (the paper counts segments, one
        more than breakpoints). Otherwise the schedule is diminishing, :math:`\sqrt{L/(t-\tau)}`.
    delta
        Of the test; ``"auto"``: 1/n, as in the paper, or :math:`1/\sqrt t` if the horizon is unknown. Besson
        et al. use :math:`1/\sqrt n`.
    c
        0, which explores less and is better in practice; 3 in the paper.
    schedule, restart, n_breakpoints, threshold, every
        As of :class:`CascadeCD`.

    Notes
    -----
    Guarantee: for ``c=3``, ``threshold="exact"`` and breakpoints far enough apart Wang et al. prove regret of order
    :math:`\sqrt{\Upsilon L n \ln n}`. It is sensitive to p: if too small, changes of items that are not shown go
    unnoticed; if too large, regret grows by p times the cost of a wrong item on top.

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

    def make_base(self) -> Policy:
        return RestartableKLUCB(**self.shared("c"))

    def make_detector(self) -> Detector:
        return GLR.of(self)
