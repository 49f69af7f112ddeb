"""The speed of simulations: against plain NumPy, and as problems grow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftrank.engine import Simulator, Task, Unit, cores
from driftrank.environments import Abrupt, Environment, Stationary
from driftrank.experiments.speed.numpy_loop import numpy_swucb
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy, policies
from driftrank.queries import yandex_like
from driftrank.reporting.table import Table

#: policies whose cost per step is measured as problems grow
MAIN = ("CascadeDUCB", "CascadeSWUCB", "CascadeUCB1", "CascadeKLUCB", "CascadeTS")
ITEMS = (10, 100, 1_000, 10_000)
HORIZONS = (10_000, 100_000, 1_000_000)
WINDOWS = (100, 1_000, 10_000, 100_000)

#: steps of a run by default: those of the paper
HORIZON = 100_000

Say = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """Measures for ``seconds``, ``repeats`` times."""

    seconds: float = 0.3
    repeats: int = 7
    say: Say = lambda what: None  #: called with the name of the current measurement

    @classmethod
    def quick(cls, say: Say = lambda what: None) -> Bench:
        return cls(0.15, 1, say)

    def against_numpy(self, chosen: Iterable[str] = ()) -> dict[str, Any]:
        """Steps per second of policies on all cores, and of a NumPy loop on one, in the paper's environment."""
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        n = cores() * -(-10 // cores())  # a unit of work for every core
        environment = Abrupt(yandex_like(n, seed=0), k=3)
        loops, speeds, ratios = [], {}, {}
        for policy in map(parse_policy, chosen or policies()):
            measure = self._speeds(policy, environment, HORIZON)
            # measured in turn: the speed of machines changes from one second to the next
            pairs = [(next(measure), self._numpy(environment)) for _ in range(self.repeats)]
            loops += [numpy for _, numpy in pairs]
            speeds[policy.spec] = float(np.median([speed for speed, _ in pairs]))
            ratios[policy.spec] = float(np.median([speed / numpy for speed, numpy in pairs]))
        return {
            "numpy": {"policy": "CascadeSWUCB", "steps_per_second": round(float(np.median(loops))), "cores": 1},
            "cores": cores(),
            "load": round(load, 2),  # the load average at the start
            "horizon": HORIZON,
            "policies": {
                spec: {
                    "steps_per_second": round(speed),
                    "times_numpy": round(ratios[spec], 1),
                    "ns_per_step_core": round(_nanoseconds(speed), 1),
                }
                for spec, speed in speeds.items()
            },
        }

    def by_items(self, items: Sequence[int] = ITEMS, chosen: Sequence[str] = MAIN) -> dict[str, dict[str, float]]:
        """Nanoseconds a step on a core, by the number of items. 3 positions, runs of 20,000 steps."""
        out: dict[str, dict[str, float]] = {name: {} for name in chosen}
        for L in items:
            attraction = np.random.default_rng(L).beta(1.0, 8.0, L)
            environment = Stationary({str(i): attraction for i in range(cores())}, k=3)
            for name in chosen:
                out[name][str(L)] = self._cost(name, environment, 20_000)
        return out

    def by_horizon(self, chosen: Sequence[str] = MAIN) -> dict[str, dict[str, float]]:
        """Nanoseconds a step on a core, by the length of a run."""
        environment = Abrupt(yandex_like(cores(), seed=0), k=3)
        return {name: {str(n): self._cost(name, environment, n) for n in HORIZONS} for name in chosen}

    def by_window(self) -> dict[str, float]:
        """Nanoseconds a step on a core of CascadeSWUCB, by its window. Runs of 200,000 steps."""
        environment = Abrupt(yandex_like(cores(), seed=0), k=3)
        return {str(w): self._cost(f"CascadeSWUCB:window={w}", environment, 200_000) for w in WINDOWS}

    def _cost(self, spec: str, environment: Environment, horizon: int) -> float:
        return round(_nanoseconds(self._speed(parse_policy(spec), environment, horizon)), 1)

    def _numpy(self, environment: Environment) -> float:
        steps, begin, spent = 0, time.perf_counter(), 0.0
        while spent < self.seconds:
            numpy_swucb(environment, 5_000, run=steps)
            steps, spent = steps + 5_000, time.perf_counter() - begin
        return steps / spent

    def _speed(self, policy: Policy, environment: Environment, horizon: int) -> float:
        measure = self._speeds(policy, environment, horizon)
        return max(next(measure) for _ in range(self.repeats))  # the best: other processes can only slow it down

    def _speeds(self, policy: Policy, environment: Environment, horizon: int) -> Iterator[float]:
        """Steps per second on all cores, measured repeatedly, without compilation."""
        self.say(f"{policy.spec}, {len(environment.queries[environment.names[0]]):,} items, {horizon:,} steps")
        simulator = Simulator(Task((policy,), environment, horizon, 0, (horizon,)), 0)
        simulator.compile()
        per_run = len(environment.names) * horizon
        runs = max(1, round(self.seconds / _timed(simulator, 1)))
        while True:
            yield runs * per_run / _timed(simulator, runs)


def _timed(simulator: Simulator, runs: int) -> float:
    """The seconds that some runs of every query take on all cores."""
    stop = False
    units = [Unit(0, query, tuple(range(runs))) for query in simulator.task.environment.names]
    with ThreadPoolExecutor(cores()) as pool:
        begin = time.perf_counter()
        try:
            for future in [pool.submit(simulator.run, unit, lambda steps: not stop) for unit in units]:
                future.result()
        except BaseException:
            stop = True
            raise
        return time.perf_counter() - begin


def _nanoseconds(speed: float) -> float:
    return 1e9 * cores() / speed


def speed_table(measured: dict[str, Any]) -> Table:
    """Policies from fastest to slowest, and the NumPy loop."""
    found = sorted(measured["policies"].items(), key=lambda pair: -pair[1]["steps_per_second"])
    rows = [(spec, v["steps_per_second"] / 1e6, v["times_numpy"], v["ns_per_step_core"]) for spec, v in found]
    numpy = measured["numpy"]["steps_per_second"]
    rows.append((f"NumPy loop of {measured['numpy']['policy']}", numpy / 1e6, 1.0, 1e9 / numpy))
    return Table(("policy", "M steps/s", "times NumPy", "ns/step/core"), rows, (None, ".2f", ".0f", ".0f"))


def growth_table(what: str, measured: dict[str, dict[str, float]]) -> Table:
    """Costs by the size of something: a row for every policy."""
    sizes = list(next(iter(measured.values())))
    rows = [(name, *(costs[size] for size in sizes)) for name, costs in measured.items()]
    columns = (f"ns/step/core by {what}", *(f"{int(size):,}" for size in sizes))
    return Table(columns, rows, (None, *([".0f"] * len(sizes))))
