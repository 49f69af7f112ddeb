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
        "RankedEXP3",
        "TopRank",
    ]
)


def others_are_slow(names: Iterable[Any], quick: Iterable[Any] = KINDS) -> list[Any]:
    """The names as parameters of a test: those that are not in ``quick`` are marked slow."""
    kept = set(quick)
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]
