"""Run functions on many machines: joblib with its Dask backend, on an existing cluster or a temporary local one."""

from __future__ import annotations

import hashlib
import importlib
import json
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from driftrank import __version__
from driftrank.engine.cluster.local_workers import local_cluster
from driftrank.extras import need
from driftrank.plugins import imported_modules
from driftrank.validation import check_integer

Task = TypeVar("Task")
Result = TypeVar("Result")

#: the digest of a value, and its pickle or a Dask future of it
Shared = tuple[bytes, Any]

#: seconds to wait for a scheduler
PATIENCE = 5.0


class NoWorkers(UserWarning):
    """A cluster that has no workers yet."""


class Cluster:
    """A Dask cluster, to be used in a ``with`` statement. Results do not depend on the cluster.

    Parameters
    ----------
    address
        Address of the scheduler of a running cluster, such as ``"tcp://10.0.0.7:8786"``.
    scheduler_file
        Instead, the file to which the scheduler has written its address, as ``dask scheduler``, ``dask-mpi`` and
        ``dask-jobqueue`` do on SLURM and similar systems. With neither, worker processes are started on this machine
        and stopped at the end.
    workers
        Number of processes to start; None: one per core.
    backend
        Another joblib backend by its registered name, such as ``"loky"``, which starts processes on this machine, or
        ``"ray"`` after ``ray.util.joblib.register_ray()``. Lost workers are then handled by that backend.

    Examples
    --------
    A script that starts worker processes must do so below ``if __name__ == "__main__":``. ::

        result = dr.simulate(policies, environment, horizon=100_000, device=Cluster("10.0.0.7:8786"))

        with Cluster(workers=2) as cluster:
            for index, result in cluster.map(function, tasks):
                ...
    """

    def __init__(
        self,
        address: str | None = None,
        scheduler_file: str | None = None,
        workers: int | None = None,
        backend: str = "dask",
    ) -> None:
        if sum(given is not None for given in (address, scheduler_file, workers)) > 1:
            raise ValueError(
                f"address={address!r}, scheduler_file={scheduler_file!r}, workers={workers!r}: at most one can be given"
            )
        if backend != "dask" and (address or scheduler_file):
            raise ValueError(f"address={address or scheduler_file!r}: is an address of Dask, but backend={backend!r}")
        if workers is not None:
            check_integer("workers", workers, 1)
        self.address, self.scheduler_file, self.workers, self.backend = address, scheduler_file, workers, backend
        self.is_open = False
        self.client: Any = None  #: Dask's client
        self._open = ExitStack()
        self._config: dict[str, Any] = {}

    def __enter__(self) -> Self:
        joblib = _module("joblib")
        if self.backend != "dask":
            with joblib.parallel_config(self.backend):  # fails if no backend has this name
                self._config = {"backend": self.backend, "n_jobs": -1 if self.workers is None else self.workers}
        else:
            with ExitStack() as stack:  # closes what is open if the rest fails
                self.client = self._connected(stack)
                self._config = {"backend": "dask", "client": self.client, "n_jobs": -1}
                self._open = stack.pop_all()
        self.is_open = True
        return self

    def _connected(self, stack: ExitStack) -> Any:
        distributed, dask = _module("distributed"), _module("dask")
        if self.address is None and self.scheduler_file is None:
            where = stack.enter_context(local_cluster(self.workers))
        else:
            where = self.address or _address_in(Path(self.scheduler_file or ""))
        patience = min(PATIENCE, dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect")))
        try:
            client = stack.enter_context(distributed.Client(where, timeout=patience, set_as_default=False))
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"no Dask scheduler answers at {where!r} ({error})") from None
        # a worker that cannot unpickle a task dies, and reports that only in its own log
        there = client.run(eval, "__import__('driftrank').__version__", on_error="return")
        for worker, version in there.items():
            if version != __version__:
                has = f"driftrank {version}" if isinstance(version, str) else f"no driftrank ({version})"
                raise ValueError(f"the worker {worker} has {has}, but this process has {__version__}: must be the same")
        if not there:
            warnings.warn(f"the cluster at {where} has no workers yet; waiting for some", NoWorkers, stacklevel=3)
        return client

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.is_open, self.client = False, None
        self._open.close()

    @property
    def size(self) -> int:
        """The number of tasks that its present workers run at a time."""
        if not self.is_open:
            return 0
        if self.client is not None:
            return sum(self.client.nthreads().values())
        joblib = _module("joblib")
        with joblib.parallel_config(**self._config):
            return int(joblib.effective_n_jobs(None))

    def share(self, value: object) -> Shared:
        """Share a large value among tasks: every worker receives it once.

        Tasks of :meth:`map` receive a pair: a digest, to cache it by, and its pickle.
        """
        cloudpickle = _module("cloudpickle")
        for module in imported_modules():
            cloudpickle.register_pickle_by_value(module)
        pickled = cloudpickle.dumps(value)
        digest = hashlib.blake2b(pickled, digest_size=16).digest()
        if self.client is None:
            return digest, pickled
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            # the result of a task is computed again if the worker that holds it is lost; scattered data is not
            return digest, self.client.submit(_itself, pickled, key=f"shared-{uuid.uuid4().hex}")

    def map(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Generator[tuple[int, Result], None, None]:
        """Call a function with every task; yields the tasks' numbers and results as they complete.

        Function, tasks and results are pickled. A task whose worker is lost starts again on another. An error in the
        function is raised here, and tasks that have not begun are dropped. Raises ``ConnectionError`` if the scheduler
        is lost, or every worker that was assigned one of the tasks.
        """
        if not self.is_open:
            raise ValueError("the cluster is not open: use it in a with statement")
        joblib = _module("joblib")
        with joblib.parallel_config(**self._config) as active:
            if self.client is not None:
                _mend(active["backend"])
            # tasks are long: send them one by one, and all at once, for workers that join later
            parallel = joblib.Parallel(batch_size=1, pre_dispatch="all", return_as="generator_unordered")
            results = parallel(joblib.delayed(_call)((function, i, task)) for i, task in enumerate(tasks))
        client = self.client
        distributed = None if client is None else _module("distributed")
        gone, killed = (distributed.CancelledError, distributed.scheduler.KilledWorker) if distributed else ((), ())
        try:
            for result in results:  # noqa: UP028, since `yield from` would close them by itself, with a warning
                yield result
        except gone:
            raise ConnectionError("the cluster is lost: its scheduler is gone") from None
        except killed as error:
            times = error.allowed_failures + 1
            raise ConnectionError(f"{times} workers of the cluster died at the same task; see their logs") from None
        except ImportError as error:
            raise ImportError(f"on a worker of the cluster: {error}", name=error.name) from None
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # not all results were taken
                results.close()
            if distributed is not None and client.status == "running":
                waiting = [key for key in list(client.futures) if str(key).startswith(f"batch_of_{_call.__name__}")]
                client.cancel([distributed.Future(key, client) for key in waiting])


def _mend(backend: Any) -> None:
    """Change two functions of joblib's Dask backend."""
    # it would wait 10 s for workers, and with a single worker run the tasks in this process
    backend.effective_n_jobs = lambda n_jobs: 2
    name = "submit" if hasattr(backend, "submit") else "apply_async"  # its name before joblib 1.5
    submit = getattr(backend, name)

    def submit_with_errors(function: Any, callback: Any = None) -> Any:
        """Report tasks that Dask has given up: the backend would wait for them forever."""
        future = submit(function, callback)
        future.add_done_callback(lambda f: f.exception() is not None and callback(f.exception()))
        return future

    setattr(backend, name, submit_with_errors)


def _call(job: tuple[Callable[[Task], Result], int, Task]) -> tuple[int, Result]:
    # one tuple: joblib would scatter a large argument to one worker, and lose it with the worker
    function, i, task = job
    return i, function(task)


def _itself(value: bytes) -> bytes:
    return value


def _address_in(file: Path) -> str:
    """The address that a scheduler has written to a file, or is about to."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            address = json.loads(file.read_text(encoding="utf-8"))["address"]
            return str(address)
        except (OSError, ValueError, KeyError, TypeError) as error:
            if time.monotonic() > deadline:
                reason = error.strerror if isinstance(error, OSError) else "it has no address"
                raise ValueError(f"scheduler_file={str(file)!r}: cannot be read ({reason})") from None
        time.sleep(0.1)


def _module(name: str) -> Any:
    need("cluster", name)
    return importlib.import_module(name)
