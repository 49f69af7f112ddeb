"""CascadeCUSUM: an index policy whose items start anew when cumulative sums say so."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.cascade_cd import base_policy
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import CUSUM, Detector
from driftrank.policies.local_clocks import CLOCK

#: the policies that can rank: those with a clock
INDICES = ("ucb1", "klucb")


class _WalkTest(ChangeDetection):
    """What policies with a test by a walk share: an index with a clock, random exploration, local restarts."""

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
        for word in INDICES:
            base_policy(self, word)

    def _base(self) -> Policy:
        return base_policy(self, self.base)


class CascadeCUSUM(_WalkTest):
    r"""CUSUM-UCB for the cascade model (after Liu, Lee and Shroff, 2018).

    Every label goes to the item's test, :class:`~driftrank.policies.detectors.CUSUM`, and when one fires that item
    starts anew. With probability p a step puts any item on top. Items are ranked by UCB1 with the observations of all
    items since their restarts as the clock,

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{3 \ln \sum_b N(b)}{2 N(a)}}.

    Parameters
    ----------
    base
        ``"ucb1"`` as in the paper, or ``"klucb"``.
    explore
        p; ``"auto"``: :math:`\sqrt{\frac{\Upsilon}{n} \ln\frac{n}{\Upsilon}}` where the horizon n is known, else
        :math:`\sqrt{\Upsilon L \ln t/t}` at step t.
    h, slack, calibration
        Of the test: its threshold, ``"auto"``: :math:`\ln(n/\Upsilon)`; what a label may be off; the labels that give
        the mean.
    clock, c, width, schedule, restart, n_breakpoints
        As of :class:`CascadeCD`.

    Notes
    -----
    The paper's guarantee, regret of order :math:`\sqrt{\Upsilon n \ln(n/\Upsilon)}`, is for bandits that pull one arm;
    none is claimed here. The test must know the smallest change: ``slack`` has to be below half of it, and with a mean
    from 100 labels only, false alarms are frequent.

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

    def _detector(self) -> Detector:
        return CUSUM.of(self)
