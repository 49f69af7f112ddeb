"""Work on many machines: joblib with its Dask backend, on a cluster that is there or on one started for the while."""

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
from driftrank.engine.local import local_cluster
from driftrank.validation import check_integer

Task = TypeVar("Task")
Result = TypeVar("Result")

#: the digest and the pickle of a value
Shared = tuple[bytes, Any]

#: seconds to wait for a scheduler
PATIENCE = 5.0


class NoWorkers(UserWarning):
    """A cluster that is there, but does nothing yet."""


class Cluster:
    """A Dask cluster, to be used in a ``with`` statement. Results do not depend on which it is.

    Parameters
    ----------
    address
        Of the scheduler of a cluster that is running, such as ``"tcp://10.0.0.7:8786"``.
    scheduler_file
        Instead, the file in which such a scheduler has put its address: what ``dask scheduler``, ``dask-mpi`` and
        ``dask-jobqueue`` write on SLURM and the like. With neither, worker processes are started on this machine, and
        stopped at the end.
    workers
        How many to start; None: one for each core.
    backend
        Another backend of joblib by the name it is registered under, such as ``"loky"``, which starts processes on this
        machine, or ``"ray"`` after ``ray.util.joblib.register_ray()``. What becomes of a lost worker is up to it.

    Examples
    --------
    In a script, where worker processes are started, all of this stands below ``if __name__ == "__main__":``. ::

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
            raise ValueError(f"address={address or scheduler_file!r}: is of Dask, and the backend is {backend!r}")
        if workers is not None:
            check_integer("workers", workers, 1)
        self.address, self.scheduler_file, self.workers, self.backend = address, scheduler_file, workers, backend
        self.is_open = False
        self.client: Any = None  #: of Dask
        self._open = ExitStack()
        self._config: dict[str, Any] = {}

    def __enter__(self) -> Self:
        joblib = _module("joblib")
        if self.backend != "dask":
            with joblib.parallel_config(self.backend):  # fails where there is none of that name
                self._config = {"backend": self.backend, "n_jobs": -1 if self.workers is None else self.workers}
        else:
            with ExitStack() as stack:  # closes what was opened if the rest fails
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
        # a worker that lacks what it is sent dies of it, and says so only in its own log
        there = client.run(eval, "__import__('driftrank').__version__", on_error="return")
        for worker, version in there.items():
            if version != __version__:
                has = f"driftrank {version}" if isinstance(version, str) else f"no driftrank ({version})"
                raise ValueError(f"the worker {worker} has {has}; here is {__version__}, and all must have the same")
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
        """How many tasks it runs at a time, with the workers that it has now."""
        if not self.is_open:
            return 0
        if self.client is not None:
            return sum(self.client.nthreads().values())
        joblib = _module("joblib")
        with joblib.parallel_config(**self._config):
            return int(joblib.effective_n_jobs(None))

    def share(self, value: object) -> Shared:
        """A large value that many tasks hold: every worker gets it once.

        It reaches tasks of :meth:`map` as a pair: a digest, by which to remember it, and its pickle.
        """
        pickled = _module("cloudpickle").dumps(value)
        digest = hashlib.blake2b(pickled, digest_size=16).digest()
        if self.client is None:
            return digest, pickled
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            # the result of a task can be had again when the worker that holds it is lost; what was merely put there not
            return digest, self.client.submit(_itself, pickled, key=f"shared-{uuid.uuid4().hex}")

    def map(
        self, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Generator[tuple[int, Result], None, None]:
        """Call a function with every task; yields the tasks' numbers and results as they come.

        Function, tasks and results are pickled. A task whose worker is lost starts again on another one; an error in
        the function is raised here, and what had not begun by then is dropped. ``ConnectionError``: the scheduler is
        gone, or every worker that was given one of the tasks.
        """
        if not self.is_open:
            raise ValueError("the cluster is not open: use it in a with statement")
        joblib = _module("joblib")
        with joblib.parallel_config(**self._config) as active:
            if self.client is not None:
                _mend(active["backend"])
            # tasks are long, so they are sent one by one, and at once, for workers that are still to come
            parallel = joblib.Parallel(batch_size=1, pre_dispatch="all", return_as="generator_unordered")
            results = parallel(joblib.delayed(_call)((function, i, task)) for i, task in enumerate(tasks))
        client = self.client
        distributed = None if client is None else _module("distributed")
        gone, killed = (distributed.CancelledError, distributed.scheduler.KilledWorker) if distributed else ((), ())
        try:
            for result in results:  # noqa: UP028, since `yield from` would close them by itself, with a warning
                yield result
        except gone:
            raise ConnectionError("the cluster is lost: its scheduler has gone") from None
        except killed as error:
            times = error.allowed_failures + 1
            raise ConnectionError(
                f"{times} workers of the cluster died at the same task; their logs may tell why"
            ) from None
        except ImportError as error:
            raise ImportError(f"on a worker of the cluster: {error}", name=error.name) from None
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that not all results were taken
                results.close()
            if distributed is not None and client.status == "running":
                waiting = [key for key in list(client.futures) if str(key).startswith(f"batch_of_{_call.__name__}")]
                client.cancel([distributed.Future(key, client) for key in waiting])


def _mend(backend: Any) -> None:
    """What joblib's backend for Dask does not do as we need it."""
    # it would wait 10 s for workers, and on a cluster of one worker do the work here
    backend.effective_n_jobs = lambda n_jobs: 2
    name = "submit" if hasattr(backend, "submit") else "apply_async"  # which it was before joblib 1.5
    submit = getattr(backend, name)

    def submit_and_hear(function: Any, callback: Any = None) -> Any:
        """It is not told of tasks that Dask has given up, and would wait for them for ever."""
        future = submit(function, callback)
        future.add_done_callback(lambda f: f.exception() is not None and callback(f.exception()))
        return future

    setattr(backend, name, submit_and_hear)


def _call(job: tuple[Callable[[Task], Result], int, Task]) -> tuple[int, Result]:
    # one tuple: joblib would put a large argument on one worker, and it would be lost with it
    function, i, task = job
    return i, function(task)


def _itself(value: bytes) -> bytes:
    return value


def _address_in(file: Path) -> str:
    """What a scheduler has written to a file, or is about to."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            address = json.loads(file.read_text(encoding="utf-8"))["address"]
            return str(address)
        except (OSError, ValueError, KeyError, TypeError) as error:
            if time.monotonic() > deadline:
                reason = error.strerror if isinstance(error, OSError) else "it does not tell an address"
                raise ValueError(f"scheduler_file={str(file)!r}: cannot be read ({reason})") from None
        time.sleep(0.1)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'driftrank[cluster]'") from None
