"""CUSUM: two-sided cumulative sums against a mean from the first labels."""

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
from driftrank.validation import check_integer


@dataclass(frozen=True, kw_only=True)
class CUSUM(Detector):
    r"""The two-sided CUSUM test of CUSUM-UCB (Liu, Lee and Shroff, 2018).

    The first M labels give the mean :math:`u_0`. From then on

    .. math:: g^+ \leftarrow \max(0, g^+ + y - u_0 - \epsilon), \qquad g^- \leftarrow \max(0, g^- + u_0 - y - \epsilon),

    and the test fires when either exceeds h.

    Parameters
    ----------
    h
        The threshold; ``"auto"``: :math:`\ln(n/\Upsilon)` if the horizon n is known, else ``"anytime"``: the same
        with the step t for n, from 100 on; never below 1.
    calibration
        M, the labels that give the mean. They do not enter the walks.
    slack
        :math:`\epsilon`: the tolerated deviation of a label. It must be below half the change to be detected; if
        clicks are rarer than :math:`\epsilon`, their end is never detected.
    n_breakpoints
        :math:`\Upsilon`, used by ``"auto"``.

    Notes
    -----
    State: 4 L floats; O(1) a label.

    Examples
    --------
    >>> CUSUM(calibration=2, slack=0.1, h=2).run([0, 0, 1, 1, 1])  # 0.9, 1.8, 2.7
    [5]
    """

    h: float | str = "auto"
    calibration: int = 100
    slack: float = 0.05
    n_breakpoints: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_walks(self)
        check_integer("calibration", self.calibration, 1)

    def numbers(self, plan: DetectorPlan) -> dict[str, float]:
        return walk_numbers(self, plan) | {"walk_calibration": self.calibration}

    def fields(self) -> dict[str, Field]:
        return walk_fields()

    def exploration(self, plan: DetectorPlan, n_breakpoints: int) -> float:
        return walk_exploration(plan, n_breakpoints)

    @staticmethod
    @kernel
    def observe(p, s, e, a, y):
        label = 1.0 if y else 0.0
        if s.walk_n[a] < p.walk_calibration:
            s.walk_n[a] += 1.0
            s.walk_sum[a] += label
            return False
        return walk_on(p, s, e, a, label, s.walk_sum[a] / s.walk_n[a])

    clear = staticmethod(walk_clear)
