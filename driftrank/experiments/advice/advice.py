"""An advice: the policy, its gain and how sure it is, what speaks against it, and what to do next."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from driftrank import __version__
from driftrank.evaluation.checks import LogChecks, Refusal
from driftrank.evaluation.estimate import Estimate
from driftrank.evaluation.result import Difference
from driftrank.experiments.advice.candidates import ORDER
from driftrank.experiments.advice.experiment import HOLDOUT, Experiment
from driftrank.experiments.advice.worlds import ModelCheck
from driftrank.files import written_text
from driftrank.logs.generations import Floats
from driftrank.policies.registry import parse_policy
from driftrank.reporting.toml import write_toml

#: the first line of settings that may be replaced
MARK = "Written by driftrank advise."
#: what is advised: another policy; what was shown; that, because the gain is not clear; nothing
USE, STAY, UNCLEAR, REFUSED = "use", "keep", "unclear", "refused"


@dataclass(frozen=True)
class Gain:
    """Clicks per list above what was shown, and the ends of the interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.value:+.4f} ({self.low:+.4f} to {self.high:+.4f})"


@dataclass(frozen=True)
class CandidateResult:
    """A candidate in the plausible world where its gain is smallest."""

    name: str
    value: float
    gain: Gain
    model: str  #: of that world

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "gain": self.gain.to_dict(), "model": self.model}


@dataclass(frozen=True)
class ModelResult:
    """A click model: its checks, and the gain of the advised policy if it is plausible."""

    check: ModelCheck
    gain: Gain | None = None

    def to_dict(self) -> dict[str, Any]:
        check = self.check
        return {
            "name": check.model, "behind": check.behind, "standard_error": check.error, "plausible": check.plausible,
            "off": check.off, "off_error": check.off_error, "p_positions": check.p, "usable": check.usable,
            "gain": None if self.gain is None else self.gain.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True)
class Variety:
    """The lists that were shown for a query."""

    query: str
    lists: int
    different: int  #: of them, in their first k positions
    items: int  #: that were shown

    def to_dict(self) -> dict[str, Any]:
        return {"query": self.query, "lists": self.lists, "different": self.different, "items": self.items}


@dataclass(frozen=True)
class Loser:
    """A query that would lose clicks, by more than the error of its gain."""

    query: str
    gain: float
    lists: int


@dataclass(frozen=True)
class CrossCheck:
    """The lists of the policy in the shadow of the log, by their propensities: without the price of exploration."""

    value: Estimate
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        return {"value_of": "shadow", "value": self.value.to_dict(), "difference": self.difference.to_dict()}


@dataclass(frozen=True, eq=False)
class Series:
    """Values over the log in windows, by the model in which the gain is smallest."""

    logged: Floats  #: what was clicked
    advised: Floats
    best: Floats  #: of the best lists
    changes: Floats  #: the share of queries that changed in each window


@dataclass(frozen=True, eq=False)
class Advice:
    """The result of :func:`driftrank.advise`."""

    source: str
    verdict: str  #: "use", "keep", "unclear" (keep for now) or "refused"
    policy: str | None  #: the policy to use; None: keep what you have
    trial: str | None  #: the policy of the next experiment
    gain: Gain | None  #: of the policy, or of the best one if it is not clear; None if it is refused
    grade: str | None  #: C: by click models that passed their checks; D: not so
    model: str | None  #: the plausible one in which the gain is smallest
    refused: tuple[Refusal, ...]
    against: tuple[str, ...]  #: what speaks against it
    next: Experiment | None
    losers: tuple[Loser, ...]
    candidates: tuple[CandidateResult, ...]
    models: tuple[ModelResult, ...]
    checks: LogChecks
    cross_check: CrossCheck | None
    k: int
    lists: int  #: in the log
    used: int  #: of them, those of the queries that were simulated
    queries: int
    used_queries: int
    changes: int  #: found in these queries
    logged: float  #: what their lists earned
    repetitions: int
    span: tuple[Any, Any]
    seed: int
    budget: float
    shown: tuple[Variety, ...]  #: of the most frequent queries
    series: Series | None = field(default=None, repr=False)

    @property
    def answered(self) -> bool:
        """True if there is a number."""
        return self.gain is not None

    def settings(self, ranker: str = "default") -> str:
        """The TOML of the ranker, for the configuration of the service."""
        serving: dict[str, Any] = {"policy": None if self.trial == ORDER else self.trial, "k": self.k}
        if self.verdict == USE and self.trial != ORDER:
            serving |= {"holdout": HOLDOUT}
        else:  # the caller's order, while the policy learns
            serving |= {"mode": "shadow"}
        if self.next is not None:
            serving |= {"planned": self.next.lists}
            if self._may_explore:
                serving |= {"explore": self.next.explore}
        header = write_toml({}, "\n".join([MARK, *wrap(self.lead(), 100)]))
        return header + f"[rankers.{ranker}]\n" + write_toml(serving)

    @property
    def _may_explore(self) -> bool:
        """False if the service refuses to vary the lists of the policy, which learns by its own lists only."""
        return self.trial in (None, ORDER) or not parse_policy(str(self.trial)).own_lists

    @property
    def name(self) -> str:
        """The candidate that the gain is of, for sentences."""
        return "the current order" if self.trial == ORDER else str(self.trial)

    # -- sentences -------------------------------------------------------------------------------------------------

    def lead(self) -> str:
        """The advice in one sentence."""
        if self.gain is None:
            return f"No advice ({self.refused[0].code}). {self.refused[0].text}"
        gain = f"{self.gain.value:+.4f} clicks per list"
        ends = f"({self.gain.low:+.4f} to {self.gain.high:+.4f})"
        how = f"grade {self.grade}: by the click model {self.model}, not by experiment."
        if self.verdict == USE:
            return f"Use {self.name}. Expected {gain} over what was shown {ends}, {how}"
        until = " for now" * (self.verdict == UNCLEAR)
        return f"Keep what you have{until}. Expected of {self.name}: {gain} over it {ends}, {how}"

    def sentences(self) -> list[str]:
        """The whole advice: what to do, what speaks against it, what to do to know."""
        out = [self.lead(), *(f"Also ({refusal.code}): {refusal.text}" for refusal in self.refused[1:])]
        if self.against:
            out.append(f"Against it: {' '.join(self.against)}")
        if self.next is not None:
            what = "serve it" if self.verdict == USE else f"serve {self.name}"
            explore = f"explore = {self.next.explore:g} and " if self._may_explore else ""
            out.append(
                f"To know: {what} with {explore}holdout = {self.next.holdout:g}; about"
                f" {self.next.lists:,} lists tell ±{self.next.within:g}."
            )
        return out

    # -- files -----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; a refused number is null. Numbers have ten digits: SQL sums in any order."""
        found = {
            "verdict": self.verdict, "policy": self.policy, "trial": self.trial, "settings": self.settings(),
            "value_of": "online", "objective": "any", "gain": None if self.gain is None else self.gain.to_dict(),
            "grade": self.grade,
            "model": self.model, "refused": [refusal.to_dict() for refusal in self.refused],
            "against": list(self.against), "next": None if self.next is None else self.next.to_dict(),
            "losers": [{"query": each.query, "gain": each.gain, "lists": each.lists} for each in self.losers],
            "shown": [each.to_dict() for each in self.shown],
            "candidates": [each.to_dict() for each in self.candidates],
            "models": [each.to_dict() for each in self.models],
            "checks": [check.to_dict() for check in self.checks.checks],
            "cross_check": None if self.cross_check is None else self.cross_check.to_dict(),
            "source": self.source, "span": [str(time) for time in self.span], "k": self.k, "lists": self.lists,
            "used_lists": self.used, "queries": self.queries, "used_queries": self.used_queries,
            "changes": self.changes, "logged": self.logged, "repetitions": self.repetitions, "seed": self.seed,
            "budget": self.budget, "version": __version__,
        }  # fmt: skip
        rounded: dict[str, Any] = _rounded(found)
        return rounded

    def json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, sort_keys=False) + "\n"

    def save(self, folder: str | os.PathLike[str], command: Sequence[str] = ()) -> list[Path]:
        """Write ``report.html`` with its figures, ``advice.json`` and ``driftrank.toml`` into a folder."""
        from driftrank.experiments.advice.report import write_report

        return write_report(self, folder, command)

    def save_settings(self, path: str | os.PathLike[str], ranker: str = "default") -> None:
        """Write the settings of a ranker to a new file, or to one that was written so."""
        check_settings_file(path)
        written_text(Path(path), self.settings(ranker))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def check_settings_file(path: str | os.PathLike[str]) -> None:
    """Check that writing to a file loses no settings of somebody else."""
    file = Path(path)
    if not file.parent.is_dir():
        raise ValueError(f"out={os.fspath(path)!r}: there is no folder {file.parent}")
    if file.exists() and not file.read_text("utf-8", "replace").startswith(f"# {MARK}"):
        raise ValueError(f"out={os.fspath(path)!r}: must be a new file, or one that driftrank advise has written")
