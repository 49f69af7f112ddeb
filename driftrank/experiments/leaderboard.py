"""Every policy in every environment."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftrank import __version__
from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.devices import Device, at_once, ready, word_for
from driftrank.experiments.board import Arena, Leaderboard, group_of
from driftrank.experiments.breakpoints import breakpoints_to_detect, common_breakpoints
from driftrank.experiments.page import duration
from driftrank.experiments.results import Result
from driftrank.experiments.run import ORIGIN, Interrupted, check_same, digest, run_in_folder
from driftrank.experiments.simulate import labels_of, prepare, simulate
from driftrank.experiments.suite import Place, places
from driftrank.experiments.toml import write_toml
from driftrank.files import read_toml, usable_folder, written_text
from driftrank.policies.base import Policy
from driftrank.policies.features import MOST_WITHOUT
from driftrank.policies.registry import default_policy, parse_policy
from driftrank.policies.registry import policies as known_policies
from driftrank.progress import Together, chosen_progress
from driftrank.queries import Queries, parse_queries
from driftrank.validation import check_integer

QUERIES, RUNS, HORIZON, K = 20, 1, 100_000, 3
QUICK_QUERIES, QUICK_HORIZON = 5, 2000

#: references: told the truth, and shown apart. One that shows the best list at every step has no regret.
ORACLES = ("OracleRestart", "StaticOracle")

#: what is made of the numbers
DRAWN = ("leaderboard.html", "leaderboard.md", "leaderboard.png", "leaderboard.svg", "table.csv")
_DATA = ("results.parquet", "summary.json")

#: steps that tell how long the others will take
_PILOT = 5000

_KEY = "driftrank"

Say = Callable[[str], None]


def leaderboard(
    queries: Any = f"yandex-like:{QUERIES}",
    *,
    policies: Iterable[Policy | str] = (),
    environments: Iterable[str] = (),
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
) -> Leaderboard:
    """Run every policy in every environment of the standard suite; all of them meet the same users.

    Parameters
    ----------
    queries
        ``yandex-like:N``, the path of a JSON file, or anything :meth:`driftrank.queries.Queries.of` takes.
    policies
        Policies or their specs; by default all there are, and two that are told the truth. The default policy, with
        which the others are compared, is always among them.
    environments
        Names of the suite (all by default), or specs such as ``"Abrupt:period=500"``.
    n_queries
        Take only the first ones.
    horizon
        Steps of a run. The suite's time constants are scaled with it.
    runs
        Of every query. An environment with a single query of its own gets as many as the others have in all.
    device, threads
        As in :func:`~driftrank.experiments.simulate`.
    folder
        Keep the numbers there: ``run.toml``, ``results.parquet`` and ``summary.json``; and what is finished when it is
        stopped.
    resume
        Go on with what the folder holds. The numbers are those of a leaderboard that was never stopped.
    say
        Is told how long it will take.

    Examples
    --------
    >>> from driftrank.experiments import leaderboard
    >>> queries = [[0.5, 0.1, 0.4, 0.2, 0.3], [0.3, 0.6, 0.2, 0.1, 0.5]]
    >>> board = leaderboard(queries, policies=["Random"], environments=["Stationary"], k=2, horizon=500, progress=False)
    >>> board.ranked()
    ['CascadeRegimeTS', 'Random']
    >>> board.table().columns
    ('policy', 'ratio to best', 'Stationary')
    """
    chosen = chosen_policies(policies)
    source = queries if isinstance(queries, str) else ""
    found = parse_queries(queries, seed) if isinstance(queries, str) else Queries.of(queries)
    if n_queries is not None:
        check_integer("n_queries", n_queries, 1)
        found = found.first(min(n_queries, len(found)))
    if threads is not None:
        check_integer("threads", threads, 1)
    there = places(list(environments), found, k, horizon, runs)
    plan = _Plan(chosen, there, horizon, seed, checkpoints, device, threads)
    if folder is None:
        with ready(device) as plan.device:
            if say is not None:
                say(plan.forecast())
            return plan.finish(plan.run_here(progress), source, k)
    settings = {
        "queries": source if source.startswith("yandex-like") or not source else os.fspath(Path(source).absolute()),
        "n_queries": len(found), "policy": [p.spec for p in chosen], "env": [p.name for p in plan.places], "k": k,
        "horizon": horizon, "runs": runs, "seed": seed, **dict(zip(ORIGIN, (__version__, digest(found)), strict=True)),
    }  # fmt: skip
    with ready(device) as plan.device:
        return _in_folder(plan, usable_folder(folder), settings, resume, progress, say, source, k)


def chosen_policies(given: Iterable[Policy | str] = ()) -> list[Policy]:
    """Those given, or all that learn and two that are told the truth; and the default policy."""
    chosen = [parse_policy(p) if isinstance(p, str) else p for p in ([given] if isinstance(given, str) else given)]
    if not chosen:
        # users click by the cascade model there
        learning = [name for name, p in known_policies().items() if not p.oracle and p.click_model == "CM"]
        chosen = [parse_policy(name) for name in (*learning, *ORACLES)]
    usual = default_policy()
    return chosen if usual in chosen else [usual, *chosen]


@dataclasses.dataclass
class _Plan:
    """What is to be run."""

    policies: list[Policy]
    places: list[Place]
    horizon: int
    seed: int
    checkpoints: int
    device: Device
    threads: int | None

    def __post_init__(self) -> None:
        """What can be wrong is found here, before anything runs."""
        self.labels = labels_of(self.policies)
        self.obstacles: dict[str, dict[str, str]] = {place.name: {} for place in self.places}
        for label, policy in zip(self.labels, self.policies, strict=True):
            errors = {place.name: self._obstacle(policy, place) for place in self.places}
            real = {name: error for name, error in errors.items() if error is not None}
            if len(real) == len(self.places):
                raise next(iter(real.values()))[1]
            for name, (reason, _) in real.items():
                self.obstacles[name][label] = reason
        for place in self.places:
            there = self.there(place)
            prepare(there, place.environment, self.horizon, place.runs, self.seed, self.device, self.checkpoints)

    def _obstacle(self, policy: Policy, place: Place) -> tuple[str, ValueError] | None:
        """Why a policy cannot run somewhere."""
        task = Task((policy,), place.environment, self.horizon, self.seed, (self.horizon,))
        for query, alpha in place.environment.queries.attraction.items():
            try:
                policy.fields(policy.parameters(task.problem(query, policy)))
            except ValueError as error:
                without = place.environment.features(query) is None and len(alpha) > MOST_WITHOUT
                return "needs features" if policy.contextual and without else str(error), error
        return None

    def there(self, place: Place) -> list[Policy]:
        """The policies that can run somewhere."""
        return [
            p for label, p in zip(self.labels, self.policies, strict=True) if label not in self.obstacles[place.name]
        ]

    def settings(self, place: Place) -> dict[str, Any]:
        """What is common to all simulations, and this one's runs."""
        return {
            "horizon": self.horizon, "runs": place.runs, "seed": self.seed, "threads": self.threads,
            "checkpoints": self.checkpoints,
        }  # fmt: skip

    def steps(self, place: Place) -> int:
        """Of one policy."""
        return self.horizon * place.runs * len(place.environment.queries)

    def forecast(self, begun: bool = False) -> str:
        """How long it will take: every policy is compiled, and makes a few steps. ``begun``: some of it is done."""
        total = sum(self.steps(place) * len(self.there(place)) for place in self.places)
        if word_for(self.device) == "cuda":  # of which a core of this machine tells nothing
            return f"{total / 1e6:,.0f} million steps."
        seconds = 0.0
        for policy in self.policies:
            where = [place for place in self.places if policy in self.there(place)]
            pilot = min(where, key=_largest)
            horizon = min(self.horizon, _PILOT)
            task = Task((policy,), pilot.environment, horizon, self.seed, (horizon,))
            simulator = Simulator(task, 0)
            simulator.compile()
            begin = time.thread_time()
            simulator.run(Unit(0, pilot.environment.names[0], (0,)), lambda steps: True)
            cost = (time.thread_time() - begin) / horizon / _largest(pilot)
            seconds += sum(cost * _largest(place) * self.steps(place) for place in where)
        n = max(1, at_once(self.device, self.threads))
        how = "some of them done before: at most about" if begun else "about"
        return f"{total / 1e6:,.0f} million steps, {how} {duration(seconds / n)} on {n} core{'s' * (n > 1)}."

    def run_here(self, progress: bool | None) -> list[Result]:
        """Without a folder."""
        with chosen_progress(progress, self.totals()) as bars:
            return [
                simulate(
                    self.there(place),
                    place.environment,
                    device=self.device,
                    progress=Together(bars, place.name),
                    **self.settings(place),
                )
                for place in self.places
            ]

    def totals(self) -> dict[str, int]:
        return {place.name: self.steps(place) * len(self.there(place)) for place in self.places}

    def finish(self, results: Sequence[Result], source: str, k: int) -> Leaderboard:
        """The results beside the truth."""
        arenas = []
        for place, result in zip(self.places, results, strict=True):
            environment = place.environment
            runs = [(query, run) for query in environment.names for run in range(place.runs)]
            changes = [breakpoints_to_detect(environment, self.horizon, *run, self.seed) for run in runs]
            abrupt = environment.kind == "abrupt"
            marks = [environment.breakpoints(self.horizon, *run, self.seed) for run in runs] if abrupt else []
            obstacles = self.obstacles[place.name]
            # a name may stand for one policy here and for several elsewhere
            result.labels = [label for label in self.labels if label not in obstacles]
            arenas.append(
                Arena(
                    place.name, place.spec, place.what, environment.kind, result, sum(map(len, changes)),
                    common_breakpoints(marks), obstacles,
                )
            )  # fmt: skip
        groups = {label: group_of(policy) for label, policy in zip(self.labels, self.policies, strict=True)}
        specs = {label: policy.spec for label, policy in zip(self.labels, self.policies, strict=True)}
        default = self.labels[self.policies.index(default_policy())]
        return Leaderboard(specs, groups, default, arenas, source, k, sum(result.seconds for result in results))


def _in_folder(
    plan: _Plan,
    folder: Path,
    settings: Mapping[str, Any],
    resume: bool,
    progress: bool | None,
    say: Say | None,
    source: str,
    k: int,
) -> Leaderboard:
    """Every environment in a folder of its own, inside ``parts``, until all are finished."""
    toml, parts = folder / "run.toml", folder / "parts"
    identity = json.dumps({key: settings[key] for key in sorted(settings)})
    if resume and toml.is_file():
        check_same(toml, read_toml(toml), settings)
        if _identity(folder / "results.parquet") == identity:
            return Leaderboard.load(folder)
    else:
        shutil.rmtree(parts, ignore_errors=True)
    if say is not None:
        say(plan.forecast(begun=parts.exists()))
    before = toml.read_text(encoding="utf-8", errors="replace") if toml.is_file() else None
    results: list[Result] = []
    try:
        written_text(toml, write_toml(settings, "These are the settings of the leaderboard in this folder."))
        with chosen_progress(progress, plan.totals()) as bars:
            for n, place in enumerate(plan.places):
                there, how = plan.there(place), plan.settings(place)
                own = {"policy": [p.spec for p in there], "env": place.spec, "k": k}
                results.append(
                    run_in_folder(
                        there, place.environment, folder=parts / f"{n:02d}", settings=own | how, device=plan.device,
                        resume=resume, progress=Together(bars, place.name), **how,
                    )
                )  # fmt: skip
        board = plan.finish(results, source, k)
        board.save(folder, metadata={_KEY: identity})
    except KeyboardInterrupt as stop:
        kept = stop.finished if isinstance(stop, Interrupted) else 0
        kept += sum(int((~np.isnan(result.values[0, ..., -1])).sum()) for result in results)
        wanted = sum(total // plan.horizon for total in plan.totals().values())
        if any(parts.rglob("*.parquet")):  # what was made of other numbers would not go with the settings
            for name in (*DRAWN, *_DATA):
                (folder / name).unlink(missing_ok=True)
        else:  # nothing came of this: the folder is as it was
            shutil.rmtree(parts, ignore_errors=True)
            if before is not None:
                written_text(toml, before)
        raise Interrupted(folder, kept, wanted) from stop
    shutil.rmtree(parts, ignore_errors=True)
    return board


def _identity(path: Path) -> str | None:
    """What the numbers in a file are."""
    import pyarrow
    import pyarrow.parquet

    try:
        found = (pyarrow.parquet.read_schema(path).metadata or {}).get(_KEY.encode())
    except (OSError, pyarrow.ArrowException):
        return None
    return found.decode() if found else None


def _largest(place: Place) -> int:
    """How many items the longest query has: it takes longest."""
    return max(map(len, place.environment.queries.attraction.values()))
