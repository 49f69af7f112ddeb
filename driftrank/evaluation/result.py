"""The result of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from driftrank.evaluation.base import ASSUMPTIONS, Floats
from driftrank.evaluation.checks import LogChecks, Refusal
from driftrank.evaluation.estimate import Estimate
from driftrank.evaluation.needs import Exploration
from driftrank.validation import check_known

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Difference:
    """The value of a target minus another, list by list."""

    against: str
    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        return {"against": self.against, "value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class TargetResult:
    """The estimates of one target."""

    name: str
    value_of: str  #: "lists", "frozen", "shadow" or "online"
    whole: Estimate  #: over the whole log
    now: Estimate  #: since the last change of each query
    ladder: Mapping[str, Estimate] = field(default_factory=dict)  #: by estimator, over the whole log
    difference: Difference | None = None
    difference_now: Difference | None = None
    windows: Floats | None = None  #: (window, 3) value and interval of each window of time
    running: Floats | None = None  #: (look, 4) lists, value so far, confidence sequence
    exploring: Exploration | None = None  #: a way to get the answer, if it is refused
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """The value over the whole log; None if it is refused."""
        return self.whole.value

    @property
    def low(self) -> float | None:
        return self.whole.low

    @property
    def high(self) -> float | None:
        return self.whole.high

    @property
    def grade(self) -> str | None:
        return self.whole.grade

    @property
    def assumes(self) -> str:
        """The assumption about users."""
        return ASSUMPTIONS[self.whole.assumes]

    @property
    def ess(self) -> float:
        """The effective number of lists."""
        return self.whole.effective

    @property
    def refused(self) -> tuple[Refusal, ...]:
        return self.whole.refused

    @property
    def answered(self) -> bool:
        return self.whole.value is not None or self.now.value is not None

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.name,
            "value_of": self.value_of,
            "whole": self.whole.to_dict(),
            "now": self.now.to_dict(),
            "difference": None if self.difference is None else self.difference.to_dict(),
            "difference_now": None if self.difference_now is None else self.difference_now.to_dict(),
            "ladder": [estimate.to_dict() for estimate in self.ladder.values()],
            "windows": _plain(self.windows),
            "running": _plain(self.running),
            "explore": None if self.exploring is None else self.exploring._asdict(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of :func:`driftrank.evaluate`, by target."""

    source: str
    lists: int
    queries: int
    k: int
    objective: str
    logged: float  #: what the logged lists earned, per list
    logged_now: float  #: the same since the last change of each query
    changes: int  #: found, in the queries that were searched
    checks: LogChecks
    targets: Mapping[str, TargetResult]
    level: float = 0.95
    searched: int = 0  #: queries in which changes were looked for, the most frequent
    searched_share: float = 0.0  #: of the lists, that are of these queries

    @property
    def changes_text(self) -> str:
        """The number of changes, and where they were looked for: elsewhere, all lists count as since the last one."""
        if not self.searched:
            return "changes were not looked for"
        found = f"{self.changes:,} changes found"
        if self.searched == self.queries:
            return found
        share = f"{self.searched_share:.0%} of the lists"
        return f"{found} in the {self.searched:,} most frequent queries ({share}); the others were not searched"

    def __getitem__(self, name: str) -> TargetResult:
        check_known("target", name, self.targets)
        return self.targets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.targets)

    @property
    def answered(self) -> bool:
        """True if a value was given for any target."""
        return any(target.answered for target in self.targets.values())

    def ladder(self, name: str) -> dict[str, Estimate]:
        """The estimates of a target by all estimators, over the whole log."""
        return dict(self[name].ladder)

    def plot(self) -> Figure:
        """A figure of the values over time; if none is given, of what the logged lists earned."""
        from driftrank.evaluation.report import figure_over_time, figure_values

        timed = any(target.running is not None for target in self.targets.values())
        return figure_over_time(self) if timed else figure_values(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; a refused number is null."""
        return {
            "source": self.source, "lists": self.lists, "queries": self.queries, "k": self.k,
            "objective": self.objective, "level": self.level, "logged": self.logged, "logged_now": self.logged_now,
            "changes": self.changes, "changes_searched": self.searched,
            "changes_searched_share": self.searched_share, "answered": self.answered,
            "checks": [check.to_dict() for check in self.checks.checks],
            "targets": [target.to_dict() for target in self.targets.values()],
        }  # fmt: skip


def _plain(table: Floats | None) -> list[list[float | None]] | None:
    if table is None:
        return None
    return [[None if math.isnan(x) else float(x) for x in row] for row in table]
