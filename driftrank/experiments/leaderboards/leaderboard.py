"""Every policy in every environment."""

from __future__ import annotations

import dataclasses
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.compiling import SimulatorCompiler
from driftrank.engine.devices import Device, at_once, ready, word_for
from driftrank.engine.simulators import simulator_of
from driftrank.experiments.leaderboards.result import Arena, Leaderboard, group_of
from driftrank.experiments.leaderboards.suite import Place, places
from driftrank.experiments.simulation.breakpoints import breakpoints_to_detect, common_breakpoints
from driftrank.experiments.simulation.caller import has_caller
from driftrank.experiments.simulation.folder import Journal, RunFolder, identity_of, with_origin
from driftrank.experiments.simulation.labels import labels_of
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.simulate import Simulation
from driftrank.policies.base import Policy
from driftrank.policies.learner.features import MOST_WITHOUT
from driftrank.policies.registry import PolicyLike, as_policies, as_policy, default_policy
from driftrank.policies.registry import policies as known_policies
from driftrank.progress import chosen_progress
from driftrank.queries import Queries, parse_queries
from driftrank.reporting.page import duration
from driftrank.validation import check_integer

QUERIES, RUNS, HORIZON, K = 20, 1, 100_000, 3
QUICK_QUERIES, QUICK_HORIZON = 5, 2000

#: references that know the truth, shown separately. One that shows the best list at every step has no regret.
ORACLES = ("OracleRestart", "StaticOracle")

#: the files that are made of the results
DRAWN = ("leaderboard.html", "leaderboard.md", "leaderboard.png", "leaderboard.svg", "table.csv")

#: the measures that the regret of the caller's order follows from
_OF_CALLER = ("regret", "reward", "baseline")

#: steps to estimate the duration from
_PILOT = 5000

Say = Callable[[str], None]


def leaderboard(
    queries: Any = f"yandex-like:{QUERIES}",
    *,
    policies: PolicyLike | Iterable[PolicyLike] = (),
    environments: str | Iterable[str] = (),
    n_queries: int | None = None,
    k: int = K,
    horizon: int = HORIZON,
    runs: int = RUNS,
    seed: int = 0,
    checkpoints: int = 50,
    device: Device = "cpu",
    threads: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | None = None,
    say: Say | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Leaderboard:
    """Run every policy in every environment of the standard suite; all of them meet the same users.

    Environments of Traffic, in which a run has all queries of a ranker, are a leaderboard of their own,
    :attr:`Leaderboard.traffic`.

    Parameters
    ----------
    queries
        ``yandex-like:N``, the path of a JSON file, or anything :meth:`driftrank.queries.Queries.of` takes.
    policies
        Policies or their specs; by default all, and two oracles. The default policy, with which the others are
        compared, is always added.
    environments
        Names of the suite (all by default), or specs such as ``"Abrupt:period=500"``.
    n_queries
        Use only the first ones.
    horizon
        Steps of a run. The suite's time constants are scaled with it.
    runs
        Runs of every query. An environment with a single query of its own gets as many as the others have in all;
        Traffic gets five for each.
    device, threads
        As in :func:`~driftrank.experiments.simulation.simulate`.
    folder
        Write ``run.toml``, ``results.parquet`` and ``summary.json`` there; on Ctrl-C, finished runs are kept.
    resume
        Continue the leaderboard in the folder. The numbers are those of a leaderboard that was never stopped.
    say
        Called with the expected duration.
    settings
        Further settings for ``run.toml``.

    Examples
    --------
    >>> from driftrank.experiments import leaderboard
    >>> queries = [[0.5, 0.1, 0.4, 0.2, 0.3], [0.3, 0.6, 0.2, 0.1, 0.5]]
    >>> board = leaderboard(queries, policies=["Random"], environments=["Stationary"], k=2, horizon=500, progress=False)
    >>> board.ranked()
    ['PriorRegimeTS', 'Random']
    >>> board.table().columns
    ('policy', 'ratio to best', 'Stationary')
    """
    given = as_policies(policies)
    chosen = chosen_policies(given, begun_with(folder) if resume and folder is not None else [])
    source = queries if isinstance(queries, str) else ""
    found = parse_queries(queries, seed) if isinstance(queries, str) else Queries.of(queries)
    if n_queries is not None:
        check_integer("n_queries", n_queries, 1)
        found = found.first(min(n_queries, len(found)))
    names = [environments] if isinstance(environments, str) else list(environments)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"environments={name!r}: must be names of the suite or specs such as 'Abrupt:period=500'")
    there = places(names, found, k, horizon, runs)
    plan = _Plan(chosen, there, horizon, seed, checkpoints, device, threads, source, k, asked_for=bool(given))
    if folder is None:
        with ready(device) as place:
            if say is not None:
                say(plan.forecast(place, progress))
            return plan.run(place, progress)
    described = {
        "queries": source if source.startswith("yandex-like") or not source else os.fspath(Path(source).absolute()),
        "n_queries": len(found), "policy": [p.spec for p in chosen], "env": [p.name for p in plan.places], "k": k,
        "horizon": horizon, "runs": runs, "seed": seed, **(settings or {}),
    }  # fmt: skip
    run_folder = RunFolder(folder, described, found, what="leaderboard", made=DRAWN, resume=resume)
    with ready(device) as place:
        return plan.run_in(run_folder, place, progress, say)


def begun_with(folder: str | os.PathLike[str]) -> list[str]:
    """The specs of the policies that the leaderboard in a folder was begun with."""
    try:
        return list(tomllib.loads((Path(folder) / "run.toml").read_text("utf-8")).get("policy", []))
    except (OSError, tomllib.TOMLDecodeError):
        return []


def chosen_policies(given: PolicyLike | Iterable[PolicyLike] = (), begun: Sequence[str] = ()) -> list[Policy]:
    """Those given, or all that learn and two oracles; and the default policy.

    A leaderboard that was ``begun`` with those given, perhaps by a version with another default, is continued with
    these.
    """
    chosen = as_policies(given)
    if not chosen:
        # users click by the cascade model there
        learning = [name for name, p in known_policies().items() if not p.oracle and p.click_model == "CM"]
        chosen = [as_policy(name) for name in (*learning, *ORACLES)]
    usual = default_policy()
    return chosen if usual in chosen or [p.spec for p in chosen] == list(begun) else [usual, *chosen]


@dataclasses.dataclass
class _Plan:
    """A leaderboard to run, checked: a simulation for every environment."""

    policies: list[Policy]
    places: list[Place]
    horizon: int
    seed: int
    checkpoints: int
    device: Device
    threads: int | None
    source: str
    k: int
    asked_for: bool = True  #: the policies were chosen by name: each must be able to run somewhere

    def __post_init__(self) -> None:
        self.labels = labels_of(self.policies)
        self.obstacles: dict[str, dict[str, str]] = {place.name: {} for place in self.places}
        for label, policy in zip(self.labels, self.policies, strict=True):
            errors = {p.name: _obstacle(policy, p, self.horizon, self.seed) for p in self.places}
            real = {name: error for name, error in errors.items() if error is not None}
            if self.asked_for and len(real) == len(self.places):
                raise next(iter(real.values()))[1]
            for name, (reason, _) in real.items():
                self.obstacles[name][label] = reason
        self.simulations = [
            Simulation.prepare(
                self.there(place), place.environment, self.horizon, place.runs, self.seed, self.checkpoints,
                self.device, self.threads,
            )
            for place in self.places
        ]  # fmt: skip

    def there(self, place: Place) -> list[Policy]:
        """The policies that can run in an environment."""
        return [
            p for label, p in zip(self.labels, self.policies, strict=True) if label not in self.obstacles[place.name]
        ]

    def totals(self) -> dict[str, int]:
        """Steps by environment."""
        pairs = zip(self.places, self.simulations, strict=True)
        return {place.name: simulation.steps * len(simulation.task.policies) for place, simulation in pairs}

    def forecast(self, device: Device, progress: bool | None = None, begun: bool = False) -> str:
        """The expected duration: every policy is compiled and makes a few steps. ``begun``: some runs are finished."""
        total = sum(self.totals().values())
        if word_for(device) == "cuda":  # a core of this machine tells nothing about it
            return f"{total / 1e6:,.0f} million steps."
        n = max(1, at_once(device, self.threads))
        pilots = [
            (policy, where)
            for policy in self.policies
            for traffic in (False, True)
            if (where := [s for s in self.simulations
                          if s.task.environment.traffic == traffic and policy in s.task.policies])
        ]  # fmt: skip
        simulators = dict(enumerate(self._pilot(*pilot) for pilot in pilots))
        seconds = 0.0
        with chosen_progress(progress, {}) as bars, SimulatorCompiler(simulators, n, bars.note) as compiler:
            for i, (_, where) in enumerate(pilots):
                compiler.compile(i)
                seconds += self._seconds(simulators[i], where)
        how = "some of them finished: at most about" if begun else "about"
        return f"{total / 1e6:,.0f} million steps, {how} {duration(seconds / n)} on {n} core{'s' * (n > 1)}."

    def _pilot(self, policy: Policy, where: Sequence[Simulation]) -> Simulator:
        """A few steps of a policy in the smallest of these simulations."""
        horizon = min(self.horizon, _PILOT)
        environment = min(where, key=_largest).task.environment
        return simulator_of(Task((policy,), environment, horizon, self.seed, (horizon,)), 0)

    def _seconds(self, pilot: Simulator, where: Sequence[Simulation]) -> float:
        """The expected seconds of a policy in simulations of one kind, from a few steps in the smallest."""
        begin = time.thread_time()
        pilot.run(Unit(0, pilot.task.environment.names[0], (0,)), lambda steps: True)
        cost = (time.thread_time() - begin) / pilot.task.horizon / min(map(_largest, where))
        return sum(cost * _largest(simulation) * simulation.steps for simulation in where)

    def run(self, device: Device, progress: bool | None, journals: Sequence[Journal | None] = ()) -> Leaderboard:
        """Make the missing runs."""
        with chosen_progress(progress, self.totals()) as bars:
            for n, (place, simulation) in enumerate(zip(self.places, self.simulations, strict=True)):
                journal = journals[n] if journals else None
                simulation.run(device, bars, lines=[place.name] * len(simulation.task.policies), journal=journal)
                if journal is not None:
                    journal.flush()
        return self.finish()

    def run_in(self, folder: RunFolder, device: Device, progress: bool | None, say: Say | None) -> Leaderboard:
        """Run in a folder: finished runs of every environment are in a part until all are finished."""
        if folder.resume and folder.holds_ours:
            board = Leaderboard.load(folder.path)
            earlier = {arena.name: arena for arena in board.every_arena}
            if all(earlier[p.name].result.complete and earlier[p.name].result.runs == p.runs for p in self.places):
                return board
            for place, simulation in zip(self.places, self.simulations, strict=True):
                simulation.result.take(earlier[place.name].result)
        journals = [
            Journal(folder.parts / f"{n:02d}", self._identity(place, simulation), simulation.result)
            for n, (place, simulation) in enumerate(zip(self.places, self.simulations, strict=True))
        ]
        begun = folder.resume and folder.parts.exists()
        with folder.recording(journals):
            if say is not None:
                say(self.forecast(device, progress, begun))
            board = self.run(device, progress, journals)
            board.save(folder.path, metadata=folder.metadata)
        folder.clear()
        return board

    def _identity(self, place: Place, simulation: Simulation) -> dict[str, Any]:
        """The identity of the runs in an environment."""
        settings = simulation.settings() | {"env": place.spec, "k": self.k, "checkpoints": self.checkpoints}
        return identity_of(with_origin(settings, place.environment.queries))

    def finish(self) -> Leaderboard:
        """The results beside the true changes."""
        arenas = []
        for place, simulation in zip(self.places, self.simulations, strict=True):
            environment, result = place.environment, simulation.result
            runs = [(query, run) for query in environment.names for run in range(place.runs)]
            changes = [breakpoints_to_detect(environment, self.horizon, *run, self.seed) for run in runs]
            abrupt = environment.kind == "abrupt"
            marks = [environment.breakpoints(self.horizon, *run, self.seed) for run in runs] if abrupt else []
            obstacles = self.obstacles[place.name]
            # a name may be one policy here and several elsewhere
            result.labels = [label for label in self.labels if label not in obstacles]
            arenas.append(
                Arena(
                    place.name, place.spec, place.what, environment.kind, result, sum(map(len, changes)),
                    common_breakpoints(marks), obstacles, _caller(result),
                )
            )  # fmt: skip
        groups = {label: group_of(policy) for label, policy in zip(self.labels, self.policies, strict=True)}
        specs = {label: policy.spec for label, policy in zip(self.labels, self.policies, strict=True)}
        usual = default_policy()  # missing in a leaderboard of a version with another one, which came first
        default = self.labels[self.policies.index(usual) if usual in self.policies else 0]
        seconds = sum(simulation.result.seconds for simulation in self.simulations)
        return Leaderboard.of(specs, groups, default, arenas, self.source, self.k, seconds)


def _caller(result: Result) -> list[float]:
    """The final regret of the caller's order in Traffic, by run: the same for all policies."""
    if not has_caller(result):
        return []
    regret, reward, baseline = (result.values_of(result.labels[0], m)[0, :, -1] for m in _OF_CALLER)
    return [float(x) for x in regret + reward - baseline]


def _obstacle(policy: Policy, place: Place, horizon: int, seed: int) -> tuple[str, ValueError] | None:
    """The reason why a policy cannot run in an environment, and the error; None if it can."""
    task = Task((policy,), place.environment, horizon, seed, (horizon,))
    try:
        task.check(policy)
    except ValueError as error:
        there = place.environment
        sizes = [len(alpha) for query, alpha in there.queries.attraction.items() if not there.feature_count(query)]
        without = policy.contextual and max(sizes, default=0) > MOST_WITHOUT
        return "needs features" if without else str(error), error
    return None


def _largest(simulation: Simulation) -> int:
    """The number of items of the longest query: it takes longest."""
    return max(map(len, simulation.task.environment.queries.attraction.values()))
