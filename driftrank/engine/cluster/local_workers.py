"""Worker processes on this machine: started together, deaf to Ctrl-C, silent, and stopped at once."""

from __future__ import annotations

import importlib
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: preloaded by every worker; at the end, unfinished work is dropped
_WORKER = """import logging, os
logging.getLogger("distributed").setLevel(logging.ERROR)
def dask_teardown(worker):
    os._exit(0)
"""

#: monitoring at longer intervals, since it shares the cores (two processes: 2% of a core instead of 9.5%)
_SELDOM = {
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
}


def local_cluster(workers: int | None) -> Any:
    """A Dask cluster of ``workers`` processes (None: one per core); its ``close`` stops them."""
    with ThreadPoolExecutor(1) as pool:
        # in a thread: if interrupted while starting, Dask would leave some of them behind
        starting = pool.submit(_start, workers)
        try:
            return starting.result()
        except KeyboardInterrupt:
            starting.result().close()
            raise


def _start(workers: int | None) -> Any:
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        # Ctrl-C in a terminal also reaches workers, which inherit from this thread that SIGINT is blocked
        resource_tracker.ensure_running()  # otherwise it is started with the first of them, and unblocks the signal
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # it would report lost workers even after all were stopped
    logging.getLogger("distributed.batched").setLevel(logging.ERROR)
    with importlib.import_module("dask").config.set(_SELDOM):
        return importlib.import_module("distributed").LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, preload=[_WORKER], silence_logs=logging.ERROR,
            dashboard_address="127.0.0.1:0",  # any free port, for a second cluster
        )  # fmt: skip
