"""Work on many machines: joblib with its Dask backend, on a cluster that is there or on one started for the while."""

from __future__ import annotations

import importlib
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
                    n_workers=self.workers, threads_per_worker=1, processes=True, dashboard_address=None
                )
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

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[tuple[int, Result]]:
        """Call a function with every task; yields the tasks' numbers and results as they come.

        Function, tasks and results are pickled. A task whose worker is lost starts again on another one; an error in
        the function is raised here, and what had not begun by then is dropped.
        """
        if self.client is None:
            raise ValueError("the cluster is not open: use it in a with statement")
        _, joblib = _modules()
        with joblib.parallel_config(backend="dask", client=self.client):
            # single tasks: they are long, and a lost worker is to cost only one
            parallel = joblib.Parallel(n_jobs=-1, batch_size=1, return_as="generator_unordered")
            results = parallel(joblib.delayed(_numbered)(function, i, task) for i, task in enumerate(tasks))
        try:
            yield from results
        finally:
            results.close()


def _numbered(function: Callable[[Task], Result], i: int, task: Task) -> tuple[int, Result]:
    return i, function(task)


def _modules() -> tuple[Any, Any]:
    try:
        return importlib.import_module("distributed"), importlib.import_module("joblib")
    except ImportError as error:
        raise ImportError(f"{error.name} is not installed: pip install 'driftrank[cluster]'") from None
