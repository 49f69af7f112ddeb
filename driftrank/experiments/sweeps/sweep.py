"""Sweeps: policies with grids of parameters, in one or many environments."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.devices import Device, ready
from driftrank.environments.base import Environment
from driftrank.environments.registry import registry as known_environments
from driftrank.experiments.simulation.environment_text import description
from driftrank.experiments.simulation.folder import Journal, RunFolder
from driftrank.experiments.simulation.report import REPORT
from driftrank.experiments.simulation.settings import EnvironmentLike, as_environment
from driftrank.experiments.simulation.simulate import Simulation
from driftrank.experiments.sweeps.family import families, named_environments
from driftrank.experiments.sweeps.halving import order, rounds
from driftrank.experiments.sweeps.report import FIGURES, write_report
from driftrank.experiments.sweeps.result import Sweep, Trial
from driftrank.experiments.sweeps.settings import SweptEnvironments
from driftrank.policies.registry import PolicyLike, parse_policy
from driftrank.progress import Progress, chosen_progress


def sweep(
    policies: PolicyLike | Iterable[PolicyLike],
    environments: EnvironmentLike | Iterable[EnvironmentLike] | Mapping[str, EnvironmentLike],
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

    Beside the settings of a grid, the policy runs with the defaults of the swept parameters: ``"auto"``, which is what
    theory recommends, or any other.

    Parameters
    ----------
    policies
        Specs with grids, such as ``"CascadeSWUCB:window=geom(50,20000,25)"``, see
        :mod:`driftrank.experiments.sweeps.grid`; or policies: those of one class are taken together, and the parameters
        in which they differ are the swept ones.
    environments
        One or several; a dictionary gives them names. A spec may have grids as well, ``"Abrupt:period={500;5000}"``;
        its queries and positions are those of ``driftrank sweep``.
    horizon, runs, seed, device, threads, checkpoints, progress
        As in :func:`~driftrank.experiments.simulation.simulate`. There are fewer checkpoints, as there are many
        settings, and breakpoints are not among them.
    halving
        Drop settings that are clearly worse after a few runs, see :mod:`driftrank.experiments.sweeps.halving`.
    folder
        Write ``run.toml``, ``results.parquet``, ``summary.json``, ``settings.csv``, figures and ``report.html``
        there; on Ctrl-C, finished runs are kept.
    resume
        Continue the sweep in the folder. It must have the same settings, but may have fewer runs, or ``halving``.
    settings
        Settings for ``run.toml`` that replace those derived from the other arguments.

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
    plan = SweepPlan.make(policies, environments, horizon, runs, seed, checkpoints, device, threads, halving)
    if folder is None:
        with ready(device) as place, plan.bars(progress) as bars:
            for simulation in plan.simulations:
                plan.run(simulation, place, bars)
        return plan.sweep
    described = plan.settings() | {"checkpoints": checkpoints} | dict(settings or {})
    queries = [simulation.task.environment.queries for simulation in plan.simulations]
    made = ["settings.csv", FIGURES, REPORT]
    run_folder = RunFolder(folder, described, *queries, what="sweep", made=made, resume=resume)
    with ready(device) as place:
        plan.run_in(run_folder, place, progress)
    run_folder.discard(FIGURES)
    write_report(plan.sweep, run_folder.path, described)
    return plan.sweep


@dataclass
class SweepPlan:
    """A sweep to run, checked: a simulation for every environment."""

    sweep: Sweep
    simulations: list[Simulation]

    @classmethod
    def make(
        cls,
        policies: PolicyLike | Iterable[PolicyLike],
        environments: EnvironmentLike | Iterable[EnvironmentLike] | Mapping[str, EnvironmentLike],
        horizon: int,
        runs: int,
        seed: int,
        checkpoints: int | Sequence[int],
        device: Device,
        threads: int | None,
        halving: bool,
    ) -> SweepPlan:
        swept = families(policies)
        if not swept:
            raise ValueError("policies: must name at least one")
        if isinstance(environments, Mapping):
            given = [as_environment(each, seed) for each in environments.values()]
            differing = named_environments(given, list(environments))
        else:
            given = [world for each in known_environments.several("environments", environments)
                     for world in _worlds(each, seed)]  # fmt: skip
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
        simulations, trials = [], []
        for name, (environment, parameters) in differing.items():
            simulation = Simulation.prepare(
                chosen, environment, horizon, runs, seed, checkpoints, device, threads, breakpoints=False
            )
            recommended = {family.label: family.recommended(simulation.task) for family in swept}
            trials.append(Trial(name, parameters, simulation.result, recommended))
            simulations.append(simulation)
        return cls(Sweep(swept, trials, halving), simulations)

    def settings(self) -> dict[str, Any]:
        """A description for ``run.toml``; checkpoints are left out."""
        pairs = zip(self.sweep.environments, self.simulations, strict=True)
        env = [f"{name}: {description(simulation.task.environment)}" for name, simulation in pairs]
        policy = [family.spec for family in self.sweep.families]
        return self.simulations[0].settings() | {"policy": policy, "env": env, "halving": self.sweep.halving}

    def run(self, simulation: Simulation, device: Device, bars: Progress, journal: Journal | None = None) -> None:
        """Make the missing runs in one environment."""
        simulation.run(device, bars, lines=self._lines(simulation), rounds=self._rounds(simulation), journal=journal)

    def run_in(self, folder: RunFolder, device: Device, progress: bool | None) -> None:
        """Run in a folder: finished runs of every environment are in a part until all are finished."""
        if folder.resume and folder.holds_ours:
            for simulation, trial in zip(self.simulations, Sweep.load(folder.path).trials, strict=True):
                simulation.result.take(trial.result)
        journals = [folder.journal(simulation.result, f"{n:03d}") for n, simulation in enumerate(self.simulations)]
        with folder.recording(journals), self.bars(progress) as bars:
            for simulation, journal in zip(self.simulations, journals, strict=True):
                self.run(simulation, device, bars, journal)
                journal.flush()
            self.sweep.save(folder.path, metadata=folder.metadata)
        folder.clear()

    def bars(self, progress: bool | None) -> Progress:
        """A progress bar for every policy, or for every environment if there are several."""
        totals: dict[str, int] = {}
        for simulation in self.simulations:
            for line in self._lines(simulation):
                totals[line] = totals.get(line, 0) + simulation.steps
        return chosen_progress(progress, totals)

    def _rounds(self, simulation: Simulation) -> Iterator[NDArray[np.bool_]] | None:
        if not self.sweep.halving:
            return None
        places, swept, result = self.sweep.places, self.sweep.families, simulation.result
        rivals = [[places[point.spec] for point in family.points] for family in swept]
        always = {places[family.reference] for family in swept if family.reference is not None}
        return rounds(result.values[0, ..., -1], rivals, always, order(result.queries, result.runs, result.seed))

    def _lines(self, simulation: Simulation) -> list[str]:
        """The progress bar of every setting."""
        specs = simulation.result.specs
        if len(self.simulations) > 1:
            return [self.sweep.environments[self.simulations.index(simulation)]] * len(specs)
        owner: dict[str, str] = {}
        for family in self.sweep.families:
            for spec in (*(point.spec for point in family.points), family.reference or ""):
                owner.setdefault(spec, family.label)
        return [owner[spec] for spec in specs]


def _worlds(given: EnvironmentLike, seed: int) -> list[Environment]:
    """The environments that an object, a class or a spec, which may have grids, stands for."""
    if isinstance(given, str):
        return SweptEnvironments(env=[given], seed=seed).environments()
    return [as_environment(given, seed)]
