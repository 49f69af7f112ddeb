"""Devices: the cores of this machine, its GPU, or a cluster. Results do not depend on the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from driftrank.engine.cluster.cluster import Cluster
from driftrank.engine.compiling import Note
from driftrank.engine.cpu import Done, cores, run_on_cpu
from driftrank.engine.task import Task, Unit
from driftrank.environments.base import Environment
from driftrank.extras import need
from driftrank.validation import check_choice

DEVICES = ("cpu", "cuda", "cluster")

#: steps of a unit: few enough to distribute and to lose, enough for no overhead; None: all runs of a query
UNIT_STEPS: dict[str, int | None] = {"cpu": 2_000_000, "cuda": None, "cluster": 1_000_000}


class NoGpuWarning(UserWarning):
    """The CPU is used although a GPU was requested."""


#: one of :data:`DEVICES`, or a cluster, which need not be open
Device = str | Cluster


def word_for(device: Device) -> str:
    """The name of a device, one of :data:`DEVICES`."""
    if isinstance(device, Cluster):
        return "cluster"
    check_choice("device", device, DEVICES)
    return device


def unit_runs(device: Device, task: Task, runs: int) -> int:
    """The most runs of a unit, given those of a query."""
    steps = UNIT_STEPS[word_for(device)]
    if task.environment.traffic:
        return 1
    return runs if steps is None else max(1, steps // task.horizon)


def suited(device: Device, environment: Environment) -> Device:
    """The device if it can run an environment, otherwise ``"cpu"``, with a warning."""
    if word_for(device) == "cuda" and environment.traffic:
        name = type(environment).__name__
        warnings.warn(f"device='cuda': {name} runs on the CPU only; the numbers are the same", NoGpuWarning, 4)
        return "cpu"
    return device


@contextmanager
def ready(device: Device) -> Iterator[Device]:
    """Prepare a device to run units, so that errors of the device occur here. A cluster is opened and closed again;
    one that is already open stays open. Without a GPU, ``"cuda"`` becomes ``"cpu"`` with a warning."""
    word = word_for(device)
    reason = _no_gpu() if word == "cuda" else None
    if reason is not None:
        warnings.warn(f"device='cuda': {reason}; computing on the CPU, with the same numbers", NoGpuWarning, 4)
        device = word = "cpu"
    if word != "cluster" or (isinstance(device, Cluster) and device.is_open):
        yield device
    else:
        with device if isinstance(device, Cluster) else Cluster() as cluster:
            yield cluster


def at_once(device: Device, threads: int | None = None) -> int:
    """The number of units that a ready device runs at a time."""
    if isinstance(device, Cluster):
        return max(1, device.size)
    return threads or cores() if device == "cpu" else 1


def run_on(
    device: Device,
    task: Task,
    units: Iterable[Unit],
    done: Done,
    *,
    threads: int | None = None,
    tick: Callable[[int, int], None] = lambda policy, steps: None,
    note: Note = lambda text: None,
) -> None:
    """Run units on a device that is ready; ``done`` is called in this thread with every finished unit.

    ``tick`` is called with a policy and the number of steps done. For ``"cpu"``: ``threads``, and ``note``, which is
    called with what is compiled.
    """
    if isinstance(device, Cluster):
        from driftrank.engine.cluster.run import run_on_cluster

        run_on_cluster(task, units, done, cluster=device, tick=tick)
    elif device == "cuda":
        from driftrank.engine.cuda import run_on_cuda

        run_on_cuda(task, units, done, tick=tick)
    else:
        run_on_cpu(task, units, done, threads=threads, tick=tick, note=note)


def _no_gpu() -> str | None:
    """The reason why no GPU can be used, or None."""
    try:
        need("cuda", "numba_cuda")
        from driftrank.engine.cuda import Gpu, NoGpu
    except ImportError as error:
        return str(error)
    try:
        Gpu()
    except NoGpu as error:
        return str(error)
    return None
