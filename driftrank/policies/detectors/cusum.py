"""CUSUM: two-sided cumulative sums against a mean learnt first."""

from __future__ import annotations

from dataclasses import dataclass

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field
from driftrank.policies.detectors.base import Detector, Plan
from driftrank.policies.detectors.walks import (
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
        The threshold; ``"auto"``: :math:`\ln(n/\Upsilon)` where the horizon n is known, else ``"anytime"``: the same
        with the step t for n, from 100 on; never below 1.
    calibration
        M, the labels that give the mean. They do not enter the walks.
    slack
        :math:`\epsilon`: what a label may be off without a trace. It must be below half the change to be found; where
        clicks are rarer than :math:`\epsilon`, their ceasing is never noticed.
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

    def numbers(self, plan: Plan) -> dict[str, float]:
        return walk_numbers(self, plan) | {"walk_calibration": self.calibration}

    def fields(self) -> dict[str, Field]:
        return walk_fields()

    def exploration(self, plan: Plan, n_breakpoints: int) -> float:
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
