"""Texts that say what a figure shows, for readers who cannot see it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

#: names that a text lists before it says how many follow
MOST = 8


def from_least(values: Mapping[str, float], form: str = ",.0f") -> str:
    """Names with their values, from the least to the largest.

    >>> from_least({"B": 2000.0, "A": 12.4, "C": math.nan})
    'A 12, B 2,000'
    """
    known = sorted((item for item in values.items() if not math.isnan(item[1])), key=lambda item: item[1])
    listed = [f"{name} {value:{form}}" for name, value in known]
    if len(listed) <= MOST:
        return ", ".join(listed)
    return f"{', '.join(listed[: MOST - 1])}, and {len(listed) - MOST + 1} more up to {listed[-1]}"


def counted(names: Iterable[str]) -> str:
    """Names with how often they come, the most frequent first.

    >>> counted(["B", "A", "B"])
    'B in 2, A in 1'
    """
    return ", ".join(f"{name} in {count}" for name, count in Counter(names).most_common(MOST))
