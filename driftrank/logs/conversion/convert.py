"""Convert logs in other formats to Parquet files of the schema."""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from driftrank.files import written
from driftrank.logs.bad_lines import BadLines, LogReport, check_on_error
from driftrank.logs.conversion.readers.base import ReadOptions
from driftrank.logs.conversion.readers.stream import Stream, read_ahead
from driftrank.logs.schema import MARK, PROPENSITIES
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_choice

if TYPE_CHECKING:
    import pyarrow as pa

#: representations of clicks
CLICKS = ("positions", "vector", "items")

_ROW_GROUP = 1_000_000


def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
    clicks: str = "positions",
    group: bool = False,
    query: str | None = None,
    propensities: str | None = None,
    on_error: str = "skip",
    lines: bool = False,
    progress: bool | Progress | None = False,
) -> LogReport:
    """Convert a log to Parquet; returns a report of its problems. The file appears when it is complete.

    Parameters
    ----------
    source
        A text file, gzipped or not.
    out
        The Parquet file to write.
    format
        ``"yandex"``, ``"csv"``, ``"tsv"``, ``"jsonl"``, ``"trec"``, ``"open-bandit"``; ``"auto"`` detects it.
    columns
        For tables: names of the columns, ``{"query": "q", "ranking": "docs"}``; see
        :mod:`driftrank.logs.conversion.readers.tables`.
    clicks
        For tables: ``"positions"`` from 1, a ``"vector"`` of 0 and 1 by position, or the ``"items"`` that were clicked.
    group
        For the Open Bandit Dataset: merge rows that form one list.
    query
        For the Open Bandit Dataset: the name of the query; None: the name of the file's folder.
    propensities
        The kind of the log's propensities, which the file is marked with: ``"conditional"``, ``"marginal"`` or
        ``"list"`` (:mod:`driftrank.logs.schema`). Those of the Open Bandit Dataset are marginal.
    on_error
        ``"skip"`` leaves out lines that cannot be used, ``"stop"`` raises ValueError at the first.
    lines
        Keep the line number of every list, in a column ``line``.
    progress
        Show a progress bar; None: if standard error is a terminal.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> urls = "\\t".join(map(str, range(10, 20)))
    >>> _ = (folder / "log.txt").write_text(f"1\\t0\\tQ\\t7\\t3\\t{urls}\\n1\\t5\\tC\\t12\\n1\\t9\\tC\\t99\\n")
    >>> report = convert(folder / "log.txt", folder / "log.parquet")
    >>> report.lists, report.clicks
    (1, 1)
    >>> print(report.describe().partition(": ")[2])
    1 of 3 lines left out
      1 x a click on an item that was not shown (left out)
          line 3: 1 9 C 99
    """
    check_on_error(on_error)
    check_choice("format", format, ("auto", *formats()))
    check_choice("clicks", clicks, CLICKS)
    if propensities is not None:
        check_choice("propensities", propensities, tuple(PROPENSITIES))
    name = os.fspath(source)
    target = Path(out)
    if not os.path.isfile(name):
        raise ValueError(f"{name}: no such file" if not os.path.exists(name) else f"{name}: a folder, not a file")
    if not target.parent.is_dir():
        raise ValueError(f"{target}: there is no folder {target.parent}")
    if target.exists() and target.samefile(name):
        raise ValueError(f"{target}: is the log that is to be converted; give the result another name")
    stream = Stream(name)
    report = LogReport(name)
    chosen, reader = _reader(stream, format)
    options = ReadOptions(dict(columns or {}), clicks, group, query, propensities)
    marked = getattr(reader, "PROPENSITIES", None)
    if propensities not in (None, marked) and marked is not None:
        raise ValueError(f"propensities={propensities!r}: must be {marked!r} for the format {chosen}")
    label = Path(name).name
    with chosen_progress(progress, {label: stream.size}, "lines") as bar, written(target) as temporary:
        tick = functools.partial(bar.advance, label)
        with closing(
            read_ahead(_checked(reader.read(stream, chosen, report, options, tick), report, on_error))
        ) as tables:
            _write(tables, temporary, lines, propensities or marked)
    return report


def formats() -> dict[str, ModuleType]:
    """The readers by name of format: modules of ``readers`` that define ``FORMATS``."""
    from driftrank.logs.conversion import readers

    modules = [importlib.import_module(f"{readers.__name__}.{m.name}") for m in pkgutil.iter_modules(readers.__path__)]
    return {name: module for module in modules for name in getattr(module, "FORMATS", ())}


def _reader(stream: Stream, format: str) -> tuple[str, ModuleType]:
    """The format and its reader."""
    known = formats()
    if format != "auto":
        return format, known[format]
    if stream.size == 0:
        return "yandex", known["yandex"]  # an empty file is an empty log
    start = Stream(stream.path).start()
    scores = {name: known[name].FORMATS[name](start) for name in known}
    best = max(scores, key=lambda name: scores[name])
    if not scores[best]:
        raise ValueError(
            f"{stream.path}: the format cannot be detected; choose one with format "
            f"(driftrank log convert --format): {', '.join(known)}"
        )
    return best, known[best]


def _checked(tables: Generator[pa.Table, None, None], report: LogReport, on_error: str) -> Iterator[pa.Table]:
    with closing(tables):
        for table in tables:
            if on_error == "stop":
                report.stop()
            yield table
    if on_error == "stop":
        report.stop()


def _write(tables: Iterator[pa.Table], path: Path, lines: bool, propensities: str | None) -> None:
    """Write row groups of about a million lists: large enough to compress well, small enough for memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    pending: list[pa.Table] = []
    try:
        for table in tables:
            part = table if lines else table.drop_columns(["line"])
            if propensities is not None and "propensities" in part.schema.names:
                part = part.replace_schema_metadata({MARK: propensities})
            if writer is None:
                writer = pq.ParquetWriter(path, part.schema, **_packing(part.schema))
            pending.append(part)
            if sum(len(t) for t in pending) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(pending), row_group_size=2 * _ROW_GROUP)
                pending = []
        if writer is None:  # an empty log
            ids = pa.list_(pa.int64())
            types = {"query": pa.int64(), "time": pa.int64(), "ranking": ids, "clicks": pa.list_(pa.int16())}
            writer = pq.ParquetWriter(path, pa.schema(types | ({"line": pa.int64()} if lines else {})))
        if pending:
            writer.write_table(pa.concat_tables(pending), row_group_size=2 * _ROW_GROUP)
    finally:
        if writer is not None:
            writer.close()


def _packing(schema: pa.Schema) -> dict[str, Any]:
    """Options of the Parquet writer: numbers that mostly grow by little are stored as differences."""
    import pyarrow as pa

    growing = [
        name
        for name in ("time", "user", "line")
        if name in schema.names and pa.types.is_integer(schema.field(name).type)
    ]
    dictionary = [name for name in schema.names if name not in growing]
    return {
        "compression": "zstd", "compression_level": 1, "use_dictionary": dictionary,
        "column_encoding": dict.fromkeys(growing, "DELTA_BINARY_PACKED"),
    }  # fmt: skip


def converted(
    files: Sequence[str], folder: Path, *, columns: Mapping[str, str], on_error: str, quiet: bool
) -> tuple[list[str], LogReport]:
    """Convert the text files of a log into a folder, with a warning if lines are left out. Parquet files stay."""
    from driftrank.logs.log import is_parquet

    made: list[str] = []
    reports = []
    for i, file in enumerate(files):
        if is_parquet(file):
            made.append(file)
            continue
        made.append(str(folder / f"{i}.parquet"))
        reports.append(convert(file, made[-1], columns=columns, on_error=on_error, lines=True, progress=None))
        if reports[-1].has_errors and not quiet:
            warnings.warn(reports[-1].summary(), BadLines, stacklevel=3)
    return made, reports[0] if len(reports) == 1 else LogReport.merged(reports)
