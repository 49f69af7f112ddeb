"""Policies against an environment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import Task, Unit
from driftrank.engine.devices import Device, at_once, ready, run_on, suited, unit_runs, word_for
from driftrank.environments.base import Environment
from driftrank.experiments.simulation.breakpoints import marked_breakpoints
from driftrank.experiments.simulation.environment_text import description
from driftrank.experiments.simulation.folder import Interrupted, Journal, RunFolder
from driftrank.experiments.simulation.labels import labels_of
from driftrank.experiments.simulation.report import CALLER, REGRET, REPORT, write_report
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.settings import EnvironmentLike, as_environment
from driftrank.policies.registry import PolicyLike, as_policies
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer

#: called with every finished unit: label of the policy, unit, measures (run, checkpoint, measure), core-seconds
OnUnit = Callable[[str, Unit, NDArray[np.float64], float], None]


def simulate(
    policies: PolicyLike | Iterable[PolicyLike],
    environment: EnvironmentLike,
    *,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    device: Device = "cpu",
    threads: int | None = None,
    checkpoints: int | Sequence[int] = 100,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    on_unit: OnUnit | None = None,
) -> Result:
    """Run policies against an environment; all of them meet the same users.

    Parameters
    ----------
    policies
        Policies, their classes, or their specs such as ``"CascadeSWUCB:window=500"``.
    environment
        An environment; or its class or a spec such as ``"Abrupt:period=5000"``, which rank 3 of 10 items for the 10
        queries of ``driftrank simulate``.
    horizon, runs
        Steps of a run, and runs of every query.
    seed
        Everything random derives from it; the result does not depend on threads, chunks or machines.
    device
        ``"cpu"``; ``"cuda"``; ``"cluster"``, with temporary workers on this machine; or a
        :class:`~driftrank.engine.cluster.cluster.Cluster`, for any other. One that is open stays open.
    threads
        Cores that ``"cpu"`` uses; None: all.
    checkpoints
        The number of evenly spaced steps to record at, or the steps. The horizon is always added, and so are
        breakpoints if they are few.
    folder
        Write ``run.toml``, ``results.parquet``, ``summary.json``, ``regret.png`` and ``report.html`` there, and
        ``caller.png`` if the environment is Traffic. On Ctrl-C, finished runs are kept, and
        :class:`~driftrank.experiments.simulation.folder.Interrupted` is raised.
    resume
        Continue the simulation in the folder, if there is one: it must have the same settings, but may have fewer runs.
        The numbers are those of a simulation that was never stopped.
    progress
        Show a progress bar; by default if standard error is a terminal.
    settings
        Settings for ``run.toml`` that replace those derived from the other arguments.
    on_unit
        Called with every finished unit: label, unit, measures and seconds.

    Examples
    --------
    >>> import driftrank as dr
    >>> env = dr.environments.Stationary([[0.9, 0.5, 0.1, 0.1]], k=2)
    >>> result = dr.simulate(["CascadeUCB1", "Random"], env, horizon=2000, runs=4, progress=False)
    >>> result.regret("CascadeUCB1") < result.regret("Random")
    True
    """
    environment = as_environment(environment, seed)
    simulation = Simulation.prepare(policies, environment, horizon, runs, seed, checkpoints, device, threads)
    if folder is None:
        with ready(device) as place, simulation.bars(progress) as bars:
            simulation.run(place, bars, on_unit=on_unit)
        return simulation.result
    described = simulation.settings() | {"checkpoints": checkpoints} | dict(settings or {})
    run_folder = RunFolder(folder, described, environment.queries, made=[REGRET, CALLER, REPORT], resume=resume)
    result = simulation.run_in(run_folder, device, progress, on_unit)
    write_report(result, run_folder.path, described)
    return result


@dataclass(frozen=True, eq=False)
class Simulation:
    """Policies in one environment: the task, and the result that its runs are entered into."""

    task: Task
    result: Result
    threads: int | None

    @classmethod
    def prepare(
        cls,
        policies: PolicyLike | Iterable[PolicyLike],
        environment: Environment,
        horizon: int,
        runs: int,
        seed: int,
        checkpoints: int | Sequence[int],
        device: Device = "cpu",
        threads: int | None = None,
        breakpoints: bool = True,
    ) -> Simulation:
        """Check all arguments, before anything runs. ``breakpoints``: if they are few, they are checkpoints."""
        check_integer("horizon", horizon, 1)
        check_integer("horizon", horizon, 1, 2**53)  # floats cannot represent all larger steps
        check_integer("runs", runs, 1)
        check_integer("seed", seed, 0, 2**63 - 1)
        if threads is not None:
            check_integer("threads", threads, 1)
        chosen = as_policies(policies)
        if not chosen:
            raise ValueError("policies: must name at least one")
        marks = marked_breakpoints(environment, horizon, runs, seed)
        steps = checkpoint_steps(horizon, checkpoints, marks if breakpoints else ())
        task = Task(tuple(chosen), environment, horizon, seed, steps)
        for policy in chosen:
            task.check(policy)
        result = Result(
            labels=labels_of(chosen), specs=[policy.spec for policy in chosen], queries=environment.names,
            horizon=horizon, runs=runs, seed=seed, checkpoints=np.array(steps, np.int64),
            breakpoints=[step for step in marks if step in set(steps)], device=word_for(device),
            environment=type(environment).__name__,
            values=np.full((len(task.measures), len(chosen), len(environment.names), runs, len(steps)), np.nan),
            busy=[0.0] * len(chosen), stepped=[0] * len(chosen), measures=task.measures, env=environment,
        )  # fmt: skip
        return cls(task, result, threads)

    def settings(self) -> dict[str, Any]:
        """A description for ``run.toml``; checkpoints are left out."""
        r, threads = self.result, {} if self.threads is None else {"threads": self.threads}
        env = description(self.task.environment)
        return {
            "policy": r.specs, "env": env, "horizon": r.horizon, "runs": r.runs, "seed": r.seed, "device": r.device,
            **threads,
        }  # fmt: skip

    @property
    def steps(self) -> int:
        """Steps of one policy."""
        return self.result.horizon * self.result.runs * len(self.result.queries)

    def bars(self, progress: bool | None) -> Progress:
        """A progress bar for every policy."""
        return chosen_progress(progress, dict.fromkeys(self.result.labels, self.steps))

    def run_in(
        self, folder: RunFolder, device: Device, progress: bool | None = None, on_unit: OnUnit | None = None
    ) -> Result:
        """Run in a folder of its own, which gets the result."""
        journal = folder.journal(self.result)
        with ready(device) as place:
            try:
                with folder.recording([journal]), self.bars(progress) as bars:
                    self.run(place, bars, journal=journal, on_unit=on_unit)
                    self.result.save(folder.path, metadata=journal.metadata())
            except Interrupted:
                if folder.parts.exists():
                    folder.discard()
                    self.result.save(folder.path, metadata=journal.metadata())
                    folder.clear()
                raise
        folder.clear()
        return self.result

    def run(
        self,
        device: Device,
        bars: Progress,
        *,
        lines: Sequence[str] | None = None,
        rounds: Iterable[NDArray[np.bool_]] | None = None,
        journal: Journal | None = None,
        on_unit: OnUnit | None = None,
    ) -> None:
        """Make the missing runs on a device that is ready.

        Parameters
        ----------
        lines
            The progress bar of every policy; by default its label.
        rounds
            The runs (policy, query, run) that are to be finished at the end of each round; by default all, in one.
        """
        r, task = self.result, self.task
        device = suited(device, task.environment)
        lines = r.labels if lines is None else lines
        size = unit_runs(device, task, r.runs)
        earlier, begin = r.seconds, time.perf_counter()
        r.device, r.cores = word_for(device), at_once(device, self.threads)
        missing = ~r.finished
        _skip(bars, lines, ~missing, task.horizon)

        def done(unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
            r.seconds = earlier + time.perf_counter() - begin
            if journal is not None:
                journal.add(unit, measures, seconds)
            else:
                r.put(unit.policy, unit.query, unit.runs, measures, seconds)
            if on_unit is not None:
                on_unit(r.labels[unit.policy], unit, measures, seconds)

        for wanted in [np.ones_like(missing)] if rounds is None else rounds:
            units = list(_units(wanted & missing, r.queries, size))
            if units:
                ticks = _Ticks(bars, lines)
                run_on(device, task, units, done, threads=self.threads, tick=ticks, note=bars.note)
                ticks.show()
            missing &= ~wanted
        _skip(bars, lines, missing, task.horizon)
        r.seconds, r.cores = earlier + time.perf_counter() - begin, at_once(device, self.threads)


def checkpoint_steps(horizon: int, wanted: int | Sequence[int], breakpoints: Iterable[int] = ()) -> tuple[int, ...]:
    """The steps to record at: those wanted (or so many of them), the breakpoints, the horizon."""
    if isinstance(wanted, int):
        check_integer("checkpoints", wanted, 1)
        steps = {round(horizon * (i + 1) / wanted) for i in range(wanted)}
    else:
        steps = set(wanted)
        for step in steps:
            check_integer("checkpoints", step, 1, horizon)
    return tuple(sorted(step for step in {*steps, *breakpoints, horizon} if step >= 1))


class _Ticks:
    """Passes steps to the progress bars a few times a second: a GPU simulates thousands of policies at once."""

    EVERY = 0.1  # seconds

    def __init__(self, bars: Progress, lines: Sequence[str]) -> None:
        self._bars, self._lines = bars, lines
        self._steps: dict[str, int] = {}
        self._shown = time.perf_counter()

    def __call__(self, policy: int, steps: int) -> None:
        line = self._lines[policy]
        self._steps[line] = self._steps.get(line, 0) + steps
        if time.perf_counter() - self._shown >= self.EVERY:
            self.show()

    def show(self) -> None:
        for line, steps in self._steps.items():
            self._bars.advance(line, steps)
        self._steps.clear()
        self._shown = time.perf_counter()


def _units(wanted: NDArray[np.bool_], queries: Sequence[str], size: int) -> Iterator[Unit]:
    for policy, query in np.argwhere(wanted.any(axis=2)).tolist():
        runs = np.flatnonzero(wanted[policy, query]).tolist()
        for i in range(0, len(runs), size):
            yield Unit(policy, queries[query], tuple(runs[i : i + size]))


def _skip(bars: Progress, lines: Sequence[str], runs: NDArray[np.bool_], horizon: int) -> None:
    """Advance the bars by runs that take no time now."""
    for policy, n in enumerate(runs.sum(axis=(1, 2)).tolist()):
        if n:
            bars.advance(lines[policy], n * horizon, counted=False)
