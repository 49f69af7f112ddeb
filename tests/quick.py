"""One policy for each kind: way to remember, to score, to detect changes and to assemble kernels.

Checks that take long run on these in ``make test``, and on all policies in ``make test-all``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

KINDS = frozenset(
    [
        "BatchRank",
        "BubbleRank",
        "CUCBSW",
        "CascadeDTS",
        "CascadeDUCB",
        "CascadeKLUCB",
        "CascadeLinTS",
        "CascadeMASTER",
        "CascadeRegimeTS",
        "CascadeSWUCB",
        "CascadeSoftmax",
        "DCMKLUCB",
        "GLRTCascadeKLUCB",
        "PBMPIE",
        "PriorRegimeTS",
        "RankedEXP3",
        "TopRank",
    ]
)


def others_are_slow(values: Iterable[Any], quick: Iterable[Any] = KINDS) -> list[Any]:
    """The values of a test's parameter, or of several in tuples: those that are not in ``quick`` are marked slow."""
    kept = list(quick)
    rows = ((value, value if isinstance(value, tuple) else (value,)) for value in values)
    return [value if value in kept else pytest.param(*row, marks=pytest.mark.slow) for value, row in rows]
