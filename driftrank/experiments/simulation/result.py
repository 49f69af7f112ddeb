"""The result of a simulation."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank import __version__
from driftrank.engine import MEASURES
from driftrank.environments.base import Environment
from driftrank.experiments.simulation.caller import Comparison, caller_summary, groups, has_caller, windows
from driftrank.experiments.simulation.environment_text import description, read_environment, write_environment
from driftrank.experiments.simulation.labels import known_label
from driftrank.experiments.simulation.run_world import RunWorld
from driftrank.extras import need
from driftrank.files import written, written_text
from driftrank.reporting.arrow import column, dictionary_column, text_column
from driftrank.reporting.table import Table
from driftrank.validation import check_integer, check_known

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: fields that ``summary.json`` has beside the summary
_DETAILS = ("specs", "queries", "device", "busy", "stepped", "cores", "measures")


#: the key of the environment in the metadata of ``results.parquet``
_ENVIRONMENT = "driftrank.environment"
#: policies up to which a result is printed with its table
_MOST_PRINTED = 60


@dataclass(repr=False)
class Result:
    """Cumulative regret, expected reward, clicks and alarms of every policy, query and run at every checkpoint.

    Alarms are compared with the true changes: see :mod:`driftrank.engine.alarm_scoring`. :meth:`world` has the world of
    a run; :meth:`repeat` makes the runs again.
    """

    labels: list[str]  #: policies; a name that is unique may be used instead
    specs: list[str]  #: the same, also in results of version 0.1.0, whose labels lack parameters
    queries: list[str]
    horizon: int
    runs: int
    seed: int
    checkpoints: NDArray[np.int64]
    breakpoints: list[int]  #: those among the checkpoints, if they are few
    device: str
    environment: str
    #: (measure, policy, query, run, checkpoint); NaN for unfinished runs
    values: NDArray[np.float64]
    busy: list[float] = field(default_factory=list)  #: core-seconds spent on each policy
    stepped: list[int] = field(default_factory=list)  #: steps simulated in that time
    cores: int = 1
    seconds: float = 0.0
    measures: tuple[str, ...] = MEASURES  #: those of all environments, then those of this one
    #: the environment itself; None in results of sweeps and leaderboards, and of version 0.1.0, once loaded
    env: Environment | None = field(default=None, compare=False)

    def put(self, policy: int, query: str, runs: Sequence[int], measures: NDArray[np.float64], seconds: float) -> None:
        """Enter the measures (runs, checkpoints, measures) of some runs."""
        self.values[:, policy, self.queries.index(query), list(runs)] = np.moveaxis(measures, 2, 0)
        self.busy[policy] += seconds
        self.stepped[policy] += len(runs) * self.horizon

    def take(self, earlier: Result) -> None:
        """Enter the runs of an earlier result with the same settings, which may have fewer."""
        if earlier.measures != self.measures:  # several simulations side by side keep only those of all environments
            return
        runs = min(self.runs, earlier.runs)
        self.values[..., :runs, :] = earlier.values[..., :runs, :]
        self.busy, self.stepped, self.seconds = earlier.busy, earlier.stepped, earlier.seconds

    # -- numbers ---------------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        return not np.isnan(self.values[0]).any()

    @property
    def finished(self) -> NDArray[np.bool_]:
        """True for finished runs, (policy, query, run)."""
        done: NDArray[np.bool_] = ~np.isnan(self.values[0, ..., -1])
        return done

    def curve(self, policy: str, measure: str = "regret") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean over queries and runs at every checkpoint, and its standard error.

        ``measure`` is ``"regret"`` (from the probabilities), ``"realised"`` (regret with the actual clicks),
        ``"reward"``, ``"clicks"``, or, of policies that detect changes, ``"alarms"``, ``"detected"`` (breakpoints),
        ``"delay"`` (the sum over them) and ``"false_alarms"``; or one of the environment's own. The error is that of
        the mean over queries (their runs averaged), or over runs if there is only one query.
        """
        return _mean_and_error(self.values_of(policy, measure))

    def values_of(self, policy: str, measure: str = "regret") -> NDArray[np.float64]:
        """A measure of every run of a policy, (query, run, checkpoint)."""
        check_known("measure", measure, (*self.measures, "realised"))
        own: NDArray[np.float64] = self.values[:, self._policy(policy)]
        by_name: dict[str, NDArray[np.float64]] = dict(zip(self.measures, own, strict=True))
        if measure == "realised":
            return by_name["regret"] + by_name["reward"] - by_name["clicks"]
        return by_name[measure]

    def regret(self, policy: str, start: int = 0, end: int | None = None) -> float:
        """Mean regret of steps start+1 .. end (the whole run by default). Both must be checkpoints."""
        return self.between(policy, start, end)[0]

    def between(
        self, policy: str, start: int = 0, end: int | None = None, measure: str = "regret"
    ) -> tuple[float, float]:
        """Mean and standard error of a measure over steps start+1 .. end."""
        values = self.values_of(policy, measure)
        end = self.horizon if end is None else end
        if start > end:
            raise ValueError(f"start={start!r}: must not be after end={end!r}")
        span = values[..., self.place(end)]
        if start:
            span = span - values[..., self.place(start)]
        mean, error = _mean_and_error(span[..., None])
        return float(mean[0]), float(error[0])

    def compare(self, policy: str, other: str, measure: str = "regret") -> tuple[float, float]:
        """Mean and standard error of the difference of two policies at the horizon, run by run.

        Both meet the same users, so the error is far smaller than that of either. Against ``StaticOracle`` and with
        ``measure="reward"`` this is (minus) the static regret of adversarial bandits.
        """
        mean, error = _mean_and_error((self.values_of(policy, measure) - self.values_of(other, measure))[..., -1:])
        return float(mean[0]), float(error[0])

    def against_caller(self, policy: str, edges: Sequence[int] | None = None) -> list[Comparison]:
        """A policy beside the caller's own order, in windows of lists between ``edges``, which must be checkpoints.

        Only in :class:`~driftrank.environments.Traffic`, as :meth:`by_age` and :meth:`by_frequency`.
        """
        return windows(self, policy, edges)

    def by_age(self, policy: str) -> list[Comparison]:
        """A policy beside the caller's own order, by how often the query came before."""
        return groups(self, policy, "age")

    def by_frequency(self, policy: str) -> list[Comparison]:
        """A policy beside the caller's own order, by how often the query comes in the whole run."""
        return groups(self, policy, "frequency")

    def speed(self, policy: str) -> float:
        """Steps per second on all cores used; 0 if nothing was timed."""
        i = self._policy(policy)
        return self.stepped[i] / self.busy[i] * self.cores if self.busy[i] else 0.0

    def summary(self) -> dict[str, Any]:
        """The numbers that ``driftrank simulate --json`` prints."""
        policies = {}
        for label, spec in zip(self.labels, self.specs, strict=True):
            mean, error = self.curve(label)
            policies[label] = {
                "spec": spec,
                "regret": {"mean": _plain(mean[-1]), "se": _plain(error[-1])},
                "checkpoints": [int(step) for step in self.checkpoints],
                "mean": [_plain(x) for x in mean],
                "se": [_plain(x) for x in error],
                "clicks": _plain(self.curve(label, "clicks")[0][-1]),
                **caller_summary(self, label),
                **({"detection": self._detection(label)} if self._raised(label) else {}),
                "steps_per_second": round(self.speed(label)),
            }
        return {
            "policies": policies,
            "environment": self.environment,
            **({} if self.env is None else {"env": description(self.env), "k": self.env.k}),
            "breakpoints": self.breakpoints,
            "horizon": self.horizon,
            "runs": self.runs,
            "queries": len(self.queries),
            "seed": self.seed,
            "device": self.device,
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
        }

    # -- the world -------------------------------------------------------------------------------------------------

    def world(self, query: str | int = 0, run: int = 0) -> RunWorld:
        """The world of a run: what attracted its users, the best lists and the breakpoints.

        Worlds are drawn for every run and seed; those of ``result.env`` alone are of seed 0, unless another is given.
        """
        env = self._environment()
        check_integer("run", run, 0, self.runs - 1)
        return RunWorld(env, env.lookup(query)[0], run, self.seed, self.horizon)

    def repeat(self, **changes: Any) -> Result:
        """Make the same runs again; ``changes`` are arguments of :func:`driftrank.simulate`, ``runs=100`` for example.

        The numbers are the same, also of a result that was loaded, if the version of driftrank is.
        """
        from driftrank.experiments.simulation.simulate import simulate

        steps: Any = 100 if "horizon" in changes else self.checkpoints.tolist()
        how = {"horizon": self.horizon, "runs": self.runs, "seed": self.seed, "checkpoints": steps} | changes
        policies, environment = how.pop("policies", self.specs), how.pop("environment", None)
        return simulate(policies, environment or self._environment(), **how)

    def _environment(self) -> Environment:
        if self.env is None:
            raise ValueError(
                f"env=None: the result was loaded without its environment; import {self.environment} before, if it is "
                "yours, or set result.env"
            )
        return self.env

    # -- for people ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        n = len(self.labels)
        head = (
            f"<Result: {n} {'policy' if n == 1 else 'policies'} in {self.environment}, {len(self.queries)} "
            f"{'query' if len(self.queries) == 1 else 'queries'}, {self.runs} {'run' if self.runs == 1 else 'runs'} of "
            f"{self.horizon:,} steps, seed {self.seed}{'' if self.complete else ', not complete'}>"
        )
        return f"{head}\n{self.table()}" if n <= _MOST_PRINTED else head

    def _repr_html_(self) -> str:
        return self.table().to_html()

    def to_latex(self) -> str:
        """The table for a paper: a ``tabular`` with the rules of the package booktabs, without speeds."""
        return self.table().without("M steps/s").to_latex()

    def table(self) -> Table:
        """Policies from best to worst; with alarms per run, false alarms and mean delay if any were raised, and with
        clicks a step against the caller's order if there is one."""
        rows: list[tuple[Any, ...]] = []
        for label in self.labels:
            mean, error = self.between(label)
            clicks = self.between(label, measure="clicks")[0] / self.horizon
            speed = self.speed(label) / 1e6
            rows.append((label, mean, error, clicks, *self._gain(label), speed, *self._alarm_columns(label)))
        rows.sort(key=lambda row: (math.isnan(row[1]), row[1]))
        head = ["policy", f"regret after {self.horizon:,} steps", "± s.e.", "clicks a step"]
        formats = [None, ".1f", ".1f", ".4f"]
        if has_caller(self):
            head, formats = [*head, "against the caller", "± s.e."], [*formats, "+.4f", ".4f"]
        head, formats = [*head, "M steps/s"], [*formats, ".2f" if has_caller(self) else ".1f"]
        if any(map(self._raised, self.labels)):
            head += ["alarms", "false", "mean delay"]
            formats += [".1f", ".1f", ".0f"]
        return Table(tuple(head), rows, tuple(formats))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Regret over time, with standard errors and breakpoints. Returns the axes."""
        from driftrank.experiments.simulation.figure import plot_regret

        return plot_regret(self, ax)

    def plot_against_caller(self) -> Figure:
        """Clicks a list against the caller's order, over time and by the age of the query. Only in Traffic."""
        from driftrank.experiments.simulation.caller_figure import caller_figure

        return caller_figure(self)

    # -- for machines ----------------------------------------------------------------------------------------------

    def to_arrow(self) -> pyarrow.Table:
        """Long form: one row per policy, query, run and checkpoint. Unfinished runs are left out."""
        need("plots", "pyarrow")
        kept = self.finished
        return run_rows(self, np.nonzero(kept), self.values[:, kept])

    def to_frame(self) -> pandas.DataFrame:
        """The long form as a pandas data frame."""
        need("pandas", "pandas", "pyarrow")
        return self.to_arrow().to_pandas()

    def save(self, directory: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> Path:
        """Write ``results.parquet`` and ``summary.json`` to a folder.

        The metadata of ``results.parquet`` have the environment with its queries, and those given.
        """
        need("plots", "pyarrow")
        import pyarrow.parquet

        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        with written(folder / "results.parquet") as path:
            about = self._about() | dict(metadata or {})
            pyarrow.parquet.write_table(self.to_arrow().replace_schema_metadata(about), path, compression="zstd")
        facts = {name: getattr(self, name) for name in _DETAILS} | {"driftrank": __version__}
        written_text(folder / "summary.json", json.dumps(self.summary() | {"details": facts}, indent=1) + "\n")
        return folder

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Result:
        """Read what ``save`` wrote."""
        need("plots", "pyarrow")
        import pyarrow
        import pyarrow.parquet

        folder = Path(directory)
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            rows = pyarrow.parquet.read_table(folder / "results.parquet")
            details, labels = summary["details"], list(summary["policies"])
            steps = np.array(summary["policies"][labels[0]]["checkpoints"], np.int64)
            measures = tuple(details.get("measures", MEASURES))  # folders of 0.1.0 do not have it
            values = long_values(rows, labels, details["queries"], summary["runs"], steps, measures)
            env = _saved_environment(rows.schema.metadata or {})
        except (OSError, ValueError, KeyError, IndexError, TypeError, pyarrow.ArrowException) as error:
            raise ValueError(f"{folder}: does not hold a readable result ({error})") from error
        return cls(
            labels, details["specs"], details["queries"], summary["horizon"], summary["runs"], summary["seed"], steps,
            summary["breakpoints"], details["device"], summary["environment"], values, details["busy"],
            details["stepped"], details["cores"], summary["seconds"], measures,
            env,
        )  # fmt: skip

    # -- inside ----------------------------------------------------------------------------------------------------

    def _about(self) -> dict[str, str]:
        """The metadata of the file of results."""
        text = None if self.env is None else write_environment(self.env)
        return {} if text is None else {_ENVIRONMENT: text}

    def _raised(self, label: str) -> bool:
        """True if a policy raised any alarm."""
        return bool(np.nansum(self.values_of(label, "alarms")[..., -1]))

    def _detection(self, label: str) -> dict[str, float | None]:
        """Alarms a run, breakpoints detected a run, their mean delay, false alarms a run."""
        alarms, detected, delay, false = (
            self.between(label, measure=measure)[0] for measure in ("alarms", "detected", "delay", "false_alarms")
        )
        late = delay / detected if detected else None
        return {"alarms": _plain(alarms), "detected": _plain(detected), "delay": late, "false_alarms": _plain(false)}

    def _gain(self, label: str) -> tuple[float, ...]:
        """Clicks a list against the caller's order, and the standard error."""
        if not has_caller(self):
            return ()
        (whole,) = windows(self, label, [0, self.horizon])
        return whole.gain, whole.error

    def _alarm_columns(self, label: str) -> tuple[float, ...]:
        if not any(map(self._raised, self.labels)):
            return ()
        found = self._detection(label) if self._raised(label) else {}
        values = (found.get(name) for name in ("alarms", "false_alarms", "delay"))
        return tuple(math.nan if value is None else value for value in values)

    def _policy(self, label: str) -> int:
        return self.labels.index(known_label(label, self.labels))

    def place(self, step: int) -> int:
        """The index of a checkpoint."""
        place = int(np.searchsorted(self.checkpoints, step))
        if place == len(self.checkpoints) or self.checkpoints[place] != step:
            raise ValueError(f"step={step!r}: is not one of the checkpoints")
        return place


def _saved_environment(metadata: Mapping[bytes, bytes]) -> Environment | None:
    """The environment in the metadata of a file; None if there is none, or if its class was not imported."""
    text = metadata.get(_ENVIRONMENT.encode())
    try:
        return None if text is None else read_environment(text.decode())
    except ValueError:
        return None


def run_rows(result: Result, places: Sequence[NDArray[Any]], values: NDArray[np.float64]) -> pyarrow.Table:
    """The long form of some runs, given by policy, query and number; ``values`` are (measure, run, checkpoint)."""
    import pyarrow

    n = len(result.checkpoints)
    policies, queries, runs = (np.repeat(place, n) for place in places)
    columns = {
        "policy": dictionary_column(policies, result.labels),
        "query": dictionary_column(queries, result.queries),
        "run": column(runs.astype(np.int32)),
        "step": column(np.tile(result.checkpoints, values.shape[1])),
        **{name: column(values[i].reshape(-1)) for i, name in enumerate(result.measures)},
    }
    return pyarrow.table(columns)


def long_values(
    rows: pyarrow.Table,
    labels: Sequence[str],
    queries: Sequence[str],
    runs: int,
    steps: NDArray[np.int64],
    measures: Sequence[str] = MEASURES,
) -> NDArray[np.float64]:
    """The long form as an array (measure, policy, query, run, checkpoint); NaN for runs without rows."""
    import pyarrow
    import pyarrow.compute

    values = np.full((len(measures), len(labels), len(queries), runs, len(steps)), np.nan)
    codes = [
        pyarrow.compute.index_in(rows[name].cast(pyarrow.string()), text_column(names)).to_numpy()
        for name, names in (("policy", labels), ("query", queries))
    ]
    place = (*codes, rows["run"].to_numpy(), np.searchsorted(steps, rows["step"].to_numpy()))
    for i, name in enumerate(measures):
        values[i][place] = rows[name].to_numpy()
    return values


def _mean_and_error(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard error of (query, run, ...) over queries, or over runs if there is one query; ignores NaN."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN
        samples = np.nanmean(values, axis=1) if values.shape[0] > 1 else values[0]
        count = (~np.isnan(samples)).sum(axis=0)
        spread = np.nanstd(samples, axis=0, ddof=1) if len(samples) > 1 else np.full(samples.shape[1:], np.nan)
        return np.nanmean(samples, axis=0), spread / np.sqrt(count)


def _plain(x: Any) -> float | None:
    """As JSON: None for NaN."""
    return None if math.isnan(x) else float(x)
