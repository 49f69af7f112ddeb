"""Sweeps: policies with grids of parameters, in one or many environments."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank import __version__
from driftrank.engine import Task, Unit
from driftrank.engine.devices import Device, at_once, ready, run_on, unit_steps, word_for
from driftrank.environments.base import Environment
from driftrank.experiments.journal import Journal
from driftrank.experiments.run import INDIFFERENT, ORIGIN, Interrupted, check_same, digest
from driftrank.experiments.simulate import prepare
from driftrank.experiments.sweep_family import Family, families, named_environments
from driftrank.experiments.sweep_halving import order, rounds
from driftrank.experiments.sweep_result import Sweep, Trial
from driftrank.experiments.toml import write_toml
from driftrank.files import read_toml, usable_folder, written_text
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer

#: what a folder holds of a sweep, besides figures
FILES = ("results.parquet", "summary.json", "settings.csv")
#: figures are called so
DRAWN = "sweep-*.png"

#: what may differ when a sweep is continued: which runs are made, but not what comes out of them
_EXTENT = ("runs", "halving")
_KEY = "driftrank"

#: what becomes of finished runs: setting, unit, measures, seconds
Keep = Callable[[int, Unit, NDArray[np.float64], float], None]


def sweep(
    policies: Policy | str | Iterable[Policy | str],
    environments: Environment | Iterable[Environment] | Mapping[str, Environment],
    *,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    device: Device = "cpu",
    threads: int | None = None,
    checkpoints: int | Sequence[int] = 10,
    halving: bool = False,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Sweep:
    """Run policies with many values of their parameters; all settings meet the same users.

    Beside the settings of a grid, the policy runs with the swept parameters left to itself: at ``"auto"``, which is
    what theory recommends, or whatever its defaults are.

    Parameters
    ----------
    policies
        Specs with grids, such as ``"CascadeSWUCB:window=geom(50,20000,25)"``, see
        :mod:`driftrank.experiments.sweep_grid`; or policies, of which those of one class are taken together: swept is
        what differs between them.
    environments
        One or several; by name, if you give a dictionary.
    horizon, runs, seed, device, threads, checkpoints, progress
        As in :func:`~driftrank.experiments.simulate`. There are fewer checkpoints, as there are many settings, and
        breakpoints are not among them.
    halving
        Make all runs only of settings that may be the best, see :mod:`driftrank.experiments.sweep_halving`.
    folder
        Keep the numbers there (``results.parquet``, ``summary.json``, ``settings.csv``, ``run.toml``), and what is
        finished when it is stopped.
    resume
        Go on with the sweep in the folder. It must be the same, but may have been given fewer runs, or ``halving``.
    settings
        What describes the sweep, for ``run.toml``; by default what can be told from the other arguments.

    Examples
    --------
    >>> import driftrank as dr
    >>> env = dr.environments.Abrupt(dr.queries.yandex_like(4), k=3, period=500)
    >>> found = dr.sweep("CascadeSWUCB:window=geom(10,1000,3)", env, horizon=4000, runs=2, progress=False)
    >>> found.best().parameters
    {'window': 100}
    >>> found.to_arrow().column_names[:5]
    ['environment', 'policy', 'setting', 'window', 'query']
    """
    plan = Plan.make(policies, environments, horizon, runs, seed, device, checkpoints, halving)
    if threads is not None:
        check_integer("threads", threads, 1)
    if folder is None:
        with ready(device) as place, plan.bars(progress) as bars:
            for trial in plan.trials:
                plan.run(trial, place, threads, bars, trial.put)
        return plan.outcome()
    described = plan.described() | {"checkpoints": checkpoints} if settings is None else dict(settings)
    described |= dict(zip(ORIGIN, (__version__, plan.digest()), strict=True))
    return _in_folder(plan, Path(folder), described, resume, device, threads, progress)


@dataclass(frozen=True)
class _Begun:
    """An environment, and what is to be run there."""

    trial: Trial
    task: Task

    def put(self, setting: int, unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
        self.trial.result.put(setting, unit.query, unit.runs, measures, seconds)


@dataclass
class Plan:
    """What a sweep is to do, checked."""

    families: list[Family]
    trials: list[_Begun]
    halving: bool

    @classmethod
    def make(
        cls,
        policies: Policy | str | Iterable[Policy | str],
        environments: Environment | Iterable[Environment] | Mapping[str, Environment],
        horizon: int,
        runs: int,
        seed: int,
        device: Device,
        checkpoints: int | Sequence[int],
        halving: bool,
    ) -> Plan:
        swept = families(policies)
        if not swept:
            raise ValueError("policies: must name at least one")
        if isinstance(environments, Mapping):
            differing = named_environments(list(environments.values()), list(environments))
        else:
            given = [environments] if isinstance(environments, Environment) else list(environments)
            differing = named_environments(given)
        if not differing:
            raise ValueError("environments: must name at least one")
        if not any(family.parameters for family in swept) and not any(d for _, d in differing.values()):
            raise ValueError(
                f"policies: nothing is swept; give a parameter many values, as in {swept[0].label}:"
                "KEY=geom(from,to,count) or KEY={value;value;...}"
            )
        specs = dict.fromkeys(point.spec for family in swept for point in family.points)
        specs |= dict.fromkeys(family.reference for family in swept if family.reference is not None)
        chosen = [parse_policy(spec) for spec in specs]
        begun = []
        for name, (environment, parameters) in differing.items():
            task, result = prepare(chosen, environment, horizon, runs, seed, device, checkpoints, breakpoints=False)
            recommended = {family.label: family.recommended(task) for family in swept}
            begun.append(_Begun(Trial(name, parameters, result, recommended), task))
        return cls(swept, begun, halving)

    @property
    def specs(self) -> list[str]:
        return self.trials[0].trial.result.specs

    def outcome(self) -> Sweep:
        return Sweep(self.families, [begun.trial for begun in self.trials], self.halving)

    def described(self) -> dict[str, Any]:
        """What can be told of it in text."""
        first = self.trials[0].trial.result
        return {
            "policy": [family.spec for family in self.families],
            "env": [_description(begun.trial.name, begun.task.environment) for begun in self.trials],
            "horizon": first.horizon,
            "runs": first.runs,
            "seed": first.seed,
            "halving": self.halving,
        }

    def digest(self) -> str:
        """Tells the queries of all environments apart from others."""
        return "-".join(dict.fromkeys(digest(begun.task.environment.queries) for begun in self.trials))

    def run(self, begun: _Begun, device: Device, threads: int | None, bars: Progress, keep: Keep) -> None:
        """Make the runs in one environment that are not there yet."""
        result, task = begun.trial.result, begun.task
        line = self._lines(begun)
        steps = unit_steps(device)
        size = result.runs if steps is None else max(1, steps // task.horizon)
        earlier, begin = result.seconds, time.perf_counter()
        result.device, result.cores = word_for(device), at_once(device, threads)
        missing = ~result.finished
        _advance(bars, line, ~missing, task.horizon)

        def done(unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
            result.seconds = earlier + time.perf_counter() - begin
            keep(unit.policy, unit, measures, seconds)

        for wanted in self._rounds(result.values[0, ..., -1], begun):
            units = list(_units(wanted & missing, result.queries, size))
            if units:
                ticks = _Ticks(bars, line)
                run_on(device, task, units, done, threads=threads, tick=ticks)
                ticks.tell()
            missing &= ~wanted
        _advance(bars, line, missing, task.horizon)
        result.seconds = earlier + time.perf_counter() - begin

    def _rounds(self, regret: NDArray[np.float64], begun: _Begun) -> Iterator[NDArray[np.bool_]]:
        if not self.halving:
            yield np.ones(regret.shape, np.bool_)
            return
        places = {spec: i for i, spec in enumerate(self.specs)}
        rivals = [[places[point.spec] for point in family.points] for family in self.families]
        always = {places[family.reference] for family in self.families if family.reference is not None}
        task, result = begun.task, begun.trial.result
        yield from rounds(regret, rivals, always, order(result.queries, result.runs, task.seed))

    def bars(self, progress: bool | None) -> Progress:
        """A line for every policy, or for every environment where there are several."""
        totals: dict[str, int] = {}
        for begun in self.trials:
            r = begun.trial.result
            for line in self._lines(begun):
                totals[line] = totals.get(line, 0) + r.horizon * r.runs * len(r.queries)
        return chosen_progress(progress, totals)

    def _lines(self, begun: _Begun) -> list[str]:
        """On which line of the progress bars a setting is."""
        if len(self.trials) > 1:
            return [begun.trial.name] * len(self.specs)
        owner: dict[str, str] = {}
        for family in self.families:
            for spec in (*(point.spec for point in family.points), family.reference or ""):
                owner.setdefault(spec, family.label)
        return [owner[spec] for spec in self.specs]


class _Ticks:
    """Tells the bars of steps a few times a second: a GPU makes those of thousands of settings at once."""

    EVERY = 0.1  # seconds

    def __init__(self, bars: Progress, line: Sequence[str]) -> None:
        self._bars, self._line = bars, line
        self._steps: dict[str, int] = {}
        self._told = time.perf_counter()

    def __call__(self, setting: int, steps: int) -> None:
        line = self._line[setting]
        self._steps[line] = self._steps.get(line, 0) + steps
        if time.perf_counter() - self._told >= self.EVERY:
            self.tell()

    def tell(self) -> None:
        for line, steps in self._steps.items():
            self._bars.advance(line, steps)
        self._steps.clear()
        self._told = time.perf_counter()


def _units(wanted: NDArray[np.bool_], queries: Sequence[str], size: int) -> Iterator[Unit]:
    for setting, query in np.argwhere(wanted.any(axis=2)).tolist():
        runs = np.flatnonzero(wanted[setting, query]).tolist()
        for i in range(0, len(runs), size):
            yield Unit(setting, queries[query], tuple(runs[i : i + size]))


def _advance(bars: Progress, line: Sequence[str], runs: NDArray[np.bool_], horizon: int) -> None:
    """Tell of runs that take no time now."""
    for setting, n in enumerate(runs.sum(axis=(1, 2)).tolist()):
        if n:
            bars.advance(line[setting], n * horizon, counted=False)


def _in_folder(
    plan: Plan,
    folder: Path,
    settings: Mapping[str, Any],
    resume: bool,
    device: Device,
    threads: int | None,
    progress: bool | None,
) -> Sweep:
    """Every environment has a folder inside ``parts`` until all are finished."""
    toml, parts = folder / "run.toml", folder / "parts"
    before = toml.read_text(encoding="utf-8", errors="replace") if toml.is_file() else None
    if resume and before is not None:
        old = {key: value for key, value in read_toml(toml).items() if key != "halving"}
        check_same(toml, old, {key: value for key, value in settings.items() if key != "halving"})
    text = write_toml(settings, "These are the settings of the sweep in this folder.")
    identity = {key: settings[key] for key in sorted(settings) if key not in INDIFFERENT and key not in _EXTENT}
    identity = json.loads(json.dumps(identity))  # as it comes back from a file
    with ready(device) as place:  # before anything is written
        usable_folder(folder)
        if not resume:
            shutil.rmtree(parts, ignore_errors=True)
        same = _identity(folder / "results.parquet") == identity
        if resume and same:
            _take(plan, Sweep.load(folder))
        journals = [Journal(parts / f"{n:03d}", identity, begun.trial.result) for n, begun in enumerate(plan.trials)]
        if resume:
            for journal in journals:
                journal.read()
        try:
            written_text(toml, text)
            with plan.bars(progress) as bars:
                for begun, journal in zip(plan.trials, journals, strict=True):
                    journal.folder.mkdir(parents=True, exist_ok=True)
                    plan.run(begun, place, threads, bars, _kept(journal))
                    journal.flush()
            found = plan.outcome()
            found.save(folder, metadata={_KEY: json.dumps(identity)})
        except BaseException as stop:
            for journal in journals:
                journal.flush()
            if not any(parts.rglob("*.parquet")):  # nothing came of this: the folder is as it was
                shutil.rmtree(parts, ignore_errors=True)
                if before is not None:
                    written_text(toml, before)
            elif not same:  # what was made of other numbers would not go with the settings
                for path in (*(folder / name for name in FILES), *folder.glob(DRAWN)):
                    path.unlink(missing_ok=True)
            if not isinstance(stop, KeyboardInterrupt):
                raise
            finished = [begun.trial.result.finished for begun in plan.trials]
            raise Interrupted(folder, sum(int(f.sum()) for f in finished), sum(f.size for f in finished)) from stop
    shutil.rmtree(parts, ignore_errors=True)
    return found


def _kept(journal: Journal) -> Keep:
    def keep(setting: int, unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
        journal.add(journal.result.labels[setting], unit.query, unit.runs, measures, seconds)

    return keep


def _take(plan: Plan, earlier: Sweep) -> None:
    """Enter the runs of an earlier sweep with the same settings, which may have had fewer."""
    for begun, trial in zip(plan.trials, earlier.trials, strict=True):
        new, old = begun.trial.result, trial.result
        runs = min(new.runs, old.runs)
        new.values[..., :runs, :] = old.values[..., :runs, :]
        new.busy, new.stepped, new.seconds = old.busy, old.stepped, old.seconds


def _identity(path: Path) -> Any:
    """What the numbers in a file are."""
    import pyarrow
    import pyarrow.parquet

    try:
        found = (pyarrow.parquet.read_schema(path).metadata or {}).get(_KEY.encode())
        return json.loads(found) if found else None
    except (OSError, ValueError, pyarrow.ArrowException):
        return None


def _description(name: str, environment: Environment) -> str:
    """An environment with everything that it does not have by default."""
    changed = [
        f"{f.name}={getattr(environment, f.name)}"
        for f in dataclasses.fields(environment)
        if f.name != "queries" and getattr(environment, f.name) != f.default
    ]
    return f"{name}: {type(environment).__name__}" + (f":{','.join(changed)}" if changed else "")
