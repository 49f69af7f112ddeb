"""The GPU of this machine, or numba's simulator of one: memory and launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from driftrank.engine.cuda.views import simulated

#: of CUDA, or of a compute capability
Version = tuple[int, int]
#: the lowest compute capability that is supported
CAPABILITY: Version = (7, 0)
_OLDER = "pip install 'driftrank[cuda12]'"


class NoGpu(RuntimeError):
    """No GPU can be used; the message gives the reason."""


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
        except Exception as error:  # driver or toolkit missing or too old, no device: each with its own error
            reason = " ".join(str(error).split()).strip(" .:")
            raise NoGpu(f"no CUDA GPU can be used ({reason})") from None
        device = self._context.device
        self.capability: Version = tuple(device.compute_capability)[:2]
        self.name = "numba's CUDA simulator" if self.simulated else _text(device.name)
        #: the number of multiprocessors
        self.processors: int = 0 if self.simulated else device.MULTIPROCESSOR_COUNT
        obstacle = None if self.simulated else obstacle_to(self.capability, *versions)
        if obstacle is not None:
            raise NoGpu(f"{self.name}: {obstacle}")

    def free(self) -> float:
        """Free memory in bytes."""
        return float(self._context.get_memory_info()[0])

    def load(self, template: Any, bindings: Mapping[str, Any], code: bytes) -> Any:
        """A kernel for :meth:`launch`; ``code`` is its machine code, unused on the simulator."""
        if self.simulated:
            return cuda.jit(FunctionType(template.__code__, {**template.__globals__, **bindings}, template.__name__))
        from cuda.core import ObjectCode

        return ObjectCode.from_cubin(code).get_kernel(template.__name__)

    def launch(self, kernel: Any, threads: int, block: int, stream: Any, arguments: Sequence[Any]) -> None:
        """Start a kernel after those started on the stream before."""
        blocks = -(-threads // block)
        if self.simulated:
            # one thread at a time: ours do not synchronise
            kernel[threads, 1](*(_Held(a._ary) if hasattr(a, "_ary") else a for a in arguments))
            return
        from cuda.core import LaunchConfig, launch

        launch(stream, LaunchConfig(grid=blocks, block=block), kernel, *map(_argument, arguments))


def _versions() -> tuple[Version, Version, list[Version]]:
    """Versions of driver and toolkit, and the capabilities that the toolkit compiles for."""
    from numba.cuda.cudadrv import driver, nvrtc

    return driver.driver.get_version(), cuda.runtime.get_version(), nvrtc.get_supported_ccs()


def obstacle_to(capability: Version, driver: Version, toolkit: Version, served: Sequence[Version]) -> str | None:
    """The reason why a GPU of a compute capability cannot be used, or None.

    ``driver`` and ``toolkit`` are CUDA versions of driver and compiler, ``served`` the capabilities that the compiler
    supports.
    """
    has = "has compute capability {}.{}".format(*capability)
    if capability < CAPABILITY:
        return "{}, but {}.{} is required".format(has, *CAPABILITY)
    if driver[0] < toolkit[0]:
        return "its driver supports CUDA {}.{}, but the compiler is of CUDA {}.{}: ".format(*driver, *toolkit) + _OLDER
    if capability < min(served):
        return "{}, which CUDA {}.{} no longer supports: ".format(has, *toolkit) + _OLDER
    if capability not in served:
        return "{}, which CUDA {}.{} does not support: a newer numba-cuda may".format(has, *toolkit)
    return None


def _argument(value: Any) -> int:
    return value if isinstance(value, int) else int(value.__cuda_array_interface__["data"][0])


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def is_finished(event: Any) -> bool:
    """True if everything started before the event has ended; always on the simulator."""
    query = getattr(event, "query", None)
    return True if query is None else bool(query())


def out_of_memory(error: Exception) -> bool:
    """True if the error means that the GPU has too little free memory."""
    return isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error).upper()


def allocated(count: int, dtype: Any) -> Any:
    """A new array in the memory of the GPU."""
    return cuda.device_array(max(1, count), dtype)


def sent(array: NDArray[Any]) -> Any:
    """A copy in the memory of the GPU."""
    return cuda.to_device(np.ascontiguousarray(array).ravel() if array.size else np.zeros(1, array.dtype))
