"""Parameters shared by policies: durations such as ``"90s"``, ``"15m"``, ``"24h"``, ``"7d"``, ``"2w"``, horizons."""

from __future__ import annotations

import re
from typing import Any

from driftrank.policies.base import RankingProblem
from driftrank.validation import check_number

#: seconds per unit
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def is_duration(value: Any) -> bool:
    """True for a string such as ``"24h"``.

    >>> is_duration("24h"), is_duration("auto"), is_duration(24)
    (True, False, False)
    """
    return isinstance(value, str) and _WRITTEN.fullmatch(value) is not None


def seconds(name: str, value: Any) -> float:
    """A duration in seconds, given as a number or as a string with a unit.

    >>> seconds("half_life", "1.5h"), seconds("half_life", 30)
    (5400.0, 30.0)
    """
    if is_duration(value):
        value = float(value[:-1]) * UNITS[value[-1]]
    elif isinstance(value, str):
        raise ValueError(f"{name}={value!r}: must be a number and a unit, as in '90s', '15m', '24h', '7d' or '2w'")
    check_number(f"{name} (a duration such as '24h', or seconds)", value, 0, open_low=True)
    return float(value)


def planned_horizon(policy: str, own: int | None, problem: RankingProblem) -> int:
    """The number of steps to plan for: the policy's ``own`` parameter, else the problem's.

    >>> planned_horizon("TopRank", None, RankingProblem(L=10, K=3, horizon=500))
    500
    """
    horizon = problem.horizon if own is None else own
    if horizon is None:
        raise ValueError(
            f"horizon=None: must be given for {policy}, as {policy}(horizon=...) or when the policy is started"
        )
    return horizon
