"""Two walks that climb when labels are above, or below, their mean: the common part of CUSUM and Page-Hinkley."""

from __future__ import annotations

import math
from typing import Any

from driftrank.kernels import kernel, pure
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.policies.detecting.detectors.base import SHORTEST, DetectorPlan
from driftrank.validation import check_integer, check_number


def check_walks(detector: Any) -> None:
    if detector.h not in ("auto", "anytime"):
        check_number('h ("auto", "anytime" or a number)', detector.h, 0, open_low=True)
    check_number("slack", detector.slack, 0, 1, open_high=True)
    check_integer("n_breakpoints", detector.n_breakpoints, 1)


def walk_numbers(detector: Any, plan: DetectorPlan) -> dict[str, float]:
    """h = ln(n / Upsilon), with max(t, 100) for n if it is unknown."""
    anytime = detector.h == "anytime" or (detector.h == "auto" and plan.horizon is None)
    h = detector.h if not isinstance(detector.h, str) else walk_height(plan.horizon or SHORTEST, detector.n_breakpoints)
    return {
        "walk_h": float(h),
        "walk_anytime": int(anytime),
        "walk_slack": float(detector.slack),
        "walk_breakpoints": int(detector.n_breakpoints),
    }


def walk_height(n: int, n_breakpoints: int) -> float:
    """ln(n / Upsilon), but at least 1."""
    return max(1.0, float(pure(log)(n / n_breakpoints)))


def walk_exploration(plan: DetectorPlan, n_breakpoints: int) -> float:
    """p = sqrt((Upsilon / n) ln(n / Upsilon)), after Liu, Lee and Shroff."""
    n = max(plan.horizon or 1, 2)
    return min(1.0, math.sqrt(n_breakpoints / n * max(1.0, float(pure(log)(n / n_breakpoints)))))


def walk_fields() -> dict[str, Field]:
    """4 L floats."""
    return {"walk_n": field("L"), "walk_sum": field("L"), "walk_up": field("L"), "walk_down": field("L")}


@kernel
def walk_on(p, s, e, a, y, usual):
    """Add a label y, with mean ``usual``, to the walks; returns True if one is above the threshold."""
    up = max(0.0, s.walk_up[a] + (y - usual) - p.walk_slack)
    down = max(0.0, s.walk_down[a] + (usual - y) - p.walk_slack)
    s.walk_up[a] = up
    s.walk_down[a] = down
    h = p.walk_h
    if p.walk_anytime:
        h = max(1.0, log(max(e.t, SHORTEST) / p.walk_breakpoints))
    return up > h or down > h


@kernel
def walk_clear(p, s, a):
    s.walk_n[a] = 0.0
    s.walk_sum[a] = 0.0
    s.walk_up[a] = 0.0
    s.walk_down[a] = 0.0
