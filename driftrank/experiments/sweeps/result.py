"""The result of a sweep: the regret of every setting, and the best ones."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.simulation.labels import known_label
from driftrank.experiments.simulation.result import Result, long_values
from driftrank.experiments.sweeps.family import Family, Point
from driftrank.experiments.sweeps.long_form import environment_columns, parameter_columns, tables
from driftrank.extras import need
from driftrank.files import usable_folder, written, written_text
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.reporting.table import Table
from driftrank.validation import check_known

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]

#: fields of results that are not in ``summary.json``
_LEFT_OUT = ("values", "measures", "env")


@dataclass(frozen=True)
class Trial:
    """An environment of the sweep, and its result."""

    name: str
    parameters: Mapping[str, Any]  #: in which it differs from others of its class
    result: Result  #: of every setting
    #: by policy: the default values of the swept parameters, ``"auto"`` resolved
    recommended: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Estimates:
    """Final regret of the settings of a policy, in their order."""

    mean: Numbers
    error: Numbers  #: standard error
    runs: NDArray[np.int64]  #: finished ones, of all queries and environments
    complete: NDArray[np.bool_]  #: true if that is all of them

    def of(self, settings: Sequence[int]) -> Estimates:
        """The estimates of some settings, by their places."""
        i = list(settings)
        return Estimates(self.mean[i], self.error[i], self.runs[i], self.complete[i])


@dataclass(frozen=True)
class Best:
    """The setting with the least regret."""

    policy: str  #: the policy's name in the sweep
    spec: str
    parameters: dict[str, Any]  #: those that are swept
    environment: str | None  #: None: all together
    regret: float
    error: float
    ties: int  #: other settings that are within one standard error, of the paired difference
    settings: int  #: all settings to choose from
    # the policy with the defaults of these parameters, if it has them
    recommended: dict[str, Any] = field(default_factory=dict)  #: their values then
    reference: float = math.nan  #: its regret
    saved: float = math.nan  #: the difference to the best setting
    saved_error: float = math.nan  #: standard error of this paired difference

    def make(self) -> Policy:
        """The policy itself."""
        return parse_policy(self.spec)


@dataclass(repr=False)
class Sweep:
    """Final regret of every setting of every policy in every environment.

    A setting that was dropped early (``halving``) has fewer runs, which may have been easier or harder ones. Its regret
    is therefore estimated as that of the best setting, plus the mean difference of the two in the runs of both.
    """

    families: list[Family]
    trials: list[Trial]
    halving: bool = False

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def policies(self) -> list[str]:
        return [family.label for family in self.families]

    @property
    def environments(self) -> list[str]:
        return [trial.name for trial in self.trials]

    def family(self, policy: str) -> Family:
        """The settings of a policy."""
        return self.families[self.policies.index(known_label(policy, self.policies))]

    def trial(self, environment: str) -> Trial:
        check_known("environment", environment, self.environments)
        return self.trials[self.environments.index(environment)]

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of every setting in the results."""
        return {spec: i for i, spec in enumerate(self.trials[0].result.specs)}

    def regret(self, policy: str, environment: str | None = None) -> Estimates:
        """The regret of all settings of a policy, in one environment or on average over all of them."""
        return self._estimates([point.spec for point in self.family(policy).points], environment)

    def reference(self, policy: str, environment: str | None = None) -> Estimates | None:
        """The regret of the policy with the defaults of the swept parameters; None if they have none."""
        spec = self.family(policy).reference
        return None if spec is None else self._estimates([spec], environment)

    def recommended(self, policy: str, environment: str | None = None) -> dict[str, Any]:
        """These defaults, ``"auto"`` resolved; those that differ between environments are left out."""
        found = [trial.recommended[self.family(policy).label] for trial in self._chosen(environment)]
        return {name: value for name, value in found[0].items() if all(f.get(name) == value for f in found)}

    def best(self, policy: str | None = None, environment: str | None = None) -> Best:
        """The setting with the least mean regret, of one policy or of all, in one environment or in all together.

        All settings meet the same users: the differences behind ``ties`` and ``saved`` are paired.
        """
        chosen = self.families if policy is None else [self.family(policy)]
        rivals = list(dict.fromkeys(point.spec for family in chosen for point in family.points))
        found = [self._best(family, environment, rivals) for family in chosen]
        return min(found, key=lambda best: (math.isnan(best.regret), best.regret))

    def difference(self, spec: str, other: str, environment: str | None = None) -> tuple[float, float]:
        """Mean and standard error of the difference in regret of two settings, paired over the runs both have made."""
        for given in (spec, other):
            check_known("setting", given, self.places)
        mean, error = self.differences([spec], other, environment)
        return float(mean[0]), float(error[0])

    def differences(self, specs: Sequence[str], other: str, environment: str | None = None) -> tuple[Numbers, Numbers]:
        """The differences of many settings to one."""
        found = []
        for trial in self._chosen(environment):
            regret = trial.result.values[0, ..., -1]
            found.append(_mean_and_error(regret[[self.places[spec] for spec in specs]] - regret[self.places[other]]))
        return _together(found)

    @property
    def horizon(self) -> int:
        return self.trials[0].result.horizon

    @property
    def runs(self) -> tuple[int, int]:
        """The number of finished runs, and the number of all runs without halving."""
        finished = [trial.result.finished for trial in self.trials]
        return sum(int(f.sum()) for f in finished), sum(f.size for f in finished)

    @property
    def seconds(self) -> float:
        return sum(trial.result.seconds for trial in self.trials)

    def summary(self) -> dict[str, Any]:
        """The numbers that ``driftrank sweep --json`` prints."""
        first = self.trials[0].result
        made, wanted = self.runs
        steps = sum(sum(trial.result.stepped) for trial in self.trials)
        return {
            "policies": {f.label: {"spec": f.spec, "parameters": list(f.parameters)} for f in self.families},
            "environments": {
                trial.name: {
                    "parameters": dict(trial.parameters),
                    "queries": len(trial.result.queries),
                    "policies": {family.label: self._summary_of(family, trial) for family in self.families},
                }
                for trial in self.trials
            },
            "best": _plain(dataclasses.asdict(self.best())),
            "horizon": self.horizon,
            "runs": first.runs,
            "seed": first.seed,
            "device": first.device,
            "halving": self.halving,
            "runs_made": made,
            "runs_wanted": wanted,
            "seconds": round(self.seconds, 3),
            "steps_per_second": round(steps / self.seconds) if self.seconds else 0,
        }

    # -- for people ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        made, wanted = self.runs
        settings = sum(len(family.points) for family in self.families)
        return f"<Sweep: {settings} settings, {made:,} of {wanted:,} runs of {self.horizon:,} steps>\n{self.table()}"

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def table(self) -> Table:
        """The best setting of every policy in every environment, and the policy with its defaults (``by itself``).

        ``as good``: the number of others within one standard error of the paired difference.
        """
        rows: list[tuple[Any, ...]] = []
        for name in self.environments:
            for best in sorted((self.best(label, name) for label in self.policies), key=lambda b: b.regret):
                rows.append(
                    (name, best.policy, written_values(best.parameters), best.regret, best.error,
                     f"{best.ties} of {best.settings - 1}" if best.settings > 1 else "–",
                     written_values(best.recommended), best.reference, best.saved, best.saved_error)
                )  # fmt: skip
        head = ("environment", "policy", "best setting", "regret", "± s.e.", "as good", "by itself", "its regret")
        formats = (None, None, None, ",.1f", ",.1f", None, None, ",.1f", ",.1f", ",.1f")
        skip = 0 if len(self.trials) > 1 else 1
        return Table((*head, "saved", "± s.e.")[skip:], [row[skip:] for row in rows], formats[skip:])

    def settings(self) -> Table:
        """One row for every setting in every environment, for machines."""
        swept, around = parameter_columns(self), environment_columns(self)
        rows = []
        for trial in self.trials:
            its = [trial.parameters.get(name, "") for name in around]
            for family in self.families:
                found = self.regret(family.label, trial.name)
                for point, *numbers in zip(family.points, found.mean, found.error, found.runs, strict=True):
                    values = [family.values(point).get(name, "") for name in swept]
                    rows.append((trial.name, *its, family.label, point.spec, *values, *(n.item() for n in numbers)))
        head = ("environment", *around.values(), "policy", "setting", *swept.values(), "regret", "se", "runs")
        return Table(head, rows, [None] * len(head))

    def plot(
        self, *parameters: str, policy: str | None = None, environment: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Regret against one parameter, or a heat map of two. Returns the axes.

        Without ``parameters``: those that ``policy``, or else the first one, sweeps. The curves are of all policies
        with that parameter unless one is named. A heat map is of one policy, at the best values of its other
        parameters.
        """
        from driftrank.experiments.sweeps.figures import plot_map, plot_parameter

        first = self.families[0] if policy is None else self.family(policy)
        names = parameters or first.parameters[:2]
        if len(names) == 1:
            return plot_parameter(self, names[0], ax, policy=policy, environment=environment)
        if len(names) != 2:
            raise ValueError(f"parameters={names!r}: must be one, or two for a heat map")
        return plot_map(self, first.label, *names, ax, environment=environment)

    def figures(self) -> dict[str, Figure]:
        """All figures, by the names of their files."""
        from driftrank.experiments.sweeps.figures import figures

        return figures(self)

    # -- for machines ----------------------------------------------------------------------------------------------

    def to_arrow(self) -> pyarrow.Table:
        """Long form: one row per environment, policy, setting, query, run and checkpoint.

        Every swept parameter is a column. It is null if the row's policy does not sweep it, or has its default.
        """
        need("plots", "pyarrow")
        import pyarrow

        return pyarrow.concat_tables(tables(self)).unify_dictionaries()

    def to_frame(self) -> pandas.DataFrame:
        """The long form as a pandas data frame."""
        need("pandas", "pandas", "pyarrow")
        return self.to_arrow().to_pandas()

    def save(self, directory: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> Path:
        """Write ``results.parquet`` (with ``metadata`` in it), ``summary.json`` and ``settings.csv`` to a folder."""
        need("plots", "pyarrow")
        import pyarrow.parquet

        folder = usable_folder(directory)
        with written(folder / "results.parquet") as path:
            writer = None
            for part in tables(self):
                rows = part.replace_schema_metadata(metadata)
                writer = writer or pyarrow.parquet.ParquetWriter(path, rows.schema, compression="zstd")
                writer.write_table(rows)
            if writer is not None:
                writer.close()
        written_text(folder / "settings.csv", self.settings().to_csv())
        summary = self.summary() | {"details": self._details()}
        written_text(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Read a folder that :meth:`save` wrote."""
        need("plots", "pyarrow")
        import pyarrow
        import pyarrow.parquet

        folder = Path(directory)
        columns = ["setting", "query", "run", "step", *MEASURES]
        trials = []
        try:
            details = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["details"]
            families = [
                Family(f["spec"], tuple(f["parameters"]), tuple(Point(spec, tuple(v)) for spec, v in f["points"]),
                       f["reference"], f["label"])
                for f in details["families"]
            ]  # fmt: skip
            for trial in details["trials"]:
                there = [("environment", "==", trial["name"])]
                rows = pyarrow.parquet.read_table(folder / "results.parquet", columns=columns, filters=there)
                about = trial.pop("result")
                steps = np.array(about.pop("checkpoints"), np.int64)
                rows = rows.rename_columns(["policy", *columns[1:]])
                values = long_values(rows, about["specs"], about["queries"], about["runs"], steps)
                trials.append(Trial(result=Result(checkpoints=steps, values=values, **about), **trial))
        except (OSError, ValueError, KeyError, IndexError, TypeError, pyarrow.ArrowException) as error:
            raise ValueError(f"{folder}: does not hold a readable sweep ({error})") from error
        return cls(families, trials, details["halving"])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _chosen(self, environment: str | None) -> list[Trial]:
        return self.trials if environment is None else [self.trial(environment)]

    def _estimates(self, specs: Sequence[str], environment: str | None) -> Estimates:
        found: list[tuple[Numbers, Numbers]] = []
        counts: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
        for trial in self._chosen(environment):
            regret = trial.result.values[0, [self.places[spec] for spec in specs], ..., -1]
            mean, error = _mean_and_error(regret)
            runs: NDArray[np.int64] = (~np.isnan(regret)).sum(axis=(1, 2))
            complete: NDArray[np.bool_] = runs == regret[0].size
            if complete.any() and not complete.all():
                anchor = int(np.where(complete, mean, np.inf).argmin())
                above, its = _mean_and_error(regret - regret[anchor])
                mean = np.where(complete, mean, mean[anchor] + above)
                error = np.where(complete, error, np.hypot(error[anchor], its))
            found.append((mean, error))
            counts.append((runs, complete))
        made: NDArray[np.int64] = np.array([runs for runs, _ in counts]).sum(axis=0)
        everywhere = np.logical_and.reduce([complete for _, complete in counts])
        return Estimates(*_together(found), made, everywhere)

    def _best(self, family: Family, environment: str | None, rivals: Sequence[str]) -> Best:
        found = self.regret(family.label, environment)
        eligible = np.where(found.complete, found.mean, np.inf) if found.complete.any() else found.mean
        i = 0 if np.isnan(eligible).all() else int(np.nanargmin(eligible))
        point = family.points[i]
        above, error = self.differences(rivals, point.spec, environment)
        others = np.array([spec != point.spec for spec in rivals])
        best = Best(
            family.label, point.spec, family.values(point), environment, found.mean[i].item(), found.error[i].item(),
            int(((above <= error) & others).sum()), len(rivals),
        )  # fmt: skip
        reference = self.reference(family.label, environment)
        if reference is None or family.reference is None:
            return best
        saved, saved_error = self.difference(family.reference, point.spec, environment)
        return dataclasses.replace(
            best, recommended=self.recommended(family.label, environment), reference=reference.mean[0].item(),
            saved=saved, saved_error=saved_error,
        )  # fmt: skip

    def _summary_of(self, family: Family, trial: Trial) -> dict[str, Any]:
        """The summary of a policy in an environment."""
        found = self.regret(family.label, trial.name)
        settings = [
            {
                "spec": point.spec,
                "parameters": family.values(point),
                "regret": {"mean": mean, "se": error},
                "runs": runs,
            }
            for point, mean, error, runs in zip(
                family.points, found.mean.tolist(), found.error.tolist(), found.runs.tolist(), strict=True
            )
        ]
        best = dataclasses.asdict(self.best(family.label, trial.name))
        plain: dict[str, Any] = _plain({"best": best, "settings": settings})
        return plain

    def _details(self) -> dict[str, Any]:
        """The details that :meth:`load` needs."""
        families = [
            {"spec": f.spec, "label": f.label, "parameters": f.parameters, "reference": f.reference,
             "points": [(point.spec, point.values) for point in f.points]}
            for f in self.families
        ]  # fmt: skip
        trials = []
        for trial in self.trials:
            r = trial.result
            result = {f.name: getattr(r, f.name) for f in dataclasses.fields(r) if f.name not in _LEFT_OUT}
            result["checkpoints"] = r.checkpoints.tolist()
            recommended = {label: dict(values) for label, values in trial.recommended.items()}
            trials.append(
                {"name": trial.name, "parameters": dict(trial.parameters), "result": result, "recommended": recommended}
            )
        return {"families": families, "trials": trials, "halving": self.halving}


def written_values(values: Mapping[str, Any]) -> str:
    """Parameters as text."""
    return ", ".join(f"{name}={v:.6g}" if isinstance(v, float) else f"{name}={v}" for name, v in values.items()) or "–"


def _mean_and_error(values: Numbers) -> tuple[Numbers, Numbers]:
    """Mean and standard error of many settings at once, (setting, query, run), as in :meth:`Result.curve`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN
        samples = np.nanmean(values, axis=2) if values.shape[1] > 1 else values[:, 0]
        count = (~np.isnan(samples)).sum(axis=1)
        error = np.full(len(samples), np.nan)
        if samples.shape[1] > 1:
            error = np.nanstd(samples, axis=1, ddof=1) / np.sqrt(count)
        return np.nanmean(samples, axis=1), error


def _together(found: Sequence[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """The average over environments. They may share their users, so the error is an upper bound."""
    means, errors = (np.array(part).mean(axis=0) for part in zip(*found, strict=True))
    return means, errors


def _plain(value: Any) -> Any:
    """As JSON: None for NaN."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
