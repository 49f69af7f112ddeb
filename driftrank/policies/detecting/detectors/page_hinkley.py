"""Page-Hinkley: cumulative sums against the running mean."""

from __future__ import annotations

from dataclasses import dataclass

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field
from driftrank.policies.detecting.detectors.base import Detector, DetectorPlan
from driftrank.policies.detecting.detectors.two_sided_walk import (
    check_walks,
    walk_clear,
    walk_exploration,
    walk_fields,
    walk_numbers,
    walk_on,
)


@dataclass(frozen=True, kw_only=True)
class PageHinkley(Detector):
    r"""The two-sided Page-Hinkley test (Page, 1954; PHT-UCB of Liu, Lee and Shroff, 2018).

    As :class:`CUSUM`, with the mean :math:`\bar y` of all labels so far, the new one included, in place of that of the
    first M:

    .. math:: g^+ \leftarrow \max(0, g^+ + y - \bar y - \epsilon), \qquad
        g^- \leftarrow \max(0, g^- + \bar y - y - \epsilon).

    Parameters
    ----------
    h, slack, n_breakpoints
        As of :class:`CUSUM`.

    Notes
    -----
    State: 4 L floats; O(1) a label.

    Examples
    --------
    >>> PageHinkley(slack=0.1, h=2).run([0] * 10 + [1] * 4)  # 0.81, 1.54, 2.21
    [13]
    """

    h: float | str = "auto"
    slack: float = 0.05
    n_breakpoints: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_walks(self)

    def numbers(self, plan: DetectorPlan) -> dict[str, float]:
        return walk_numbers(self, plan)

    def fields(self) -> dict[str, Field]:
        return walk_fields()

    def exploration(self, plan: DetectorPlan, n_breakpoints: int) -> float:
        return walk_exploration(plan, n_breakpoints)

    @staticmethod
    @kernel
    def observe(p, s, e, a, y):
        label = 1.0 if y else 0.0
        s.walk_n[a] += 1.0
        s.walk_sum[a] += label
        return walk_on(p, s, e, a, label, s.walk_sum[a] / s.walk_n[a])

    clear = staticmethod(walk_clear)
