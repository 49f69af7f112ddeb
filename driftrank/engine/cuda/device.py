"""The GPU at hand, or numba's simulator of one: memory, streams, launches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from driftrank.engine.cuda.views import simulated

#: of CUDA, or of what a GPU can do
Version = tuple[int, int]
#: what a GPU must be able to do, at least
CAPABILITY: Version = (7, 0)
_OLDER = "pip install 'driftrank[cuda12]'"


class NoGpu(RuntimeError):
    """There is no GPU that can be used; says why."""


@dataclass(frozen=True)
class _Held:
    """Memory of the simulator, as kernels see it."""

    array: NDArray[Any]


class Gpu:
    """The first GPU of this machine."""

    def __init__(self) -> None:
        self.simulated = simulated()
        try:
            self._context = cuda.current_context()
            versions = () if self.simulated else _versions()
        except Exception as error:  # driver or toolkit is missing, too old, or has no device: each has its own words
            reason = " ".join(str(error).split()).strip(" .:")
            raise NoGpu(f"no CUDA GPU can be used ({reason})") from None
        device = self._context.device
        self.capability: Version = tuple(device.compute_capability)[:2]
        self.name = "numba's CUDA simulator" if self.simulated else _text(device.name)
        #: how many groups of threads it works on at a time
        self.processors: int = 0 if self.simulated else device.MULTIPROCESSOR_COUNT
        obstacle = None if self.simulated else obstacle_to(self.capability, *versions)
        if obstacle is not None:
            raise NoGpu(f"{self.name}: {obstacle}")

    def free(self) -> float:
        """Bytes of memory that nobody uses."""
        return float(self._context.get_memory_info()[0])

    def load(self, template: Any, bindings: Mapping[str, Any], code: os.PathLike[str] | None) -> Any:
        """A kernel that :meth:`launch` takes; ``code`` is the file with its machine code, where there is a GPU."""
        if self.simulated:
            return cuda.jit(FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__))
        from cuda.core import ObjectCode

        with open(os.fspath(code), "rb") as file:  # type: ignore[arg-type]
            return ObjectCode.from_cubin(file.read()).get_kernel(template.__name__)

    def launch(self, kernel: Any, threads: int, block: int, stream: Any, arguments: Sequence[Any]) -> None:
        """Start a kernel, behind what was started on the stream before."""
        blocks = -(-threads // block)
        if self.simulated:
            # one thread at a time: ours do not wait for each other
            kernel[threads, 1](*(_Held(a._ary) if hasattr(a, "_ary") else a for a in arguments))
            return
        from cuda.core import LaunchConfig, launch

        launch(stream, LaunchConfig(grid=blocks, block=block), kernel, *map(_argument, arguments))


def _versions() -> tuple[Version, Version, list[Version]]:
    """Of the driver and of the toolkit, and the capabilities that the latter compiles for."""
    from numba.cuda.cudadrv import driver, nvrtc

    return driver.driver.get_version(), cuda.runtime.get_version(), nvrtc.get_supported_ccs()


def obstacle_to(capability: Version, driver: Version, toolkit: Version, served: Sequence[Version]) -> str | None:
    """Why a GPU of a compute capability cannot be used; None: it can.

    ``driver`` and ``toolkit`` are the versions of CUDA that its driver and its compiler are of, ``served`` the
    capabilities that the compiler knows.
    """
    has = "has compute capability {}.{}".format(*capability)
    if capability < CAPABILITY:
        return "{}, and {}.{} is needed".format(has, *CAPABILITY)
    if driver[0] < toolkit[0]:
        return "its driver is of CUDA {}.{}, the compiler of {}.{}: ".format(*driver, *toolkit) + _OLDER
    if capability < min(served):
        return "{}, which CUDA {}.{} serves no more: ".format(has, *toolkit) + _OLDER
    if capability not in served:
        return "{}, which CUDA {}.{} does not know: a newer numba-cuda may".format(has, *toolkit)
    return None


def _argument(value: Any) -> int:
    return value if isinstance(value, int) else int(value.__cuda_array_interface__["data"][0])


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def is_finished(event: Any) -> bool:
    """Whether what was started before an event has ended; on the simulator it always has."""
    query = getattr(event, "query", None)
    return True if query is None else bool(query())


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that the GPU has not enough memory left."""
    return isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error).upper()


def room_for(count: int, dtype: Any) -> Any:
    """Memory of the GPU."""
    return cuda.device_array(max(1, count), dtype)


def sent(array: NDArray[Any]) -> Any:
    """A copy in the memory of the GPU."""
    return cuda.to_device(np.ascontiguousarray(array).ravel() if array.size else np.zeros(1, array.dtype))
