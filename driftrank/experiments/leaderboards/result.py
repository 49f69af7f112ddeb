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

from driftrank.engine import MEASURES
from driftrank.experiments.leaderboards.arena import Arena, Comparison, Detection, arena_of, facts_of
from driftrank.experiments.leaderboards.significance import holm, paired_p, permutation_p
from driftrank.experiments.leaderboards.suite import PARTS
from driftrank.extras import need
from driftrank.files import usable_folder, written, written_text
from driftrank.reporting.arrow import dictionary_column
from driftrank.reporting.table import Table
from driftrank.validation import check_known

#: regret below this is rounding error
ROUNDING = 1e-9


@dataclass(repr=False)
class Leaderboard:
    """Final regret of every policy in every environment, with tests of significance."""

    specs: dict[str, str]  #: policies with their parameters, by label
    groups: dict[str, str]  #: the group of each policy
    default: str  #: the policy that all others are compared with
    arenas: list[Arena]
    source: str = ""  #: the source of the queries
    k: int = 3
    part: str = ""  #: the group of environments that this is about
    #: the other groups by name, each compared by itself
    parts: dict[str, Leaderboard] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        specs: Mapping[str, str],
        groups: Mapping[str, str],
        default: str,
        arenas: Iterable[Arena],
        source: str = "",
        k: int = 3,
    ) -> Leaderboard:
        """The leaderboard of the first group of these environments, and of the others in its ``parts``.

        A leaderboard has the policies that could run in one of its environments.
        """
        by_part: dict[str, list[Arena]] = {}
        for arena in arenas:
            by_part.setdefault(arena.part, []).append(arena)

        def board(part: str) -> Leaderboard:
            ran = {label for arena in by_part[part] for label in arena.result.labels}
            own, their = ({label: x[label] for label in specs if label in ran} for x in (specs, groups))
            return cls(own, their, default, by_part[part], source, k, part)

        first, *others = (board(part) for part in sorted(by_part, key=[*PARTS, *by_part].index))
        first.parts = {other.part: other for other in others}
        return first

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def policies(self) -> list[str]:
        return list(self.specs)

    @property
    def environments(self) -> list[str]:
        return [arena.name for arena in self.arenas]

    @property
    def every_part(self) -> list[Leaderboard]:
        """This group of environments and the others."""
        return [self, *self.parts.values()]

    @property
    def seconds(self) -> float:
        return sum(arena.result.seconds for arena in self.arenas)

    @property
    def with_caller(self) -> bool:
        """True if the lists have an order of the caller's, as in Traffic."""
        return bool(self.arenas[0].caller)

    @property
    def contenders(self) -> list[str]:
        """All policies except oracles, each once."""
        return [label for label in self.specs if self.groups[label] != "oracle" and label not in self._twice]

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
        """Regret relative to that of the best contender; NaN if it could not run, or if the best has none.

        The best is cross-validated: on every second query (or run, if there is one query) it is the contender that has
        the least regret on the others. Otherwise the best of many would look better than it is.
        """
        least = self._least[environment]
        return self.regret(policy, environment)[0] / least if least > ROUNDING else math.nan

    def score(self, policy: str, environments: Iterable[str]) -> float:
        """The geometric mean of the ratios over environments; NaN for an oracle that has no regret at all in one."""
        ratios = [r for r in (self.ratio(policy, name) for name in environments) if not math.isnan(r)]
        some = min(ratios, default=0.0) > ROUNDING
        return math.exp(sum(map(math.log, ratios)) / len(ratios)) if some else math.nan

    @cached_property
    def scores(self) -> dict[str, float]:
        """The score of every policy over all environments: about 1 if it is the best in all of them."""
        return {label: self.score(label, self.environments) for label in self.specs}

    def ranked(self, *groups: str) -> list[str]:
        """Policies from best to worst, each once, of all groups or of some; oracles last."""
        once = [label for label in self.specs if label not in self._twice]
        chosen = [label for label in once if not groups or self.groups[label] in groups]
        score = {label: math.inf if math.isnan(self.scores[label]) else self.scores[label] for label in chosen}
        return sorted(chosen, key=lambda label: (self.groups[label] == "oracle", score[label]))

    def twins(self) -> list[list[str]]:
        """Policies with different names that have the same numbers everywhere: one policy, which counts once."""
        return self._alike

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
        found, permuted = [], []
        for label in self.ranked():
            for name in self.environments:
                if label != self.default and self.ran(label, name) and self.ran(self.default, name):
                    mean = self.regret(self.default, name)[0]
                    ratio = self.regret(label, name)[0] / mean if mean > ROUNDING else math.nan
                    found.append((label, name, *self.paired(label, self.default, name), ratio))
                    arena = self.arena(name)
                    permuted.append(permutation_p(arena.samples(label) - arena.samples(self.default)))
        adjusted = zip(holm([p for *_, p, _ in found]), holm(permuted), strict=True)
        return [
            Comparison(label, name, difference, error, ratio, *ps)
            for (label, name, difference, error, _, ratio), ps in zip(found, adjusted, strict=True)
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
        rows = [
            (c.policy, c.environment, c.difference, c.error, c.ratio, c.p, c.permutation, c.verdict)
            for c in self.comparisons
        ]
        ratio = f"ratio to {self.default}"
        names = ("policy", "environment", "difference", "± s.e.", ratio, "p", "permutation p", "verdict")
        return Table(names, rows, (None, None, ",.1f", ",.1f", ".2f", ".2g", ".2g", None))

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
                beside = (c.ratio, c.p, c.permutation, c.verdict) if c else ("", "", "", "")
                why = arena.obstacles.get(label, "")
                rows.append(
                    (self.part, label, self.groups[label], arena.name, *self.regret(label, arena.name),
                     self.ratio(label, arena.name), *beside, why)
                )  # fmt: skip
        rows += [tuple(row) for part in self.parts.values() for row in part.numbers().rows]
        names = (
            "part", "policy", "group", "environment", "regret", "se", "ratio_to_best", "ratio_to_default", "p",
            "permutation_p", "verdict", "could_not_run",
        )  # fmt: skip
        return Table(names, rows, [None] * len(names))

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
                    there[arena.name]["against_default"] = {
                        "ratio": c.ratio, "p": c.p, "permutation_p": c.permutation, "verdict": c.verdict,
                    }  # fmt: skip
                if d := detected.get((label, arena.name)):
                    kept = ("share", "delay", "alarms", "false_alarms")
                    there[arena.name]["detection"] = {key: getattr(d, key) for key in kept}
            policies[label] = {
                "spec": self.specs[label],
                "group": self.groups[label],
                "score": self.scores[label],
                "also": [other for alike in self.twins() if alike[0] == label for other in alike[1:]],
                "nanoseconds_per_step": self.nanoseconds(label),
                "environments": there,
            }
        first = self.arenas[0].result
        about = {
            "part": self.part,
            "default": self.default,
            "horizon": first.horizon,
            "seed": first.seed,
            "k": self.k,
            "queries": self.source,
            "seconds": round(self.seconds, 3),
        }
        places = {
            arena.name: {
                "spec": arena.spec, "options": arena.options, "horizon": arena.result.horizon, "runs": arena.runs,
                "changes": arena.changes,
            }
            for arena in self.arenas
        }  # fmt: skip
        plain: dict[str, Any] = _plain({"policies": policies, "environments": places, **about})
        if self.parts:
            plain["parts"] = {name: part.summary() for name, part in self.parts.items()}
        return plain

    def save(self, directory: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> Path:
        """Write ``results.parquet`` (with ``metadata`` in it) and ``summary.json`` to a folder.

        The rows are those of :meth:`Result.to_arrow`, with a column ``environment``; measures that an environment does
        not have are empty.
        """
        need("plots", "pyarrow")
        import pyarrow.parquet

        folder = usable_folder(directory)
        arenas = [arena for part in self.every_part for arena in part.arenas]
        measures = dict.fromkeys([*MEASURES, *(name for arena in arenas for name in arena.result.measures)])
        with written(folder / "results.parquet") as path:
            writer = None
            for arena in arenas:
                rows = arena.result.to_arrow()
                for name in measures:
                    if name not in rows.column_names:
                        rows = rows.append_column(name, pyarrow.nulls(len(rows), pyarrow.float64()))
                names = dictionary_column(np.zeros(len(rows)), [arena.name])
                rows = rows.add_column(0, "environment", names).replace_schema_metadata(metadata)
                writer = writer or pyarrow.parquet.ParquetWriter(path, rows.schema, compression="zstd")
                writer.write_table(rows.select(writer.schema.names))
            if writer:
                writer.close()
        details = {
            "specs": {label: spec for part in self.every_part for label, spec in part.specs.items()},
            "groups": {label: group for part in self.every_part for label, group in part.groups.items()},
            "source": self.source,
            "arenas": [facts_of(arena) for arena in arenas],
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
                arena_of(facts, rows.filter(pyarrow.compute.equal(where, facts["name"]))) for facts in details["arenas"]
            ]
            return cls.of(
                details["specs"], details["groups"], summary["default"], arenas, details["source"], summary["k"]
            )
        except (OSError, ValueError, KeyError, IndexError, TypeError, pyarrow.ArrowException) as error:
            raise ValueError(f"{folder}: does not hold a readable leaderboard ({error})") from error

    # -- inside ----------------------------------------------------------------------------------------------------

    @cached_property
    def _final(self) -> dict[tuple[str, str], tuple[float, float]]:
        return {
            (label, arena.name): arena.result.between(label) for arena in self.arenas for label in arena.result.labels
        }

    @cached_property
    def _alike(self) -> list[list[str]]:
        alike: dict[tuple[Any, ...], list[str]] = {}
        for label in sorted(self.specs, key=lambda label: label != self.default):
            there = (a.result for a in self.arenas if label in a.result.labels)
            numbers = (r.values[:3, r.labels.index(label)].tobytes() for r in there)
            alike.setdefault((self.groups[label], *numbers), []).append(label)
        return [labels for labels in alike.values() if len(labels) > 1]

    @cached_property
    def _twice(self) -> set[str]:
        """The further names of policies."""
        return {label for alike in self._alike for label in alike[1:]}

    @cached_property
    def _least(self) -> dict[str, float]:
        """By environment, the regret of the best contender, chosen on every second sample for the others."""
        found = {}
        for arena in self.arenas:
            regrets = np.array([arena.samples(p) for p in self.contenders if self.ran(p, arena.name)])
            halves = [regrets[:, 0::2], regrets[:, 1::2]] if regrets.shape[1] > 1 else [regrets, regrets]
            best = [half.mean(axis=1).argmin() for half in halves]
            chosen = [*halves[0][best[1]], *halves[1][best[0]]]
            found[arena.name] = float(np.mean(chosen))
        return found

    def _regrets(self, label: str) -> list[float | str]:
        """Regret by environment, or the reason why there is none."""
        return [arena.obstacles.get(label) or self.regret(label, arena.name)[0] for arena in self.arenas]


def _plain(value: Any) -> Any:
    """As JSON: None for NaN."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
