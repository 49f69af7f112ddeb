"""Every policy in every environment."""

from __future__ import annotations

import dataclasses
import json
import os
import time
import tomllib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.compiling import SimulatorCompiler
from driftrank.engine.devices import Device, at_once, ready, word_for
from driftrank.engine.simulators import simulator_of
from driftrank.environments.base import Environment
from driftrank.experiments.leaderboards.arena import Arena, group_of
from driftrank.experiments.leaderboards.places import Place, places
from driftrank.experiments.leaderboards.policies import chosen_policies, together
from driftrank.experiments.leaderboards.result import Leaderboard
from driftrank.experiments.leaderboards.sharing import copies, enter, to_make
from driftrank.experiments.simulation.breakpoints import breakpoints_to_detect, common_breakpoints
from driftrank.experiments.simulation.caller import has_caller
from driftrank.experiments.simulation.folder import Journal, RunFolder, identity_of, with_origin
from driftrank.experiments.simulation.labels import labels_of
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.simulate import Simulation
from driftrank.policies.base import Policy
from driftrank.policies.learner.features import MOST_WITHOUT
from driftrank.policies.registry import PolicyLike, as_policies, default_policy
from driftrank.progress import chosen_progress
from driftrank.queries import Queries, parse_queries
from driftrank.reporting.page import duration
from driftrank.validation import check_integer

QUERIES, RUNS, HORIZON, K = 20, 1, 100_000, 3
QUICK_QUERIES, QUICK_HORIZON = 5, 2000

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

    The suite has several groups of environments. Each is a leaderboard of its own: the first one is returned, the
    others are its :attr:`Leaderboard.parts`.

    Parameters
    ----------
    queries
        ``yandex-like:N``, the path of a JSON file, or anything :meth:`driftrank.queries.Queries.of` takes.
    policies
        Policies or their specs; by default all that suit the users of a group, some with other parameters, and oracles.
        The default policy, with which the others are compared, is always added.
    environments
        Names of the suite (all by default) or of its groups (``"users"``), or specs such as ``"Abrupt:period=500"``.
    n_queries
        Use only the first ones.
    horizon
        Steps of a run. The suite's time constants are scaled with it, and so are the runs of groups that have others.
    runs
        Runs of every query. An environment with a single query of its own gets as many as the others have in all;
        Traffic gets five for each, that of the suite fifteen short ones.
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
    source = queries if isinstance(queries, str) else ""
    found = parse_queries(queries, seed) if isinstance(queries, str) else Queries.of(queries)
    if n_queries is not None:
        check_integer("n_queries", n_queries, 1)
        found = found.first(min(n_queries, len(found)))
    names = [environments] if isinstance(environments, str) else list(environments)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"environments={name!r}: must be names of the suite or specs such as 'Abrupt:period=500'")
    there = places(names, found, k, horizon, runs, seed)
    begun = begun_with(folder) if resume and folder is not None else []
    parts = dict.fromkeys(place.part for place in there)
    chosen = chosen_policies(given, parts, begun)
    asked_for = chosen != chosen_policies((), parts)
    plan = _Plan(chosen, there, seed, checkpoints, device, threads, source, k, asked_for)
    if folder is None:
        with ready(device) as place:
            if say is not None:
                say(plan.forecast(place, progress))
            return plan.run(place, progress)
    described = {
        "queries": source if source.startswith("yandex-like") or not source else os.fspath(Path(source).absolute()),
        "n_queries": len(found), "policy": [p.spec for p in plan.every_policy], "env": [p.name for p in plan.places],
        "k": k, "horizon": horizon, "runs": runs, "seed": seed, **(settings or {}),
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


@dataclasses.dataclass
class _Plan:
    """A leaderboard to run, checked: a simulation for every environment."""

    policies: dict[str, list[Policy]]  #: by part
    places: list[Place]
    seed: int
    checkpoints: int
    device: Device
    threads: int | None
    source: str
    k: int
    asked_for: bool = True  #: the policies were chosen by name: each must be able to run somewhere

    def __post_init__(self) -> None:
        self.every_policy = together(self.policies)
        labels = labels_of(self.every_policy)
        self.labels = dict(zip(self.every_policy, labels, strict=True))
        self.obstacles: dict[str, dict[str, str]] = {place.name: {} for place in self.places}
        tasks = {p.name: Task((), p.environment, p.horizon, self.seed, (p.horizon,)) for p in self.places}
        for policy, label in self.labels.items():
            where = [place for place in self.places if policy in self.policies[place.part]]
            errors = {place.name: _obstacle(policy, tasks[place.name]) for place in where}
            real = {name: error for name, error in errors.items() if error is not None}
            if self.asked_for and len(real) == len(where):
                raise next(iter(real.values()))[1]
            for name, (reason, _) in real.items():
                self.obstacles[name][label] = reason
        self.simulations = [
            Simulation.prepare(
                self.there(place), place.environment, place.horizon, place.runs, self.seed, self.checkpoints,
                self.device, self.threads,
            )
            for place in self.places
        ]  # fmt: skip
        pairs = zip(self.places, self.simulations, strict=True)
        self.copies = copies(self.simulations, [self._world(place, simulation) for place, simulation in pairs])

    def there(self, place: Place) -> list[Policy]:
        """The policies that can run in an environment."""
        return [p for p in self.policies[place.part] if self.labels[p] not in self.obstacles[place.name]]

    def totals(self) -> dict[str, int]:
        """Steps by environment."""
        pairs = zip(self.places, self.simulations, strict=True)
        return {place.name: simulation.steps * len(simulation.task.policies) for place, simulation in pairs}

    def forecast(self, device: Device, progress: bool | None = None, begun: bool = False) -> str:
        """The expected duration: every policy is compiled and makes a few steps. ``begun``: some runs are finished."""
        copied = zip(self.simulations, self.copies, strict=True)
        total = sum(self.totals().values()) - sum(simulation.steps * len(theirs) for simulation, theirs in copied)
        if word_for(device) == "cuda":  # a core of this machine tells nothing about it
            return f"{total / 1e6:,.0f} million steps."
        kinds: dict[str, list[tuple[Simulation, set[Policy]]]] = {}  # with their own kernels; the policies that run
        for simulation, theirs in zip(self.simulations, self.copies, strict=True):
            running = set(simulation.task.policies) - {simulation.task.policies[copy.policy] for copy in theirs}
            kinds.setdefault(_kind(simulation.task.environment), []).append((simulation, running))
        n = max(1, at_once(device, self.threads))
        pilots = [
            (policy, where)
            for policy in self.every_policy
            for alike in kinds.values()
            if (where := [simulation for simulation, running in alike if policy in running])
        ]
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
        smallest = min(where, key=_largest)
        horizon = min(smallest.result.horizon, _PILOT)
        return simulator_of(Task((policy,), smallest.task.environment, horizon, self.seed, (horizon,)), 0)

    def _seconds(self, pilot: Simulator, where: Sequence[Simulation]) -> float:
        """The expected seconds of a policy in simulations of one kind, from a few steps in the smallest."""
        begin = time.thread_time()
        pilot.run(Unit(0, pilot.task.environment.names[0], (0,)), lambda steps: True)
        cost = (time.thread_time() - begin) / pilot.task.horizon / min(map(_largest, where))
        return sum(cost * _largest(simulation) * simulation.steps for simulation in where)

    def run(self, device: Device, progress: bool | None, journals: Sequence[Journal | None] = ()) -> Leaderboard:
        """Make the missing runs."""
        with chosen_progress(progress, self.totals()) as bars:
            made = zip(self.places, self.simulations, self.copies, strict=True)
            for n, (place, simulation, theirs) in enumerate(made):
                journal = journals[n] if journals else None
                lines = [place.name] * len(simulation.task.policies)
                wanted = to_make(simulation.result, theirs)
                simulation.run(device, bars, lines=lines, rounds=[wanted], journal=journal)
                if journal is not None:
                    journal.flush()
                enter(simulation.result, theirs, self.simulations)
        return self.finish()

    def run_in(self, folder: RunFolder, device: Device, progress: bool | None, say: Say | None) -> Leaderboard:
        """Run in a folder: finished runs of every environment are in a part until all are finished."""
        if folder.resume and folder.holds_ours:
            board = Leaderboard.load(folder.path)
            earlier = {arena.name: arena for part in board.every_part for arena in part.arenas}
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
        settings = simulation.settings() | {"env": place.spec, "k": place.k, "checkpoints": self.checkpoints}
        return identity_of(with_origin(settings, place.environment.queries))

    def _world(self, place: Place, simulation: Simulation) -> Hashable:
        """The same for environments with the same users, and as many runs."""
        identity = self._identity(place, simulation) | {"policy": [], "runs": place.runs}
        return json.dumps([identity, simulation.task.checkpoints])

    def finish(self) -> Leaderboard:
        """The results beside the true changes."""
        arenas = []
        for place, simulation in zip(self.places, self.simulations, strict=True):
            environment, result = place.environment, simulation.result
            runs = [(query, run) for query in environment.names for run in range(place.runs)]
            changes = [breakpoints_to_detect(environment, place.horizon, *run, self.seed) for run in runs]
            abrupt = environment.kind == "abrupt"
            marks = [environment.breakpoints(place.horizon, *run, self.seed) for run in runs] if abrupt else []
            # a name may be one policy here and several elsewhere
            result.labels = [self.labels[policy] for policy in self.there(place)]
            arenas.append(
                Arena(
                    place.name, place.spec, place.what, environment.kind, result, sum(map(len, changes)),
                    common_breakpoints(marks), self.obstacles[place.name], _caller(result), place.part, place.options,
                    place.users,
                )
            )  # fmt: skip
        groups = {label: group_of(policy) for policy, label in self.labels.items()}
        specs = {label: policy.spec for policy, label in self.labels.items()}
        # the usual one is missing in a leaderboard of a version with another, which came first
        default = self.labels.get(default_policy(), next(iter(specs)))
        return Leaderboard.of(specs, groups, default, arenas, self.source, self.k)


def _caller(result: Result) -> list[float]:
    """The final regret of the caller's order in Traffic, by run: the same for all policies."""
    if not has_caller(result):
        return []
    regret, reward, baseline = (result.values_of(result.labels[0], m)[0, :, -1] for m in _OF_CALLER)
    return [float(x) for x in regret + reward - baseline]


def _obstacle(policy: Policy, task: Task) -> tuple[str, ValueError] | None:
    """The reason why a policy cannot run in an environment, and the error; None if it can."""
    try:
        task.check(policy)
    except ValueError as error:
        there = task.environment
        sizes = [len(alpha) for query, alpha in there.queries.attraction.items() if not there.feature_count(query)]
        without = policy.contextual and max(sizes, default=0) > MOST_WITHOUT
        return "needs features" if without else str(error), error
    return None


def _kind(environment: Environment) -> str:
    """The users that kernels are compiled for."""
    return type(environment if environment.traffic else environment.users()).__name__


def _largest(simulation: Simulation) -> int:
    """The number of items of the longest query: it takes longest."""
    return max(map(len, simulation.task.environment.queries.attraction.values()))
