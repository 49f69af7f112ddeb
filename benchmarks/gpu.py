"""Check and time the engine on a real GPU; prints one line of JSON.

Needs only NumPy, numba and numba-cuda beside the source tree:

    python benchmarks/gpu.py > gpu.json

* identity: every policy, 1,000 runs, on the GPU and on this machine's cores, compared to the last bit;
* speed: steps a second of every policy on the GPU (many runs at once) and on all cores, and the limit: the same users
  with a policy that does nothing;
* long runs: the most important policies, with many steps and 270,000 runs;
* figure 1 of the paper in a process of its own, with an empty kernel cache and with a full one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from driftrank.engine import Task, Unit, cores, run_on_cpu
from driftrank.environments import Abrupt
from driftrank.kernels import kernel
from driftrank.policies.base import Policy
from driftrank.policies.registry import parse_policy, policies
from driftrank.queries import parse_queries

#: policies, and the steps of their long runs
LONG = {
    "CascadeDUCB": 100_000, "CascadeSWUCB": 100_000, "CascadeKLUCB": 30_000, "CascadeTS": 30_000,
    "GLRTCascadeKLUCB": 20_000, "CascadeRegimeTS": 5_000,
}  # fmt: skip
PAPER = ("CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB", "RankedEXP3", "BatchRank")
OTHERS = ("CascadeUCB1", "CascadeTS", "TopRank", "RankedUCB1", "BubbleRank", "OracleRestart", "CascadeRegimeTS")


class Nothing(Policy):
    """Always shows the first items: a run consists of the users alone."""

    def fields(self, p: Any) -> dict[str, Any]:
        return {}

    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        for i in range(r.items.shape[0]):
            r.items[i] = c.items[i]
            r.score[i] = 0.0

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        pass

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = 0.0

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        pass


def task_of(names: list[str] | tuple[Policy, ...], queries: int, horizon: int, checkpoints: int = 1) -> Task:
    """The paper's environment: ten items, three positions, ten epochs."""
    chosen = tuple(parse_policy(p) if isinstance(p, str) else p for p in names)
    world = Abrupt(parse_queries(f"yandex-like:{queries}", 0), k=3, period=max(1, horizon // 10))
    steps = tuple(horizon * (i + 1) // checkpoints for i in range(checkpoints))
    return Task(chosen, world, horizon, 0, steps)


def units_of(task: Task, runs: int) -> list[Unit]:
    """``runs`` runs of every policy, spread over the queries."""
    each = runs // len(task.environment.names)
    return [Unit(p, q, tuple(range(each))) for p in range(len(task.policies)) for q in task.environment.names]


def on_cpu(job: tuple[str, int, int]) -> tuple[str, list[str], float]:
    """Run one policy on one core; returns its name, a digest per query, and the seconds it took."""
    name, runs, horizon = job
    digests: dict[str, str] = {}
    seconds = 0.0

    def done(unit: Unit, measures: Any, took: float) -> None:
        nonlocal seconds
        digests[unit.query] = digest(measures)
        seconds += took

    task = task_of([name], 10, horizon, 10)
    run_on_cpu(task, units_of(task, runs), done, threads=1)
    return name, [digests[query] for query in task.environment.names], seconds


def digest(measures: Any) -> str:
    return hashlib.blake2b(np.ascontiguousarray(measures).tobytes(), digest_size=16).hexdigest()


def timed(task: Task, runs: int) -> float:
    """Steps a second of a task of one policy, on the GPU."""
    from driftrank.engine.cuda import run_on_cuda

    seconds = []
    run_on_cuda(task, units_of(task, runs), lambda unit, measures, took: seconds.append(took))
    return runs * task.horizon / sum(seconds)


def figure_1(names: tuple[str, ...]) -> None:
    """Run the simulation of figure 1 of the paper and print the regrets."""
    from driftrank.engine.cuda import run_on_cuda

    task = task_of(list(names), 100, 100_000, 100)
    regret: dict[str, float] = {}

    def done(unit: Unit, measures: Any, took: float) -> None:
        name = type(task.policies[unit.policy]).__name__
        regret[name] = regret.get(name, 0.0) + float(measures[:, -1, 0].sum()) / 1000

    run_on_cuda(task, units_of(task, 1000), done)
    print(json.dumps(regret))


def seconds_of_figure_1(which: str, cache: str) -> tuple[float, dict[str, float]]:
    """Wall time and regrets of :func:`figure_1` in a process of its own."""
    begin = time.perf_counter()
    made = subprocess.run(
        [sys.executable, __file__, "--figure-1", which], env=os.environ | {"DRIFTRANK_CACHE_DIR": cache},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return round(time.perf_counter() - begin, 2), json.loads(made.stdout)


def copy_bandwidth() -> float:
    """The bandwidth of copies within the memory of the GPU, in bytes read and written a second."""
    from numba import cuda

    a, b = cuda.device_array(1 << 27, np.float64), cuda.device_array(1 << 27, np.float64)
    best = 0.0
    for _ in range(5):
        cuda.synchronize()
        begin = time.perf_counter()
        b.copy_to_device(a)
        cuda.synchronize()
        best = max(best, 2 * a.nbytes / (time.perf_counter() - begin))
    return best


def measure(given: argparse.Namespace, report: dict[str, Any]) -> None:
    """Measure everything and write it into ``report``."""
    from driftrank.engine.cuda import Gpu, run_on_cuda

    gpu = Gpu()
    names = [name for name in given.policies if name != Nothing.__name__]
    report["gpu"] = {"name": gpu.name, "capability": gpu.capability, "bytes free": gpu.free(), "cores": cores()}
    report["copy bytes/s"] = copy_bandwidth()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - started:6.1f} s  {text}", file=sys.stderr, flush=True)

    started = time.perf_counter()
    task = task_of(names, 10, given.steps, 10)
    on_gpu: dict[tuple[str, str], str] = {}

    def done(unit: Unit, measures: Any, took: float) -> None:
        on_gpu[names[unit.policy], unit.query] = digest(measures)

    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        by_core = pool.map(on_cpu, [(name, given.check_runs, given.steps) for name in names])
        run_on_cuda(task, units_of(task, given.check_runs), done)
        say(f"{len(names)} policies on the GPU, {given.check_runs} runs of {given.steps} steps each")
        found = list(by_core)
    different = [n for n, theirs, _ in found if [on_gpu[n, q] for q in task.environment.names] != theirs]
    report["identity"] = {"policies": len(names), "runs of each": given.check_runs, "steps": given.steps,
                          "different": different}  # fmt: skip
    say(f"the same on the CPU; different: {different or 'none'}")

    work = given.check_runs // 10 * 10 * given.steps
    report["cpu steps/s, one core of all busy"] = {n: round(work / seconds) for n, _, seconds in found}
    limit = timed(task_of((Nothing(),), 60, given.steps), given.runs)
    report["limit: users alone, steps/s"] = round(limit)
    speeds = report["cuda steps/s"] = {}
    for name in [n for n in names if not parse_policy(n).needs_fixed_list]:  # computed on the CPU
        speeds[name] = round(timed(task_of([name], 60, given.steps), given.runs // 4))
    say("all policies timed")
    long = report["long runs, steps/s"] = {}
    for name, steps in LONG.items():
        if name in names:
            begin = time.perf_counter()
            speed = timed(task_of([name], 60, steps), given.runs)
            wall = round(time.perf_counter() - begin, 2)
            long[name] = {"steps/s": round(speed), "runs": given.runs, "steps": steps, "wall s": wall}
            say(f"{name}: {speed / 1e9:.2f} billion steps a second")
    with tempfile.TemporaryDirectory() as cache:
        for which in ("paper", "all"):
            cold, regret = seconds_of_figure_1(which, cache)
            warm, again = seconds_of_figure_1(which, cache)
            report[f"figure 1, {which}"] = {"s": cold, "s with kernels on disk": warm, "same": regret == again,
                                            "regret": regret}  # fmt: skip
            say(f"figure 1 ({which} policies): {cold} s, with kernels on disk {warm} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=270_000, help="runs of a timing")
    parser.add_argument("--check-runs", type=int, default=1_000, help="runs to compare with the CPU")
    parser.add_argument("--steps", type=int, default=2_000, help="steps of these, and of the timing of all policies")
    parser.add_argument("--policies", nargs="*", default=list(policies()), help="policies to measure")
    parser.add_argument("--figure-1", choices=("paper", "all"), help="only make figure 1 of the paper")
    given = parser.parse_args()
    if given.figure_1:
        figure_1(PAPER if given.figure_1 == "paper" else PAPER + OTHERS)
        return
    report: dict[str, Any] = {}
    try:
        measure(given, report)
    finally:  # an error must not lose the earlier figures
        print(json.dumps(report))
    sys.exit(1 if report["identity"]["different"] else 0)


if __name__ == "__main__":
    main()
