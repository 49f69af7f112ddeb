"""Worker processes on this machine: they start as a whole, leave Ctrl-C to us, say nothing, and end at once."""

from __future__ import annotations

import importlib
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: what every worker is told. When it is to end, nobody waits any more for what it does.
_WORKER = """import logging, os
logging.getLogger("distributed").setLevel(logging.ERROR)
def dask_teardown(worker):
    os._exit(0)
"""

#: what processes do besides, less often: they share their cores with it (9.5% of a core for two of them, else 2%)
_SELDOM = {
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
}


def local_cluster(workers: int | None) -> Any:
    """A Dask cluster of so many processes, or one for each core; its ``close`` stops them."""
    with ThreadPoolExecutor(1) as pool:
        # in a thread: interrupted in the midst, Dask would leave some of them behind
        starting = pool.submit(_start, workers)
        try:
            return starting.result()
        except KeyboardInterrupt:
            starting.result().close()
            raise


def _start(workers: int | None) -> Any:
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        # Ctrl-C in a terminal reaches workers, too, which inherit from this thread that they do not hear it
        resource_tracker.ensure_running()  # else it is started with the first of them, and turns that off again
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # would say that a worker has gone, even after all were stopped
    logging.getLogger("distributed.batched").setLevel(logging.ERROR)
    with importlib.import_module("dask").config.set(_SELDOM):
        return importlib.import_module("distributed").LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, preload=[_WORKER], silence_logs=logging.ERROR,
            dashboard_address="127.0.0.1:0",  # any port, so that a second cluster finds one too
        )  # fmt: skip
