"""Work on a log file by file, on the workers of a cluster, which must have access to the files by the same names."""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from driftrank.logs.log import Log
from driftrank.logs.schema import literal
from driftrank.validation import check_choice

if TYPE_CHECKING:
    import pyarrow as pa

    from driftrank.engine.cluster.cluster import Cluster, Shared

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@contextmanager
def workers(device: str, address: str | None = None) -> Iterator[Cluster | None]:
    """The cluster on which to read a log, open; None: in this process.

    Parameters
    ----------
    device
        ``"cpu"`` or ``"cluster"``.
    address
        Of a Dask scheduler; None: workers on this machine.
    """
    check_choice("device", device, ("cpu", "cluster"))
    if device == "cpu":
        if address is not None:
            raise ValueError(f"address={address!r}: must not be given unless the device is 'cluster'")
        yield None
        return
    from driftrank.engine.cluster.cluster import Cluster

    with Cluster(address) as cluster:
        yield cluster


def map_files(
    log: Log, function: Callable[[Log, Argument], Result], argument: Argument, cluster: Cluster
) -> Iterator[tuple[int, Result]]:
    """Call a function on the workers with every file of a log: the files' numbers and the results, as they complete."""
    # several tasks run on a machine
    parts = [dataclasses.replace(part, threads=log.threads or 1) for part in log.parts()]
    shared = cluster.share((function, argument))
    return cluster.map(_call, [(part, shared) for part in parts])


@contextmanager
def tables_by_file(
    log: Log,
    function: Callable[[Log, Argument], pa.Table],
    argument: Argument,
    cluster: Cluster,
    advance: Callable[[], None] = lambda: None,
) -> Iterator[str]:
    """The tables that a function makes of the files of a log, as one SQL relation; they are on the disk of this machine
    as long as it is used. ``advance`` is called after each.
    """
    with tempfile.TemporaryDirectory(prefix="driftrank-statistics-") as folder:
        files = []
        for i, content in map_files(log, _as_parquet, (function, argument), cluster):
            files.append(Path(folder) / f"{i}.parquet")
            files[-1].write_bytes(content)
            advance()
        yield f"read_parquet([{', '.join(literal(str(file)) for file in sorted(files))}])"


def _call(task: tuple[Log, Shared]) -> Any:
    """On a worker."""
    part, (_, pickled) = task
    function, argument = pickle.loads(pickled)
    return function(part, argument)


def _as_parquet(part: Log, task: tuple[Callable[[Log, Any], pa.Table], Any]) -> bytes:
    """On a worker: a table as a Parquet file, which is small and can be merged out of core."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    function, argument = task
    buffer = pa.BufferOutputStream()
    pq.write_table(function(part, argument), buffer, compression="zstd")
    return bytes(buffer.getvalue())
