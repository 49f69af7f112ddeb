"""The next experiment: how to serve so that the gain is known, and after how many lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftrank.evaluation.needs import TEMPERATURES, WITHIN, best_exploration
from driftrank.evaluation.rows import LogRows
from driftrank.evaluation.sequences import mixture_width

#: the share of lists that keep the present order
HOLDOUT = 0.2
#: any number of lists: the width of a sequence where it is narrowest falls with the root of it
_LISTS = 20_000


@dataclass(frozen=True)
class Experiment:
    """Serve the policy, keep the present order in a share of the lists, and explore around the order."""

    explore: float  #: temperature of a softmax by rank, for lists whose probability is known
    holdout: float
    lists: int  #: after which the always-valid interval of the difference has this half-width
    within: float = WITHIN

    def to_dict(self) -> dict[str, Any]:
        return {"explore": self.explore, "holdout": self.holdout, "lists": self.lists, "within": self.within}


def next_experiment(
    rows: LogRows, lists: Mapping[Any, Sequence[Any]], shown: float, wanted: float, holdout: float = HOLDOUT
) -> Experiment:
    """The experiment for a policy that is expected to earn ``wanted`` with about these lists, instead of ``shown``."""
    way = best_exploration(rows, rows.fixed_target([lists])) if lists else None
    temperature = TEMPERATURES[0] if way is None else min(way.temperature, 1.0)
    return Experiment(temperature, holdout, holdout_lists(shown, wanted, holdout))


def holdout_lists(shown: float, wanted: float, holdout: float = HOLDOUT, within: float = WITHIN) -> int:
    """The number of lists after which the always-valid interval of a difference of two shares has this half-width.

    >>> holdout_lists(0.5, 0.5, 0.5), holdout_lists(0.5, 0.5, 0.2)
    (23035, 35992)
    """
    variance = wanted * (1 - wanted) / (1 - holdout) + shown * (1 - shown) / holdout
    width = mixture_width(_LISTS, _LISTS) * math.sqrt(_LISTS)
    return math.ceil(variance * (width / within) ** 2)
