"""A click log as a table that SQL can read."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from driftrank.logs.schema import MARK, PROPENSITIES, check_columns, literal, quoted, selected
from driftrank.validation import check_choice, check_integer, check_number

if TYPE_CHECKING:
    import duckdb

    from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
    from driftrank.logs.bad_lines import LogReport

#: memory limit of a query over a log; beyond it the disk is used
MEMORY = "2GB"

_numbers = itertools.count()


class ArrowTable(Protocol):
    """A table that Arrow reads without a copy: those of pandas, polars, pyarrow, DuckDB and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@dataclass(frozen=True)
class Log:
    """A click log, from :func:`open_log`. Nothing is read before it is needed.

    Attributes
    ----------
    source
        The argument of :func:`open_log`.
    types
        The columns of the schema in the log, and their SQL types.
    files
        The files it consists of. :meth:`parts` has one log for each.
    report
        Problems of the lines of a text file; None for tables.
    propensities
        The kind of the column ``propensities`` (:data:`driftrank.logs.schema.PROPENSITIES`); None if it is not known.
    """

    source: str
    types: Mapping[str, str]
    files: tuple[str, ...]
    report: LogReport | None = None
    memory: str = MEMORY
    threads: int | None = None
    propensities: str | None = None
    _columns: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    _select: str = dataclasses.field(default="*", repr=False)
    _where: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    _table: str | None = dataclasses.field(default=None, repr=False)  #: of a DuckDB file
    _lines: bool = dataclasses.field(default=False, repr=False)  #: a column has the line numbers of the text
    _copy: TemporaryFolder | None = dataclasses.field(default=None, repr=False)  #: of a text file
    _first: int = dataclasses.field(default=0, repr=False)  #: the number of its first file in the log it is a part of

    @property
    def relation(self) -> str:
        """The SQL relation with exactly the columns of the schema, for connections of :meth:`connect`."""
        table = _scan(self.files) if self._table is None else f"driftrank_log.{self._table}"
        relation = f"(SELECT {self._select} FROM {table})"
        return f"(SELECT * FROM {relation} WHERE {' AND '.join(self._where)})" if self._where else relation

    @property
    def numbered(self) -> str:
        """As :attr:`relation`, with two more columns: ``file``, from 0, and ``row`` (of text: line), from 1.

        In :meth:`parts` they are those of the whole.
        """
        if self._table is not None:
            row, table = "row_number() OVER ()", f"driftrank_log.{self._table}"
        else:
            row, table = "file_row_number + 1", _scan(self.files, numbered=True)
        if self._lines:
            row = f"coalesce(line, {row})"
        file = str(self._first)
        if len(self.files) > 1:
            file = f"list_position([{', '.join(map(literal, self.files))}], filename) - 1"
        relation = f"(SELECT {self._select}, {file} AS file, {row} AS row FROM {table})"
        return f"(SELECT * FROM {relation} WHERE {' AND '.join(self._where)})" if self._where else relation

    def connect(self, memory: str | None = None, threads: int | None = None) -> duckdb.DuckDBPyConnection:
        """A new DuckDB connection that can read :attr:`relation`. Queries beyond its memory limit use the disk.

        Parameters
        ----------
        memory, threads
            Instead of those of :func:`open_log`.
        """
        connection = duckdb_connection(memory or self.memory, threads or self.threads)
        if self._table is not None:
            connection.execute(f"ATTACH {literal(self.files[0])} AS driftrank_log (READ_ONLY)")
        return connection

    def has_positions(self) -> bool:
        """True if there are rows without their lists, whose item has a position of its own."""
        if "position" not in self.types:
            return False
        with self.connect() as connection:
            return bool(self._value(connection, "count(position) > 0"))

    def count(self) -> int:
        """The number of lists."""
        with self.connect() as connection:
            return int(self._value(connection, "count(*)"))

    def counts(self, kind: str, queries: Iterable[Any] | None = None) -> PositionCounts | ListCounts:
        """Statistics for click models, ``"ratios"``, ``"positions"`` or ``"lists"``, of all queries or of some.

        :func:`driftrank.logs.count.statistics.aggregate` also counts on a cluster; its result can be saved and merged.
        """
        from driftrank.logs.count.statistics import aggregate

        return aggregate(self, kind, queries=queries).counts()

    def span(self) -> tuple[Any, Any]:
        """The first and the last time; None if the log is empty."""
        with self.connect() as connection:
            row = connection.execute(f"SELECT min(time), max(time) FROM {self.relation}").fetchone()
        return row if row is not None else (None, None)

    def between(self, start: Any = None, end: Any = None) -> Log:
        """The lists shown in ``start <= time < end``; None: from the beginning, to the end.

        Times of a log with timestamps are datetimes, or text such as ``"2024-05-01 12:00"``; of others, numbers.
        """
        bounds = ((start, "start", ">="), (end, "end", "<"))
        where = [f"time {sign} {self._time(name, value)}" for value, name, sign in bounds if value is not None]
        return dataclasses.replace(self, _where=(*self._where, *where))

    def split(self, fraction: float) -> tuple[Log, Log]:
        """The earlier part, ``fraction`` of the lists, and the later one. Lists of one time stay together."""
        check_number("fraction", fraction, 0, 1, open_low=True, open_high=True)
        with self.connect() as connection:
            lists = int(self._value(connection, "count(time)"))
            middle = (int(fraction * lists) + 0.5) / max(lists, 1)
            bound = self._value(connection, f"quantile_disc(time, {middle!r})") if lists else None
            earliest, latest = self._values(connection, "min(time), max(time)")
            if earliest == latest:
                raise ValueError(
                    f"{self.source}: cannot be split by time: {'all times are equal' if lists else 'it is empty'}"
                )
            if bound == earliest:
                after = self._time("fraction", earliest)
                bound = self._value(connection, f"min(time) FILTER (WHERE time > {after})")
        return self.between(None, bound), self.between(bound, None)

    def parts(self) -> list[Log]:
        """One log per file; their counts add up to those of the whole."""
        if len(self.files) == 1:
            return [self]
        parts = []
        with duckdb_connection(self.memory, self.threads) as connection:
            for number, file in enumerate(self.files):
                available = _describe(connection, file, _scan([file]))
                select = selected(file, available, self._columns, self.types)[1]
                parts.append(dataclasses.replace(self, files=(file,), _select=select, _first=number))
        return parts

    def evaluable(self) -> Log:
        """Without the lists of a service that tell nothing of other lists for the same request.

        These are lists of a holdout whose probabilities are not known (a coin chose them, not what was shown), pages
        after the first, which depend on those before, and lists with pinned items, which any ranking would have had.
        """
        apart = [f"NOT coalesce({condition}, false)" for condition in self._apart.values()]
        return dataclasses.replace(self, _where=(*self._where, *apart))

    def set_apart(self) -> dict[str, int]:
        """The numbers of lists that :meth:`evaluable` leaves out, by reason."""
        apart = self._apart
        if not apart:
            return {}
        with self.connect() as connection:
            counts = self._values(connection, ", ".join(f"count_if({condition})" for condition in apart.values()))
        return {reason: int(count) for reason, count in zip(apart, counts, strict=True) if count}

    @property
    def _apart(self) -> dict[str, str]:
        """Conditions in SQL, by reason."""
        conditions = {
            "lists of the holdout": (("arm", "propensities"), "arm = 'holdout' AND propensities IS NULL"),
            "pages after the first": (("offset",), '"offset" > 0'),
            "lists with pinned items": (("pinned",), "len(pinned) > 0"),
        }
        return {reason: sql for reason, (columns, sql) in conditions.items() if self.types.keys() >= {*columns}}

    def _time(self, name: str, value: Any) -> str:
        """A time in SQL."""
        if self.types["time"] == "TIMESTAMP":
            try:
                moment = datetime.fromisoformat(value) if isinstance(value, str) else value
            except ValueError:
                moment = None
            if not isinstance(moment, date):
                raise ValueError(
                    f"{name}={value!r}: must be a time such as '2024-05-01 12:00'; {self.source} has timestamps"
                )
            return f"TIMESTAMP {literal(moment.isoformat(sep=' ') if isinstance(moment, datetime) else str(moment))}"
        if isinstance(value, str):
            raise ValueError(f"{name}={value!r}: must be a number, as the times of {self.source}")
        check_number(name, value, -math.inf)
        return repr(value)

    def _value(self, connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
        return self._values(connection, expression)[0]

    def _values(self, connection: duckdb.DuckDBPyConnection, expressions: str) -> tuple[Any, ...]:
        row = connection.execute(f"SELECT {expressions} FROM {self.relation}").fetchone()
        assert row is not None
        return row


class TemporaryFolder:
    """A folder that is removed with this object; a pickled copy does not own it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="driftrank-log-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}


def open_log(
    source: str | os.PathLike[str] | ArrowTable,
    columns: Mapping[str, str] | None = None,
    *,
    on_error: str = "skip",
    quiet: bool = False,
    memory: str = MEMORY,
    threads: int | None = None,
    propensities: str | None = None,
) -> Log:
    """Open a click log.

    Parameters
    ----------
    source
        A Parquet file, a folder of them or a pattern (``"logs/*.parquet"``); a table of a DuckDB file
        (``"my.duckdb:clicks"``); or text, also gzipped: the log of the Yandex relevance prediction challenge, CSV, TSV
        or JSONL with the columns of the schema. Text is converted to Parquet in a temporary folder, which is
        removed with the log; ``driftrank log convert`` does it once and supports more formats. Or a table: of pandas,
        polars, Arrow, or any other that Arrow can read, which is written to such a folder.
    columns
        Columns with other names, ``{"query": "q", "ranking": "docs"}``; see :mod:`driftrank.logs.schema`.
    on_error
        Bad lines of text: ``"skip"`` leaves them out, with a warning (:attr:`Log.report` has all); ``"stop"`` raises
        ValueError at the first.
    quiet
        Do not warn.
    memory, threads
        Limits of queries over the log: beyond the memory they use the disk; None for all cores.
    propensities
        The kind of the column ``propensities``: ``"conditional"``, ``"marginal"`` or ``"list"``. By default that which
        ``driftrank log convert`` has written to the file.

    Examples
    --------
    >>> import duckdb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT 'shoes' AS query, 7 AS time, [3, 1] AS ranking, [2] AS clicks) TO '{path}'")
    >>> log = open_log(path)
    >>> log.count(), log.types["ranking"]
    (1, 'BIGINT[]')
    >>> with log.connect() as connection:
    ...     connection.execute(f"SELECT ranking, clicks FROM {log.relation}").fetchall()
    [([3, 1], [2])]
    """
    mapping = dict(columns or {})
    if threads is not None:
        check_integer("threads", threads, 1)
    if propensities is not None:
        check_choice("propensities", propensities, tuple(PROPENSITIES))
    report, kept = None, None
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        file, table = _database(name)
        if file is not None:
            log = _open_table(name, file, table, check_columns(mapping), memory, threads)
            return dataclasses.replace(log, propensities=propensities)
        files = _files(name)
    else:
        name, kept = type(source).__name__, TemporaryFolder()
        files = [_write_table(source, kept.path)]
    if not all(map(is_parquet, files)):
        from driftrank.logs.conversion.convert import converted

        kept = TemporaryFolder()
        files, report = converted(files, kept.path, columns=mapping, on_error=on_error, quiet=quiet)
        mapping = {}
    check_columns(mapping)
    with duckdb_connection(memory, threads) as connection:
        available = _describe(connection, name, _scan(files))
    types, select = selected(name, available, mapping)
    kind = propensities or (marked_propensities(name, files) if "propensities" in types else None)
    return Log(
        name, types, tuple(files), report, memory, threads, kind, mapping, select, (), None, report is not None, kept
    )  # fmt: skip


def _write_table(table: ArrowTable, folder: Path) -> str:
    """Write a table of another library to a Parquet file."""
    import pyarrow
    import pyarrow.parquet

    if not hasattr(table, "__arrow_c_stream__"):
        raise ValueError(
            f"source={type(table).__name__}: must be a path, or a table of pandas, polars, Arrow or another library "
            "with Arrow's C stream interface"
        )
    path = folder / "log.parquet"
    try:
        pyarrow.parquet.write_table(pyarrow.table(table), path)
    except pyarrow.ArrowException as error:
        raise ValueError(f"source={type(table).__name__}: cannot be read as an Arrow table ({error})") from None
    return str(path)


def duckdb_connection(memory: str = MEMORY, threads: int | None = None) -> duckdb.DuckDBPyConnection:
    """A new in-memory DuckDB that spills to the system's temporary folder."""
    import duckdb

    # created when needed, and removed
    spill = Path(tempfile.gettempdir()) / f"driftrank-{os.getpid()}-{next(_numbers)}"
    settings: dict[str, Any] = {"memory_limit": memory, "temp_directory": str(spill)}
    if threads is not None:
        settings["threads"] = threads
    try:
        connection = duckdb.connect(":memory:", config=settings)
    except duckdb.ParserException:
        raise ValueError(f"memory={memory!r}: must be an amount such as '2GB'") from None
    connection.execute("SET enable_progress_bar = false")
    return connection


def marked_propensities(name: str, files: Sequence[str]) -> str | None:
    """The kind of propensities that Parquet files are marked with."""
    import pyarrow.parquet as pq

    kinds = set()
    for file in files:
        metadata = pq.read_schema(file).metadata or {}
        # of a service, whose files had no mark at first
        kinds.add(metadata.get(MARK, b"conditional" if b"driftrank.ranker" in metadata else b"").decode())
    if len(kinds) > 1:
        kinds_of = ", ".join(kind or "unknown" for kind in sorted(kinds))
        raise ValueError(f"{name}: its files have propensities of different kinds ({kinds_of}); must be one")
    return kinds.pop() or None


def is_parquet(file: str) -> bool:
    with open(file, "rb") as stream:
        return stream.read(4) == b"PAR1"


def _scan(files: Sequence[str], numbered: bool = False) -> str:
    names = ", ".join(map(literal, files))
    together = ", union_by_name = true" if len(files) > 1 else ""
    return f"read_parquet([{names}]{together}{', file_row_number = true, filename = true' if numbered else ''})"


def _files(name: str) -> list[str]:
    """The files of a source, in the order of their names."""
    if os.path.isdir(name):
        files = sorted(str(path) for path in Path(name).rglob("*.parquet"))
        if not files:
            raise ValueError(
                f"{name}: a folder without Parquet files; must be a file, or a folder with *.parquet files"
            )
        return files
    if os.path.exists(name):
        return [name]
    files = sorted(f for f in glob.glob(name, recursive=True) if os.path.isfile(f)) if glob.has_magic(name) else []
    if not files:
        raise ValueError(f"{name}: no such file")
    return files


def _database(name: str) -> tuple[str | None, str | None]:
    """The DuckDB file and the table of ``FILE:TABLE``, if it is one."""
    for file, table in ((name, None), name.rpartition(":")[::2]):
        if os.path.isfile(file):
            with open(file, "rb") as stream:
                if stream.read(12)[8:] == b"DUCK":
                    return file, table
    return None, None


def _open_table(
    name: str, file: str, table: str | None, mapping: Mapping[str, str], memory: str, threads: int | None
) -> Log:
    log = Log(name, {}, (file,), None, memory, threads, None, mapping, "*", (), "")
    with log.connect() as connection:
        tables = "SELECT database_name, schema_name, table_name FROM duckdb_tables()"
        views = "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        names = {}
        for database, schema, its in connection.execute(f"{tables} UNION ALL {views}").fetchall():
            if database != "driftrank_log":
                continue
            names[its if schema == "main" else f"{schema}.{its}"] = f"{quoted(schema)}.{quoted(its)}"
        if table is None and len(names) == 1:
            table = next(iter(names))
        if table not in names:
            wrong = "name a table, as in" if table is None else f"no table {table!r}, as in"
            raise ValueError(f"{name}: {wrong} {file}:TABLE; there are: {', '.join(sorted(names)) or 'none'}")
        available = _describe(connection, name, f"driftrank_log.{names[table]}")
    types, select = selected(name, available, mapping)
    return dataclasses.replace(log, types=types, _select=select, _table=names[table])


def _describe(connection: duckdb.DuckDBPyConnection, source: str, scan: str) -> dict[str, str]:
    import duckdb

    try:
        rows = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    except duckdb.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{source}: cannot be read as a table ({reason})") from None
    return {row[0]: row[1] for row in rows}
