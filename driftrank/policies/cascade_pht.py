"""CascadePHT: an index policy whose items start anew when the test of Page and Hinkley says so."""

from __future__ import annotations

from driftrank.policies.cascade_cusum import _WalkTest
from driftrank.policies.detectors import Detector, PageHinkley


class CascadePHT(_WalkTest):
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

    def _detector(self) -> Detector:
        return PageHinkley.of(self)
