"""CascadePHT: an index policy whose items start anew when the test of Page and Hinkley says so."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.cascade_cd import base_policy
from driftrank.policies.cascade_cusum import INDICES
from driftrank.policies.change_detection import ChangeDetection
from driftrank.policies.detectors import Detector, PageHinkley
from driftrank.policies.local_clocks import CLOCK


class CascadePHT(ChangeDetection):
    r"""PHT-UCB for the cascade model (after Liu, Lee and Shroff, 2018).

    As :class:`CascadeCUSUM`, with :class:`~driftrank.policies.detectors.PageHinkley` as the test: labels are held
    against the running mean, so that none are needed to learn one first.

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

    def _detector(self) -> Detector:
        return PageHinkley.of(self)
