"""Turn logs in other forms into Parquet files of the schema."""

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
from driftrank.logs.problems import BadLines, Report, check_on_error
from driftrank.logs.readers.base import Options
from driftrank.logs.readers.stream import Stream, ahead
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_choice

if TYPE_CHECKING:
    import pyarrow as pa

#: ways to say what was clicked
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
    on_error: str = "skip",
    lines: bool = False,
    progress: bool | Progress | None = False,
) -> Report:
    """Convert a log to Parquet; returns what was wrong with it. The file appears when it is complete.

    Parameters
    ----------
    source
        A text file, gzipped or not.
    out
        The Parquet file to write.
    format
        ``"yandex"``, ``"csv"``, ``"tsv"``, ``"jsonl"``, ``"trec"``, ``"open-bandit"``; ``"auto"`` looks at the file.
    columns
        For tables: what the columns are called, ``{"query": "q", "ranking": "docs"}``; see
        :mod:`driftrank.logs.readers.tables`.
    clicks
        For tables: ``"positions"`` from 1, a ``"vector"`` of 0 and 1 by position, or the ``"items"`` that were clicked.
    group
        For the Open Bandit Dataset: merge rows that make up one list.
    query
        For the Open Bandit Dataset: what to call the query; None: after the file's folder.
    on_error
        ``"skip"`` leaves out lines that cannot be used, ``"stop"`` raises ValueError at the first.
    lines
        Whether to keep the number of every list's line, in a column ``line``.
    progress
        Whether to show a bar; None: where a person is watching.

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
    name = os.fspath(source)
    target = Path(out)
    if not os.path.isfile(name):
        raise ValueError(f"{name}: no such file" if not os.path.exists(name) else f"{name}: a folder, not a file")
    if not target.parent.is_dir():
        raise ValueError(f"{target}: there is no folder {target.parent}")
    stream = Stream(name)
    report = Report(name)
    chosen, reader = _reader(stream, format)
    options = Options(dict(columns or {}), clicks, group, query)
    label = Path(name).name
    with chosen_progress(progress, {label: stream.size}, "lines") as bar, written(target) as temporary:
        tick = functools.partial(bar.advance, label)
        with closing(ahead(_checked(reader.read(stream, chosen, report, options, tick), report, on_error))) as tables:
            _write(tables, temporary, lines)
    return report


def formats() -> dict[str, ModuleType]:
    """The readers, by the names of the formats they read: modules of ``readers`` that have ``FORMATS``."""
    from driftrank.logs import readers

    modules = [importlib.import_module(f"{readers.__name__}.{m.name}") for m in pkgutil.iter_modules(readers.__path__)]
    return {name: module for module in modules for name in getattr(module, "FORMATS", ())}


def _reader(stream: Stream, format: str) -> tuple[str, ModuleType]:
    """The format, and who reads it."""
    known = formats()
    if format != "auto":
        return format, known[format]
    if stream.size == 0:
        return "yandex", known["yandex"]  # nothing is a log of nothing
    start = Stream(stream.path).start()
    scores = {name: known[name].FORMATS[name](start) for name in known}
    best = max(scores, key=lambda name: scores[name])
    if not scores[best]:
        raise ValueError(
            f"{stream.path}: not a log in a form that is known; say which with format "
            f"(driftrank log convert --format), one of {', '.join(known)}"
        )
    return best, known[best]


def _checked(tables: Generator[pa.Table, None, None], report: Report, on_error: str) -> Iterator[pa.Table]:
    with closing(tables):
        for table in tables:
            if on_error == "stop":
                report.stop()
            yield table
    if on_error == "stop":
        report.stop()


def _write(tables: Iterator[pa.Table], path: Path, lines: bool) -> None:
    """Row groups of about a million lists: large enough to be packed well, small enough to be held in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    waiting: list[pa.Table] = []
    try:
        for table in tables:
            part = table if lines else table.drop_columns(["line"])
            if writer is None:
                writer = pq.ParquetWriter(path, part.schema, **_packing(part.schema))
            waiting.append(part)
            if sum(len(t) for t in waiting) >= _ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting), row_group_size=2 * _ROW_GROUP)
                waiting = []
        if writer is None:  # no lists, but a log
            ids = pa.list_(pa.int64())
            types = {"query": pa.int64(), "time": pa.int64(), "ranking": ids, "clicks": pa.list_(pa.int16())}
            writer = pq.ParquetWriter(path, pa.schema(types | ({"line": pa.int64()} if lines else {})))
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=2 * _ROW_GROUP)
    finally:
        if writer is not None:
            writer.close()


def _packing(schema: pa.Schema) -> dict[str, Any]:
    """Numbers that mostly grow by little are stored as differences; items are too many for dictionaries."""
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
) -> tuple[list[str], Report]:
    """Convert the text files of a log into a folder; warns of what is lost. Parquet files stay where they are."""
    from driftrank.logs.log import is_parquet

    made: list[str] = []
    reports = []
    for i, file in enumerate(files):
        if is_parquet(file):
            made.append(file)
            continue
        made.append(str(folder / f"{i}.parquet"))
        reports.append(convert(file, made[-1], columns=columns, on_error=on_error, lines=True, progress=None))
        if reports[-1].lost and not quiet:
            warnings.warn(reports[-1].summary(), BadLines, stacklevel=3)
    return made, reports[0] if len(reports) == 1 else Report.together(reports)
