"""Simulations on numba's simulator of a GPU, compared with those on the CPU; run by ``test_run.py``.

numba chooses the simulator when it is imported, so all cases run in a process of their own, which prints the results.
"""

from __future__ import annotations

import json
import sys
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from driftrank import letor
from driftrank.clickmodels import CCM, CM, DBN, DCM, PBM, SDBN, UBM, ClickModel
from driftrank.engine import MEASURES, Task, Unit, run_on_cpu
from driftrank.engine.cuda import Gpu, batch, device, groups, run
from driftrank.engine.cuda.batch import Batch, batch_bytes
from driftrank.engine.cuda.views import TILE, simulated
from driftrank.environments import (
    BLB,
    Abrupt,
    Churn,
    Drift,
    GarivierMoulines,
    LearningToRank,
    LinearFeatures,
    LowCTR,
    LowerBound,
    OrderOnly,
    PiecewiseRandom,
    Recurring,
    Replay,
    Scaling,
    Silent,
    Stationary,
)
from driftrank.environments.base import Environment
from driftrank.kernels.compile import Kernel
from driftrank.policies.registry import parse_policy, policies
from driftrank.queries import Queries

LEVELS = {"q": [0.7, 0.1, 0.45, 0.0, 0.2], "r": [0.3, 1.0, 0.5, 0.2, 0.2]}
CHANGES = {"q": ((7, (0.5,) * 5), (8, (0.1, 0.9, 0.1, 0.2, 0.3)), (30, (0.2,) * 4 + (0.9,)))}
#: the third restarts at every change, the fourth is contextual
SOME = ["CascadeSWUCB:window=9", "CascadeTS", "OracleRestart", "CascadeLinUCB"]

WORLDS: dict[str, Environment] = {
    "Abrupt": Abrupt(LEVELS, k=2, period=11),
    "BLB": BLB(L=6, K=2),
    "Churn": Churn(LEVELS, k=2, period=5),
    "Churn, absent": Churn(LEVELS, k=2, period=5, absent=2, announced=False),
    "Drift, sinusoid": Drift(LEVELS, k=2, period=30, block=3),
    "Drift, walk": Drift(LEVELS, k=2, shape="walk", amplitude=0.4, period=30, block=3),
    "Drift, ramp": Drift(LEVELS, k=2, shape="ramp", period=30, block=3),
    "Drift, budget": Drift(LEVELS, k=2, shape="budget", period=7),
    "GarivierMoulines": GarivierMoulines(shape="sinusoid", horizon=40),
    "LearningToRank": LearningToRank(letor.generate(queries=3, documents=4, features=3, seed=1), K=2),
    "LinearFeatures": LinearFeatures(L=6, K=2, d=3, n_queries=2, period=13),
    "LowCTR": LowCTR(horizon=40),
    "LowerBound": LowerBound(L=6, period=12),
    "OrderOnly": OrderOnly(LEVELS, k=2, period=12),
    "PiecewiseRandom": PiecewiseRandom(LEVELS, k=2, n_breakpoints=4, horizon=40, spacing=4),
    "PiecewiseRandom, geometric": PiecewiseRandom(
        LEVELS, k=2, n_breakpoints=4, horizon=40, spacing=4, times="geometric", start="uniform"
    ),
    "Recurring": Recurring(LEVELS, k=2, regimes=3, period=9),
    "Replay": Replay(Queries(Queries.of(LEVELS).attraction, changes=CHANGES), k=2),
    "Replay, faster": Replay(Queries(Queries.of(LEVELS).attraction, changes=CHANGES), k=2, speed=1.7),
    "Scaling": Scaling(LEVELS, k=2, period=12),
    "Silent": Silent(LEVELS, k=2, period=12),
    "Stationary": Stationary(LEVELS, k=2),
}

#: click models, each with a policy
USERS: dict[ClickModel, str] = {
    CCM(): "CascadeTS",
    CM(): "CascadeKLUCB",
    DBN(objective="clicks"): "CascadeKLUCB:feedback=last",
    DCM(objective="clicks"): "DCMKLUCB",
    PBM(): "PBMPIE",
    SDBN(): "CascadeSWUCB:feedback=last",
    UBM(): "RankedEXP3",
}

#: the results of a case
Found = dict[str, Any]
Values = dict[tuple[int, str, int], list[list[float]]]


def task_of(specs: Sequence[str], environment: Environment, horizon: int = 40, every: int = 7) -> Task:
    checkpoints = {*range(every, horizon, every), horizon}
    return Task(tuple(map(parse_policy, specs)), environment, horizon, 3, tuple(sorted(checkpoints)))


def units_of(task: Task, runs: Sequence[int] = (0, 1)) -> list[Unit]:
    return [Unit(p, query, tuple(runs)) for p in range(len(task.policies)) for query in task.environment.names]


def kept_in(values: Values) -> Callable[[Unit, np.ndarray, float], None]:
    def done(unit: Unit, measures: np.ndarray, seconds: float) -> None:
        assert measures.shape[0] == len(unit.runs)
        assert seconds >= 0
        for i, number in enumerate(unit.runs):
            assert (unit.policy, unit.query, number) not in values, "delivered twice"
            values[unit.policy, unit.query, number] = measures[i].tolist()

    return done


def on_cpu(task: Task, units: Sequence[Unit], threads: int = 1) -> Values:
    values: Values = {}
    run_on_cpu(task, units, kept_in(values), threads=threads)
    return values


def compared(task: Task, runs: Sequence[int] = (0, 1)) -> Found:
    """Policies whose numbers differ, the steps reported of each, and the launches."""
    units = units_of(task, runs)
    values: Values = {}
    ticks: Counter[int] = Counter()
    batches: list[list[Any]] = []

    class Watched(Batch):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            batches.append([self.runs, []])
            self.launches = batches[-1][1]

        def _launch(self) -> None:
            super()._launch()
            self.launches.append([self.first, self.last])

    def tick(policy: int, steps: int) -> None:
        ticks[policy] += steps

    with patch.object(run, "Batch", Watched):
        run.run_on_cuda(task, units, kept_in(values), tick=tick)
    expected = on_cpu(task, units)
    assert values.keys() == expected.keys()
    different = {key[0] for key in expected if not np.array_equal(values[key], expected[key])}
    alarms = MEASURES.index("alarms")
    return {
        "different": [task.policies[p].spec for p in sorted(different)],
        "ticks": [ticks[p] for p in range(len(task.policies))],
        "steps": task.horizon * len(runs) * len(task.environment.names),
        "regret": [max(values[p, u.query, u.runs[0]][-1][0] for u in units) for p in range(len(task.policies))],
        "alarms": [sum(v[-1][alarms] for (q, *_), v in values.items() if q == p) for p in range(len(task.policies))],
        "batches": [size for size, _ in batches],
        "launches": [launches for _, launches in batches],
    }


@contextmanager
def gpu_forms() -> Iterator[None]:
    """Let kernels take the form that they have for GPUs: the simulator calls them from Python, as the CPU does here."""

    def called(function: Kernel, *arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function.on_gpu(*arguments)

    with patch.object(Kernel, "__call__", called):
        yield


# -- the cases ---------------------------------------------------------------------------------------------------------


def policies_of_every_kind() -> Found:
    """One policy for each way to assemble kernels; ``every_policy`` has the others."""
    specs = ["BatchRank", "CascadeLinTS", "CascadeMASTER", "CascadeRegimeTS", "CascadeUCB1", "DCMDKLUCB", "PBMPIE"]
    return compared(task_of([*specs, "GLRTCascadeKLUCB", "RankedEXP3", "StaticOracle"], WORLDS["Abrupt"]))


def every_policy() -> Found:
    return compared(task_of(list(policies()), WORLDS["Abrupt"]))


def alarms() -> Found:
    """Sensitive detectors, so that 60 steps have alarms and restarts."""
    specs = [
        "GLRTCascadeUCB:delta=0.9,explore=0.3,threshold=jmlr",
        "GLRTCascadeKLUCB:delta=0.9,explore=0.3,threshold=jmlr,restart=local",
        "CascadeMUCB:window=4,b=0.6,explore=0.3",
        "CascadeCUSUM:calibration=2,h=0.5,explore=0.3",
        "CascadePHT:h=0.5,explore=0.3",
    ]
    return compared(task_of(specs, Abrupt({"q": [1.0, 1.0, 0.0, 0.0]}, k=2, period=15, n_boosted=2), horizon=60))


def every_environment() -> Found:
    return {name: compared(task_of(SOME, world)) for name, world in WORLDS.items()}


def every_click_model() -> Found:
    return {
        type(users).__name__: compared(task_of([spec], Abrupt(LEVELS, k=2, period=11, click_model=users)))
        for users, spec in USERS.items()
    }


def a_grid() -> Found:
    """Windows with rings of several sizes, and discounts: a batch for each of the two policies."""
    windows = [f"CascadeSWUCB:window={w}" for w in (2, 5, 12, 1000)]
    discounts = [f"CascadeDUCB:discount={g}" for g in (0.5, 0.9, 0.99)]
    return compared(task_of([*windows, *discounts], WORLDS["Abrupt"]))


def several_sizes() -> Found:
    """Queries with different numbers of items, each with its own kernel."""
    levels = {**LEVELS, "s": [0.9, 0.1, 0.3, 0.5, 0.2, 0.8, 0.05], "t": [0.5, 0.6, 0.2, 0.9, 0.1, 0.3]}
    return compared(task_of(SOME, Abrupt(levels, k=2, period=11)))


def many_sizes() -> Found:
    """Queries with different numbers of items that share a kernel, whose memory is larger than a query needs."""
    few = {f"{n}": np.linspace(0.9, 0.1, n).round(2).tolist() for n in (5, 8, 7)}
    levels = Queries.of(few).attraction
    changes = {"7": ((9, tuple(levels["7"][::-1])),)}
    satisfaction = {"5": 0.5, "8": 0.2, "7": 0.9}
    models = {query: DBN(satisfaction=(s,) * len(levels[query])) for query, s in satisfaction.items()}
    worlds = {
        "Abrupt": Abrupt(few, k=2, period=11),
        "Churn": Churn(few, k=2, period=5, absent=1),
        "Replay": Replay(Queries(levels, changes=changes), k=2),
        "click models of their own": Abrupt(Queries(levels, models=models), k=2, period=11),
        "UBM": Abrupt(few, k=2, period=11, click_model=UBM()),
    }
    specs = [*SOME, "GLRTCascadeKLUCB", "CascadeRegimeTS"]
    with patch.object(groups, "FEW", 1):
        return {name: compared(task_of(specs, world)) for name, world in worlds.items()}


def every_policy_many_sizes() -> Found:
    few = {f"{n}": np.linspace(0.9, 0.1, n).round(2).tolist() for n in (6, 5)}
    with patch.object(groups, "FEW", 1):
        return compared(task_of(list(policies()), Abrupt(few, k=2, period=11)), (0,))


def more_checkpoints_than_memory() -> Found:
    with patch.object(batch, "_RECORDS", 3 * 4 * 8 * len(MEASURES)), patch.object(batch, "_FIRST", 1000):
        return compared(task_of(SOME, WORLDS["Abrupt"], every=1))


def more_segments_than_memory() -> Found:
    """Changes at the same steps in all runs; and at different steps, so that some runs get further than others."""
    often = PiecewiseRandom(LEVELS, k=2, n_breakpoints=20, horizon=40, spacing=1, times="geometric")
    with patch.object(batch, "_SEGMENTS", 1), patch.object(batch, "_FIRST", 1000):
        return {
            "together": compared(task_of(SOME, Drift(LEVELS, k=2, period=30, block=1))),
            "apart": compared(task_of(SOME, often)),
        }


def steps_by_and_by() -> Found:
    """A launch takes longer than it should, so the next is shorter."""
    with patch.object(batch, "_WANTED", 0.0):
        return compared(task_of(["CascadeDUCB"], WORLDS["Abrupt"]))


def more_than_a_tile() -> Found:
    """Runs that are not all of a warp's threads, and runs beyond a warp; of warps with all threads and with few."""
    found = {}
    for lanes, runs in ((TILE, 37), (8, 13), (1, 3)):
        with patch.object(run, "_lanes", lambda gpu, runs, lanes=lanes: lanes):
            found[str(lanes)] = compared(
                task_of(["CascadeSWUCB:window=9", "CascadeTS"], WORLDS["Churn"], 12), range(runs)
            )
    return found


def in_blocks() -> Found:
    """The threads of a block at once, as on a GPU, with their parts of the shared memory."""

    def launch(gpu: Gpu, kernel: Any, threads: int, block: int, stream: Any, arguments: Sequence[Any]) -> None:
        held = (device._Held(a._ary) if hasattr(a, "_ary") else a for a in arguments)
        with gpu_forms():
            kernel[-(-threads // block), block](*held)

    with patch.object(Gpu, "launch", launch):
        return compared(task_of(["CascadeSWUCB:window=9", "CascadeKLUCB"], WORLDS["Abrupt"], 12), range(35))


def little_memory() -> Found:
    """Memory for the runs of one tile: the second of two units is cut."""
    task = task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"], 12)
    with patch.object(Gpu, "free", lambda gpu: 1.01 * bytes_of(task, TILE) / run._SHARE):
        return compared(task, range(20))


def bytes_of(task: Task, runs: int) -> int:
    """The memory of a batch of the only policy."""
    (group,) = run.grouped(task, units_of(task))
    program = run.Job.of(task, group).program
    return batch_bytes(program, task.environment.churns, runs, len(task.checkpoints))


class OutOfMemory:
    """Allocations that fail a number of times, with the error of the driver."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.real = batch.allocated

    def __call__(self, count: int, dtype: Any) -> Any:
        if self.left:
            self.left -= 1
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        return self.real(count, dtype)


def out_of_memory_for_a_while() -> Found:
    with patch.object(batch, "allocated", OutOfMemory(3)):
        return compared(task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"]), range(5))


class Memory:
    """A GPU with a number of bytes, whose driver reports more free memory than there is."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.real = batch.allocated

    def __call__(self, count: int, dtype: Any) -> Any:
        size = max(1, count) * np.dtype(dtype).itemsize
        if size > self.left:
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        made = self.real(count, dtype)
        self.left -= size
        weakref.finalize(made, self._returned, size)
        return made

    def _returned(self, size: int) -> None:
        self.left += size


def memory_for_one_batch() -> Found:
    """A batch that does not fit waits for the one before, even if it is a single run."""
    found = {}
    task = task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"], 12)
    for name, runs in {"one run": 1, "a tile": TILE}.items():
        with patch.object(batch, "allocated", Memory(bytes_of(task, runs))), patch.object(run, "_MOST_RUNS", runs):
            found[name] = compared(task, range(2 if runs == 1 else 40))
    return found


def never_enough_memory() -> Found:
    values: Values = {}
    task = task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"])
    with patch.object(batch, "allocated", OutOfMemory(10**9)), patch.object(Gpu, "free", lambda gpu: 12345.0):
        try:
            run.run_on_cuda(task, units_of(task), kept_in(values))
        except MemoryError as error:
            return {"message": str(error), "delivered": len(values)}
    return {"message": "", "delivered": len(values)}


def another_error() -> Found:
    """An error other than a lack of memory is raised."""
    task = task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"])

    def broken(count: int, dtype: Any) -> Any:
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    with patch.object(batch, "allocated", broken):
        try:
            run.run_on_cuda(task, units_of(task), kept_in({}))
        except RuntimeError as error:
            return {"message": str(error)}
    return {"message": ""}


def interrupted() -> Found:
    """Ctrl-C between launches, during the third of four batches."""
    task = task_of(["CascadeSWUCB:window=9"], WORLDS["Abrupt"])
    units = units_of(task, range(6))
    values: Values = {}
    ticked = 0

    def tick(policy: int, steps: int) -> None:
        nonlocal ticked
        ticked += steps
        if ticked > 6.5 * task.horizon:
            raise KeyboardInterrupt

    stopped = False
    with patch.object(run, "_MOST_RUNS", 3), patch.object(run, "_MOST_BATCHES", 1):
        try:
            run.run_on_cuda(task, units, kept_in(values), tick=tick)
        except KeyboardInterrupt:
            stopped = True
    expected = on_cpu(task, units)
    return {
        "stopped": stopped,
        "delivered": sorted([query, number] for _, query, number in values),
        "different": [key for key in values if not np.array_equal(values[key], expected[key])],
    }


def odd_runs_and_one_step() -> Found:
    """The remaining runs of a simulation that was stopped, and the shortest simulation."""
    return {
        "odd runs": compared(task_of(SOME, WORLDS["Abrupt"]), [11, 3, 4000]),
        "one step": compared(task_of(SOME, WORLDS["Abrupt"], horizon=1)),
    }


def nothing_to_do() -> Found:
    task = task_of(SOME, WORLDS["Abrupt"])
    run.run_on_cuda(task, [], kept_in({}))
    return {}


def threads_and_gpu() -> Found:
    """The same numbers with one thread, with two, and on a GPU."""
    specs = [
        "CascadeDUCB",
        "CascadeSWUCB:window=20",
        "CascadeKLUCB",
        "CascadeTS",
        "GLRTCascadeKLUCB",
        "CascadeRegimeTS",
    ]
    task = task_of(specs, WORLDS["Abrupt"], horizon=90)
    units = units_of(task, range(3))
    gpu: Values = {}
    run.run_on_cuda(task, units, kept_in(gpu))
    one, two = on_cpu(task, units, 1), on_cpu(task, units, 2)
    return {
        spec: [v[key] == one[key] for v in (two, gpu) for key in one if key[0] == p] for p, spec in enumerate(specs)
    }


def by_simulate() -> Found:
    """From ``driftrank.simulate`` on."""
    import driftrank as dr

    def simulated(where: str) -> Any:
        options = {"horizon": 60, "runs": 3, "checkpoints": 6, "progress": False}
        return dr.simulate(["CascadeDUCB", "Random"], WORLDS["Abrupt"], device=where, **options)

    gpu, cpu = simulated("cuda"), simulated("cpu")
    return {"device": gpu.device, "same": bool(np.array_equal(gpu.values, cpu.values)), "seconds": gpu.seconds}


CASES = [
    policies_of_every_kind, every_policy, alarms, every_environment, every_click_model, a_grid, several_sizes,
    many_sizes, every_policy_many_sizes, more_checkpoints_than_memory,
    more_segments_than_memory, steps_by_and_by, more_than_a_tile, in_blocks, little_memory, out_of_memory_for_a_while,
    memory_for_one_batch, never_enough_memory, another_error, interrupted, odd_runs_and_one_step, nothing_to_do,
    threads_and_gpu, by_simulate,
]  # fmt: skip


def main(names: list[str]) -> None:
    """Print the results of the named cases, or of all."""
    assert simulated(), "NUMBA_ENABLE_CUDASIM=1 must be set"
    real = Gpu.launch

    def launch(*arguments: Any) -> None:
        with gpu_forms():
            real(*arguments)

    Gpu.launch = launch  # type: ignore[method-assign]
    batch._WANTED = 1e9  # launches as long as possible: time on the simulator means nothing
    sys.setswitchinterval(0.001)  # it polls threads in a loop, which keeps them from running
    found: Found = {"environments": sorted({type(world).__name__ for world in WORLDS.values()})}
    for case in (case for case in CASES if not names or case.__name__ in names):
        try:
            found[case.__name__] = case()
        except Exception:
            found[case.__name__] = {"error": traceback.format_exc()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
