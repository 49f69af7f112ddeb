"""The result of a leaderboard: every policy in every environment."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.leaderboards.significance import holm, paired_p
from driftrank.experiments.simulation.result import Result, long_values
from driftrank.extras import need
from driftrank.files import usable_folder, written, written_text
from driftrank.policies.base import Policy
from driftrank.policies.policy_kernels import never_alarmed
from driftrank.reporting.arrow import dictionary_column
from driftrank.reporting.table import Table
from driftrank.validation import check_known

#: the significance level of verdicts
LEVEL = 0.05
#: regret below this is rounding error
ROUNDING = 1e-9

#: the ways in which policies handle change; oracles are not contenders
GROUPS = ("active", "passive", "stationary", "oracle")


def group_of(policy: Policy) -> str:
    """``"active"``: detects changes; ``"passive"``: copes with them by forgetting; ``"stationary"``; ``"oracle"``."""
    if policy.oracle:
        return "oracle"
    if policy.kernels().alarmed is not never_alarmed:
        return "active"
    return "passive" if {"abrupt", "drift"} & set(policy.claims) else "stationary"


@dataclass(frozen=True)
class Arena:
    """An environment of the leaderboard, and its results."""

    name: str
    spec: str
    what: str
    kind: str
    result: Result
    changes: int = 0  #: breakpoints that could be detected, of all queries and runs together
    marks: list[int] = field(default_factory=list)  #: breakpoints that most runs have in common
    obstacles: Mapping[str, str] = field(default_factory=dict)  #: by policy: the reason why it could not run here
    caller: list[float] = field(default_factory=list)  #: of Traffic, the final regret of the caller's order, by run

    @property
    def runs(self) -> int:
        """Runs of all queries together."""
        return len(self.result.queries) * self.result.runs

    def samples(self, policy: str) -> NDArray[np.float64]:
        """Final regret, by query (its runs averaged), or by run if there is one query."""
        values = self.result.values_of(policy)[:, :, -1]
        samples: NDArray[np.float64] = values.mean(axis=1) if len(values) > 1 else values[0]
        return samples

    def gain(self, policy: str) -> tuple[float, float]:
        """In Traffic, the clicks a list that a policy gains over the caller's order, and the standard error."""
        gains = (np.array(self.caller) - self.samples(policy)) / self.result.horizon
        error = float(gains.std(ddof=1) / math.sqrt(len(gains))) if len(gains) > 1 else math.nan
        return float(gains.mean()), error

    def total(self, policy: str, measure: str) -> float:
        """The sum of a measure over all queries and runs, at the end."""
        return float(self.result.values_of(policy, measure)[..., -1].sum())


@dataclass(frozen=True)
class Comparison:
    """A policy against the default one, in one environment."""

    policy: str
    environment: str
    difference: float  #: of mean regret; negative if the policy is better
    error: float  #: standard error of the paired difference
    ratio: float  #: of mean regret
    p: float  #: adjusted for all comparisons of the leaderboard

    @property
    def verdict(self) -> str:
        if not self.p <= LEVEL:
            return "not significant"
        return "better" if self.difference < 0 else "worse"


@dataclass(frozen=True)
class Detection:
    """The alarms of a policy in one environment, compared with the true changes."""

    policy: str
    environment: str
    changes: int  #: breakpoints of all runs together
    share: float  #: detected before the next one; NaN if there are none
    delay: float  #: mean steps from a breakpoint to its alarm; NaN if none was detected
    alarms: float  #: per run
    false_alarms: float  #: per run


@dataclass(repr=False)
class Leaderboard:
    """Final regret of every policy in every environment, with tests of significance."""

    specs: dict[str, str]  #: policies with their parameters, by label
    groups: dict[str, str]  #: the group of each policy
    default: str  #: the policy that all others are compared with
    arenas: list[Arena]
    source: str = ""  #: the source of the queries
    k: int = 3
    seconds: float = 0.0
    traffic: Leaderboard | None = None  #: environments with all queries of a ranker, compared by themselves

    @classmethod
    def of(
        cls,
        specs: Mapping[str, str],
        groups: Mapping[str, str],
        default: str,
        arenas: Iterable[Arena],
        source: str = "",
        k: int = 3,
        seconds: float = 0.0,
    ) -> Leaderboard:
        """The leaderboard of these environments. Those of Traffic are a leaderboard of their own, if there are others.

        A leaderboard has the policies that could run in one of its environments.
        """

        def board(part: list[Arena]) -> Leaderboard:
            ran = {label for arena in part for label in arena.result.labels}
            own, their = ({label: x[label] for label in specs if label in ran} for x in (specs, groups))
            return cls(own, their, default, part, source, k, seconds)

        there = list(arenas)
        parts = [[a for a in there if not a.caller], [a for a in there if a.caller]]
        boards = [board(part) for part in parts if part]
        boards[0].traffic = boards[1] if len(boards) > 1 else None
        return boards[0]

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def policies(self) -> list[str]:
        return list(self.specs)

    @property
    def environments(self) -> list[str]:
        return [arena.name for arena in self.arenas]

    @property
    def every_arena(self) -> list[Arena]:
        """All environments, those of Traffic last."""
        return [*self.arenas, *(self.traffic.arenas if self.traffic else ())]

    @property
    def with_caller(self) -> Leaderboard | None:
        """The leaderboard of Traffic, whose lists have an order of the caller's."""
        return self.traffic or (self if self.arenas[0].caller else None)

    @property
    def contenders(self) -> list[str]:
        """All policies except oracles."""
        return [label for label in self.specs if self.groups[label] != "oracle"]

    def arena(self, environment: str) -> Arena:
        check_known("environment", environment, self.environments)
        return self.arenas[self.environments.index(environment)]

    def ran(self, policy: str, environment: str) -> bool:
        check_known("policy", policy, self.policies)
        return policy in self.arena(environment).result.labels

    def regret(self, policy: str, environment: str) -> tuple[float, float]:
        """Mean final regret and its standard error; NaN if the policy could not run."""
        return self._final[policy, environment] if self.ran(policy, environment) else (math.nan, math.nan)

    def best(self, environment: str) -> str:
        """The contender with the least regret."""
        there = [label for label in self.contenders if self.ran(label, environment)]
        return min(there, key=lambda label: self.regret(label, environment)[0])

    def ratio(self, policy: str, environment: str) -> float:
        """Regret relative to that of the best contender; NaN if it could not run, or if the best has none."""
        least = self.regret(self.best(environment), environment)[0]
        return self.regret(policy, environment)[0] / least if least > ROUNDING else math.nan

    @cached_property
    def scores(self) -> dict[str, float]:
        """The geometric mean of the ratios over the environments: 1 for a policy that is the best in all of them.

        NaN for an oracle that has no regret at all somewhere.
        """
        out = {}
        for label in self.specs:
            ratios = [r for r in (self.ratio(label, name) for name in self.environments) if not math.isnan(r)]
            some = min(ratios, default=0.0) > ROUNDING
            out[label] = math.exp(sum(map(math.log, ratios)) / len(ratios)) if some else math.nan
        return out

    def ranked(self, *groups: str) -> list[str]:
        """Policies from best to worst, of all groups or of some; oracles last."""
        chosen = [label for label in self.specs if not groups or self.groups[label] in groups]
        score = {label: math.inf if math.isnan(self.scores[label]) else self.scores[label] for label in chosen}
        return sorted(chosen, key=lambda label: (self.groups[label] == "oracle", score[label]))

    def twins(self) -> list[list[str]]:
        """Policies with different names that have the same numbers everywhere."""
        alike: dict[tuple[bytes, ...], list[str]] = {}
        for label in self.ranked():
            there = (a.result for a in self.arenas if label in a.result.labels)
            alike.setdefault(tuple(r.values[:3, r.labels.index(label)].tobytes() for r in there), []).append(label)
        return [labels for labels in alike.values() if len(labels) > 1]

    def nanoseconds(self, policy: str) -> float:
        """The cost of a step on one core."""
        busy = stepped = 0.0
        for arena in self.arenas:
            if policy in arena.result.labels:
                i = arena.result.labels.index(policy)
                busy, stepped = busy + arena.result.busy[i], stepped + arena.result.stepped[i]
        return 1e9 * busy / stepped if stepped else math.nan

    def paired(self, policy: str, other: str, environment: str) -> tuple[float, float, float]:
        """Difference of mean regret, its standard error, and the p-value of a t test: both met the same users."""
        arena = self.arena(environment)
        mean, error = arena.result.compare(policy, other)
        return mean, error, paired_p(arena.samples(policy) - arena.samples(other))

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Every policy against the default one, in all environments that both could run in."""
        found = []
        for label in self.ranked():
            for name in self.environments:
                if label != self.default and self.ran(label, name) and self.ran(self.default, name):
                    mean = self.regret(self.default, name)[0]
                    ratio = self.regret(label, name)[0] / mean if mean > ROUNDING else math.nan
                    found.append((label, name, *self.paired(label, self.default, name), ratio))
        adjusted = holm([p for *_, p, _ in found])
        return [
            Comparison(label, name, difference, error, ratio, p)
            for (label, name, difference, error, _, ratio), p in zip(found, adjusted, strict=True)
        ]

    @cached_property
    def found_changes(self) -> list[Detection]:
        """Detections of every policy that raised alarms, in every environment."""
        out = []
        for label in self.ranked():
            there = [arena for arena in self.arenas if label in arena.result.labels]
            if not any(arena.total(label, "alarms") for arena in there):
                continue
            for arena in there:
                detected = arena.total(label, "detected")
                out.append(
                    Detection(
                        label,
                        arena.name,
                        arena.changes,
                        detected / arena.changes if arena.changes else math.nan,
                        arena.total(label, "delay") / detected if detected else math.nan,
                        arena.total(label, "alarms") / arena.runs,
                        arena.total(label, "false_alarms") / arena.runs,
                    )
                )
        return out

    # -- for people ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        n = len(self.arenas)
        return f"<Leaderboard: {len(self.specs)} policies in {n} environment{'s' * (n > 1)}>\n{self.table()}"

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def table(self) -> Table:
        """Policies from best to worst: the geometric mean of their ratios to the best, and regret by environment."""
        rows = [(label, self.scores[label], *self._regrets(label)) for label in self.ranked()]
        formats = (None, ".2f", *[",.1f"] * len(self.arenas))
        return Table(("policy", "ratio to best", *self.environments), rows, formats)

    def compare(self) -> Table:
        """Every policy against the default one in every environment: paired over queries or runs, p after Holm."""
        rows = [(c.policy, c.environment, c.difference, c.error, c.ratio, c.p, c.verdict) for c in self.comparisons]
        names = ("policy", "environment", "difference", "± s.e.", f"ratio to {self.default}", "p", "verdict")
        return Table(names, rows, (None, None, ",.1f", ",.1f", ".2f", ".2g", None))

    def detections(self) -> Table:
        """The detections of every policy that raised alarms, in every environment."""
        rows = [tuple(dataclasses.astuple(d)) for d in self.found_changes]
        names = ("policy", "environment", "breakpoints", "detected", "delay", "alarms a run", "false alarms a run")
        return Table(names, rows, (None, None, "d", ".0%", ",.0f", ".1f", ".1f"))

    def gains(self) -> Table:
        """In Traffic: clicks a list that policies gain over the caller's order, from best to worst."""
        rows = [
            (label, self.scores[label],
             *(arena.obstacles.get(label) or "{:+.4f} ± {:.4f}".format(*arena.gain(label)) for arena in self.arenas))
            for label in self.ranked()
        ]  # fmt: skip
        return Table(("policy", "ratio to best", *self.environments), rows, (None, ".2f", *[""] * len(self.arenas)))

    def numbers(self) -> Table:
        """One row for every policy and environment, for machines."""
        compared = {(c.policy, c.environment): c for c in self.comparisons}
        rows = []
        for label in self.ranked():
            for arena in self.arenas:
                c = compared.get((label, arena.name))
                beside = (c.ratio, c.p, c.verdict) if c else ("", "", "")
                why = arena.obstacles.get(label, "")
                rows.append(
                    (label, self.groups[label], arena.name, *self.regret(label, arena.name),
                     self.ratio(label, arena.name), *beside, why)
                )  # fmt: skip
        rows += [tuple(row) for row in self.traffic.numbers().rows] if self.traffic else []
        names = ("policy", "group", "environment", "regret", "se", "ratio_to_best", "ratio_to_default", "p", "verdict")
        return Table((*names, "could_not_run"), rows, [None] * 10)

    # -- for machines ----------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The numbers that ``driftrank leaderboard --json`` prints."""
        compared = {(c.policy, c.environment): c for c in self.comparisons}
        detected = {(d.policy, d.environment): d for d in self.found_changes}
        policies: dict[str, Any] = {}
        for label in self.ranked():
            there: dict[str, Any] = {}
            for arena in self.arenas:
                if label in arena.obstacles:
                    there[arena.name] = {"could_not_run": arena.obstacles[label]}
                    continue
                mean, error = self.regret(label, arena.name)
                there[arena.name] = {"regret": {"mean": mean, "se": error}, "ratio": self.ratio(label, arena.name)}
                if arena.caller:
                    there[arena.name]["gain"] = dict(zip(("mean", "se"), arena.gain(label), strict=True))
                if c := compared.get((label, arena.name)):
                    there[arena.name]["against_default"] = {"ratio": c.ratio, "p": c.p, "verdict": c.verdict}
                if d := detected.get((label, arena.name)):
                    kept = ("share", "delay", "alarms", "false_alarms")
                    there[arena.name]["detection"] = {key: getattr(d, key) for key in kept}
            policies[label] = {
                "spec": self.specs[label],
                "group": self.groups[label],
                "score": self.scores[label],
                "nanoseconds_per_step": self.nanoseconds(label),
                "environments": there,
            }
        first = self.arenas[0].result
        about = {
            "default": self.default,
            "horizon": first.horizon,
            "seed": first.seed,
            "k": self.k,
            "queries": self.source,
            "seconds": round(self.seconds, 3),
        }
        places = {
            arena.name: {"spec": arena.spec, "runs": arena.runs, "changes": arena.changes} for arena in self.arenas
        }
        plain: dict[str, Any] = _plain({"policies": policies, "environments": places, **about})
        if self.traffic:
            plain["traffic"] = self.traffic.summary()
        return plain

    def save(self, directory: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> Path:
        """Write ``results.parquet`` (with ``metadata`` in it) and ``summary.json`` to a folder.

        The rows are those of :meth:`Result.to_arrow`, with a column ``environment``.
        """
        need("plots", "pyarrow")
        import pyarrow.parquet

        folder = usable_folder(directory)
        with written(folder / "results.parquet") as path:
            writer = None
            for arena in self.every_arena:
                rows = arena.result.to_arrow()
                rows = rows.drop_columns([*arena.result.measures[len(MEASURES) :]])  # those of all environments stay
                names = dictionary_column(np.zeros(len(rows)), [arena.name])
                rows = rows.add_column(0, "environment", names).replace_schema_metadata(metadata)
                writer = writer or pyarrow.parquet.ParquetWriter(path, rows.schema, compression="zstd")
                writer.write_table(rows)
            if writer:
                writer.close()
        more = self.traffic or self
        details = {
            "specs": self.specs | more.specs,
            "groups": self.groups | more.groups,
            "source": self.source,
            "arenas": [_facts(arena) for arena in self.every_arena],
        }
        written_text(folder / "summary.json", json.dumps(self.summary() | {"details": details}, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Leaderboard:
        """Read a folder that :meth:`save` wrote."""
        need("plots", "pyarrow")
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet

        folder = Path(directory)
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            rows = pyarrow.parquet.read_table(folder / "results.parquet")
            where = rows["environment"].cast(pyarrow.string())
            details = summary["details"]
            arenas = [
                _arena(facts, rows.filter(pyarrow.compute.equal(where, facts["name"]))) for facts in details["arenas"]
            ]
            return cls.of(
                details["specs"], details["groups"], summary["default"], arenas, details["source"], summary["k"],
                summary["seconds"],
            )  # fmt: skip
        except (OSError, ValueError, KeyError, IndexError, TypeError, pyarrow.ArrowException) as error:
            raise ValueError(f"{folder}: does not hold a readable leaderboard ({error})") from error

    # -- inside ----------------------------------------------------------------------------------------------------

    @cached_property
    def _final(self) -> dict[tuple[str, str], tuple[float, float]]:
        return {
            (label, arena.name): arena.result.between(label) for arena in self.arenas for label in arena.result.labels
        }

    def _regrets(self, label: str) -> list[float | str]:
        """Regret by environment, or the reason why there is none."""
        return [arena.obstacles.get(label) or self.regret(label, arena.name)[0] for arena in self.arenas]


#: the fields of a result, besides its values
_KEPT = ("labels", "specs", "queries", "horizon", "runs", "seed", "device", "environment", "busy", "stepped", "cores")


def _facts(arena: Arena) -> dict[str, Any]:
    """An environment without its numbers."""
    own = {f.name: getattr(arena, f.name) for f in dataclasses.fields(arena) if f.name != "result"}
    result = {name: getattr(arena.result, name) for name in (*_KEPT, "breakpoints", "seconds")}
    return own | {"result": result | {"checkpoints": arena.result.checkpoints.tolist()}}


def _arena(facts: Mapping[str, Any], rows: Any) -> Arena:
    about = dict(facts["result"])
    steps = np.array(about.pop("checkpoints"), np.int64)
    values = long_values(rows, about["labels"], about["queries"], about["runs"], steps)
    return Arena(**dict(facts) | {"result": Result(**about, checkpoints=steps, values=values)})


def _plain(value: Any) -> Any:
    """As JSON: None for NaN."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
