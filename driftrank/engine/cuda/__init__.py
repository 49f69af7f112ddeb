"""The engine on an NVIDIA GPU: every run has a thread, and all of them the same kernels as everywhere."""

from driftrank.engine.cuda.device import Gpu, NoGpu
from driftrank.engine.cuda.run import run_on_cuda

__all__ = ["Gpu", "NoGpu", "run_on_cuda"]
