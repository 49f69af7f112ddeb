"""The engine on an NVIDIA GPU: one thread per run, with the same kernels as on the CPU."""

import driftrank.kernels.numpy_compat  # noqa: F401, I001 - before numba.cuda

from driftrank.engine.cuda.device import Gpu, NoGpu
from driftrank.engine.cuda.run import run_on_cuda

__all__ = ["Gpu", "NoGpu", "run_on_cuda"]
