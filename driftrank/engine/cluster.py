"""Work on many machines: joblib with its Dask backend, on a cluster that is there or on one started for the while."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

from driftrank.validation import check_integer

Task = TypeVar("Task")
Result = TypeVar("Result")


class Cluster:
    """A Dask cluster, to be used in a ``with`` statement. Results do not depend on which it is.

    Parameters
    ----------
    address
        Of the scheduler of a cluster that is running, such as ``"tcp://10.0.0.7:8786"``.
    scheduler_file
        Instead, the file in which such a scheduler has put its address: what ``dask-mpi`` and ``dask-jobqueue`` write
        on SLURM and the like. With neither, worker processes are started on this machine, and stopped at the end.
    workers
        How many to start; None: one for each core.

    Examples
    --------
    ::

        with Cluster(workers=2) as cluster:
            for index, result in cluster.map(function, tasks):
                ...
    """

    def __init__(
        self, address: str | None = None, scheduler_file: str | None = None, workers: int | None = None
    ) -> None:
        if sum(given is not None for given in (address, scheduler_file, workers)) > 1:
            raise ValueError(
                f"address={address!r}, scheduler_file={scheduler_file!r}, workers={workers!r}: at most one can be given"
            )
        if workers is not None:
            check_integer("workers", workers, 1)
        self.address, self.scheduler_file, self.workers = address, scheduler_file, workers
        self._open = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Self:
        distributed, _ = _modules()
        with ExitStack() as stack:  # closes what was opened if the rest fails
            there: dict[str, Any] = {"address": self.address, "scheduler_file": self.scheduler_file}
            if self.address is None and self.scheduler_file is None:
                local = distributed.LocalCluster(
                    n_workers=self.workers, threads_per_worker=1, processes=True,
                    dashboard_address="127.0.0.1:0",  # any port, so that a second cluster finds one too
                )  # fmt: skip
                there = {"address": stack.enter_context(local)}
            try:
                self.client = stack.enter_context(distributed.Client(**there, set_as_default=True))
            except (OSError, ValueError, TypeError) as error:
                where = self.address or self.scheduler_file
                raise ValueError(f"no Dask scheduler answers at {where!r} ({error})") from None
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client = None
        self._open.close()

    @property
    def is_open(self) -> bool:
        return self.client is not None

    @property
    def size(self) -> int:
        """How many tasks it runs at a time, with the workers it has now."""
        return sum(self.client.nthreads().values()) if self.is_open else 0

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """Call a function with every task; yields the tasks' numbers and results as they come.

        Function, tasks and results are pickled. A task whose worker is lost starts again on another one; an error in
        the function is raised here, and what had not begun by then is dropped.
        """
        client = self.client
        if client is None:
            raise ValueError("the cluster is not open: use it in a with statement")
        distributed, joblib = _modules()
        with joblib.parallel_config(backend="dask", client=client) as active:
            # joblib would wait 10 s for workers, and on a cluster of one worker do the work here
            active["backend"].effective_n_jobs = lambda n_jobs: 2
            # tasks are long, so they are sent one by one, and at once, for workers that are still to come
            parallel = joblib.Parallel(n_jobs=-1, batch_size=1, pre_dispatch="all", return_as="generator_unordered")
            results = parallel(joblib.delayed(_call)((function, i, task)) for i, task in enumerate(tasks))
        try:
            for result in results:  # noqa: UP028, since `yield from` would close them by itself, with a warning
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that not all results were taken
                results.close()
            if client.status == "running":
                waiting = [key for key in list(client.futures) if str(key).startswith(f"batch_of_{_call.__name__}")]
                client.cancel([distributed.Future(key, client) for key in waiting])


def _call(job: tuple[Callable[[Task], Result], int, Task]) -> tuple[int, Result]:
    # one tuple: joblib would put a large argument on one worker, and it would be lost with it
    function, i, task = job
    return i, function(task)


def _modules() -> tuple[Any, Any]:
    try:
        return importlib.import_module("distributed"), importlib.import_module("joblib")
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'driftrank[cluster]'") from None
