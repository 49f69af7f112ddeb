"""The engine on an NVIDIA GPU: every run has a thread, and all of them the same kernels as everywhere."""

import driftrank.kernels.old_names  # noqa: F401, I001 - before numba.cuda

from driftrank.engine.cuda.device import Gpu, NoGpu
from driftrank.engine.cuda.run import run_on_cuda

__all__ = ["Gpu", "NoGpu", "run_on_cuda"]
