"""Where to compute: on the cores of this machine, on its GPU, or on many machines. No number depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from driftrank.engine.cluster import Cluster
from driftrank.engine.cpu import Done, cores, run_on_cpu
from driftrank.engine.unit import Task, Unit
from driftrank.validation import check_choice

DEVICES = ("cpu", "cuda", "cluster")

#: steps of a unit: small enough to share out and to lose, large enough to cost nothing; None: all runs of a query
UNIT_STEPS: dict[str, int | None] = {"cpu": 2_000_000, "cuda": None, "cluster": 1_000_000}


class NoGpuWarning(UserWarning):
    """The CPU computes what a GPU was asked to."""


#: one of the words, or a cluster, which need not be open
Device = str | Cluster


def word_for(device: Device) -> str:
    """What a device is called."""
    if isinstance(device, Cluster):
        return "cluster"
    check_choice("device", device, DEVICES)
    return device


def unit_steps(device: Device) -> int | None:
    """How many steps a unit should hold at most; None: all runs of a query."""
    return UNIT_STEPS[word_for(device)]


@contextmanager
def ready(device: Device) -> Iterator[Device]:
    """The device, ready to run units: what can be wrong with it is found here. A cluster is opened for the while;
    one that is open already stays open. Where there is no GPU, the CPU stands in for it."""
    word = word_for(device)
    lack = _no_gpu() if word == "cuda" else None
    if lack is not None:
        warnings.warn(f"device='cuda': {lack}; computing on the CPU, with the same numbers", NoGpuWarning, 4)
        device = word = "cpu"
    if word != "cluster" or (isinstance(device, Cluster) and device.is_open):
        yield device
    else:
        with device if isinstance(device, Cluster) else Cluster() as cluster:
            yield cluster


def at_once(device: Device, threads: int | None = None) -> int:
    """How many units a device that is ready runs at a time."""
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
) -> None:
    """Run units on a device; ``done`` is called, in this thread, with every unit that is finished.

    ``tick`` hears of the steps that a policy has done; ``threads`` are those of ``"cpu"``.
    """
    with ready(device) as place:
        if isinstance(place, Cluster):
            from driftrank.engine.remote import run_on_cluster

            run_on_cluster(task, units, done, cluster=place, tick=tick)
        elif place == "cuda":
            from driftrank.engine.cuda import run_on_cuda

            run_on_cuda(task, units, done, tick=tick)
        else:
            run_on_cpu(task, units, done, threads=threads, tick=tick)


def _no_gpu() -> str | None:
    """Why there is no GPU to compute on; None where there is one."""
    try:
        from driftrank.engine.cuda import Gpu, NoGpu
    except ImportError as error:
        return f"{error}: pip install 'driftrank[cuda]'"
    try:
        Gpu()
    except NoGpu as error:
        return str(error)
    return None
