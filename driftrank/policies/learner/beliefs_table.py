"""A learner as a table, for people: what it believes about its items."""

from __future__ import annotations

import math
from collections.abc import Mapping

from driftrank.policies.estimates import Belief
from driftrank.policies.learner.ranked_items import Item
from driftrank.reporting.table import Table

#: characters of an item's name
_LONGEST = 60


def beliefs_table(beliefs: Mapping[Item, Belief], most: int) -> Table:
    """The items with the largest estimates, at most so many; those without one come last."""
    rows = sorted(beliefs.items(), key=lambda row: _estimate(row[1]), reverse=True)
    cells = [(_short(str(item)), _number(of.estimate), _number(of.samples)) for item, of in rows[:most]]
    if len(rows) > most:
        cells.append((f"and {len(rows) - most:,} more", math.nan, math.nan))
    return Table(("item", "estimate", "observations"), cells, (None, ".4f", ",.6g"))


def _estimate(of: Belief) -> float:
    return -math.inf if of.estimate is None else of.estimate


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _number(value: float | None) -> float:
    return math.nan if value is None else value
