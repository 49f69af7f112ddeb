"""CascadeMUCB: an index policy that starts anew when the halves of a window differ."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.cascade_cd import base_policy
from driftrank.policies.cascade_cusum import INDICES
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import Detector, WindowTest
from driftrank.policies.local_clocks import CLOCK


class CascadeMUCB(ChangeDetection):
    r"""M-UCB for the cascade model (after Cao, Wen, Kveton and Xie, 2019).

    Every label goes to the item's test, :class:`~driftrank.policies.detectors.WindowTest`, and when one fires all items
    start anew. In a part p of the steps the items take turns on top; otherwise they are ranked by UCB1 since the last
    restart.

    Parameters
    ----------
    base
        ``"ucb1"`` as in the paper, or ``"klucb"``.
    explore
        p; ``"auto"``: :math:`\sqrt{\Upsilon L (2b + 3\sqrt w)/(2n)}` where the horizon n is known, as in the paper's
        experiments. Otherwise the schedule is diminishing.
    window, b
        Of the test: how many labels it looks at, w, and its threshold, ``"auto"``:
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
        for word in INDICES:
            base_policy(self, word)

    def _base(self) -> Policy:
        return base_policy(self, self.base)

    def _detector(self) -> Detector:
        return WindowTest.of(self)
