"""Generated click logs of simulated users."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import NEVER, Environment
from driftrank.files import written
from driftrank.kernels.compile import specialise
from driftrank.kernels.rng import run_key
from driftrank.logs.schema import LONGEST
from driftrank.logs.templates import impressions, yandex_lines
from driftrank.progress import Progress, chosen_progress
from driftrank.queries import Queries
from driftrank.validation import check_choice, check_integer, check_number

#: orders of lists: random; by initial attraction, with neighbours exchanged at random; by initial attraction
ORDERS = ("shuffled", "swapped", "sorted")
#: output formats
FORMATS = ("auto", "parquet", "yandex")

#: results on a page of the Yandex log
RESULTS = 10

_BATCH = 500_000
#: digits of a 64-bit number at most, and a tab
_WIDTH = 20


@dataclass(frozen=True)
class GeneratedLog:
    """The size of a generated log."""

    lists: int
    clicks: int
    numbered: bool  #: queries and items have numbers instead of their names


def generate(
    out: str | os.PathLike[str],
    environment: Environment,
    lists: int,
    *,
    length: int | None = None,
    order: str = "shuffled",
    zipf: float = 0.0,
    format: str = "auto",
    seed: int = 0,
    progress: bool | Progress | None = False,
) -> GeneratedLog:
    """Write a click log of simulated users. The same arguments give the same log, list by list.

    Parameters
    ----------
    out
        The file: Parquet in the project's schema, or the Yandex text format if it ends in ``.txt`` or ``.gz``. Shuffled
        lists in Parquet have propensities.
    environment
        The queries, their users and changes; a step is a list of the query.
    lists
        Number of lists.
    length
        Items per list, if the query has so many; by default as many as the longest query has.
    order
        ``"shuffled"``: all lists are equally likely; ``"sorted"``: items by decreasing attraction at the first step;
        ``"swapped"``: the same, with neighbours exchanged at random.
    zipf
        Exponent of the query frequencies: the n-th query occurs in proportion to :math:`n^{-z}`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from driftrank.clickmodels import PBM
    >>> from driftrank.environments import Stationary
    >>> from driftrank.logs import open_log
    >>> from driftrank.queries import yandex_like
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> generate(path, Stationary(yandex_like(2), click_model=PBM()), 1000).lists
    1000
    >>> open_log(path).count()
    1000
    """
    check_integer("lists", lists, 1)
    longest = max(len(alpha) for alpha in environment.queries.attraction.values())
    if length is None:
        length = min(longest, LONGEST)
    check_integer("length", length, 1, LONGEST)
    check_choice("order", order, ORDERS)
    check_choice("format", format, FORMATS)
    check_number("zipf", zipf, 0)
    path = Path(out)
    if format == "auto":
        format = "yandex" if path.suffix in (".txt", ".gz", ".tsv") else "parquet"
    if not path.parent.is_dir():
        raise ValueError(f"out={os.fspath(out)!r}: there is no folder {path.parent}")
    if environment.churns:
        raise ValueError(f"environment={type(environment).__name__}: items that come and go cannot be generated")
    if format == "yandex":
        for name, alpha in environment.queries.attraction.items():
            if length != RESULTS or len(alpha) < RESULTS:
                raise ValueError(
                    f"length={length}, {len(alpha)} items in query {name!r}: lists of the Yandex log have {RESULTS}"
                )
    names, numbered = _names(environment.queries, format == "yandex")
    users = _UserArrays(environment, lists, length, order, zipf, seed)
    clicks = 0
    with (
        chosen_progress(progress, {path.name: lists}, "lists") as bar,
        written(path) as temporary,
        _Yandex(temporary, names) if format == "yandex" else _Parquet(temporary, names, order) as sink,
    ):
        for first in range(0, lists, _BATCH):
            batch = users.batch(first, min(_BATCH, lists - first))
            clicks += batch.clicks
            sink(batch)
            bar.advance(path.name, len(batch.mask))
    return GeneratedLog(lists, clicks, numbered)


@dataclass(frozen=True, eq=False)
class _Names:
    """The names of queries and items in the log; the items of query q begin at ``base[q]``."""

    queries: NDArray[Any]
    items: NDArray[Any]
    base: NDArray[np.int64]


def _names(queries: Queries, numbers: bool) -> tuple[_Names, bool]:
    sizes = [len(alpha) for alpha in queries.attraction.values()]
    base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    names: list[Any] = list(queries)
    items: list[Any] = [item for name in queries for item in queries.items.get(name, ())]
    if len(items) != base[-1]:  # items without names get numbers that are unique over all queries
        items = [1000 * (q + 1) + a for q, size in enumerate(sizes) for a in range(size)]
        if max(sizes) > 1000:
            items = list(range(1, base[-1] + 1))
    whole = [_whole(values) for values in (names, items)]
    numbered = numbers and None in whole
    if numbers:
        whole = [w if w is not None else list(range(1, len(v) + 1)) for w, v in zip(whole, (names, items), strict=True)]
    final = [w if w is not None else list(map(str, v)) for w, v in zip(whole, (names, items), strict=True)]
    return _Names(np.array(final[0]), np.array(final[1]), base), numbered


def _whole(values: list[Any]) -> list[int] | None:
    """Values as non-negative integers, if all are such and remain the same as text."""
    good = all(isinstance(v, int) or (isinstance(v, str) and v.isascii() and v.isdecimal()) for v in values)
    numbers = [int(v) for v in values] if good else []
    unchanged = good and all(0 <= n < 2**62 and str(n) == str(v) for n, v in zip(numbers, values, strict=True))
    return numbers if unchanged else None


@dataclass(frozen=True, eq=False)
class _Batch:
    first: int
    query: NDArray[np.int32]
    slots: NDArray[np.int32]  #: by position, -1 beyond the end
    mask: NDArray[np.int64]
    clicks: int


class _UserArrays:
    """The users of an environment as flat arrays for the kernel."""

    def __init__(self, environment: Environment, lists: int, length: int, order: str, zipf: float, seed: int) -> None:
        queries = environment.queries
        weights = np.arange(1, len(queries) + 1) ** -float(zipf)
        self.share = np.cumsum(weights) / weights.sum()
        self.share[-1] = 1.0
        self.key = np.uint64(run_key(seed, "driftrank.logs.generation", 0))
        self.style = ORDERS.index(order)
        self.k = length
        until, alphas, count = [], [], []
        for name in queries:
            if environment.kind == "stationary":
                ends, levels = np.array([NEVER]), queries[name][None]
            else:
                starts, levels, _ = environment.stretches(lists, name, 0, seed)
                ends = np.append(starts[1:] - 1, NEVER)
            until.append(ends)
            alphas.append(levels)
            count.append(len(ends))
        self.base = np.concatenate([[0], np.cumsum([len(a) for a in queries.attraction.values()])]).astype(np.int64)
        self.segment = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        self.until = np.concatenate(until).astype(np.int64)
        self.alphas = np.concatenate([a.ravel() for a in alphas])
        widths = np.repeat(np.diff(self.base), count)
        self.row_of = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        self.order = np.concatenate([np.argsort(-a[0], kind="stable") for a in alphas]).astype(np.int64)
        rows = [environment.users(name).row(len(queries[name]), self.k) for name in queries]
        self.models = np.concatenate(rows)
        self.model = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        self.seen = np.zeros(len(queries), np.int64)
        self.kernel = specialise(impressions, {"CLICK": environment.users().kernels().click})

    def batch(self, first: int, n: int) -> _Batch:
        most = int(np.diff(self.base).max())
        query, mask = np.zeros(n, np.int32), np.zeros(n, np.int64)
        slots = np.zeros((n, min(self.k, most)), np.int32)
        clicks = self.kernel(
            self.key, first, self.share, self.base, self.segment, self.until, self.alphas, self.row_of,
            self.models, self.model, self.seen, self.style, self.order, np.zeros(most, np.uint32),
            np.zeros(most, np.int8), query, slots, mask,
        )  # fmt: skip
        return _Batch(first, query, slots, mask, clicks)


Sink = Callable[[_Batch], None]


class _Parquet(AbstractContextManager[Sink]):
    """Writes Parquet in the project's schema; time is the number of the list, and every list has its own user.

    Shuffled lists have propensities: position k shows each of the L - k + 1 items that are left with the same chance.
    """

    def __init__(self, path: Path, names: _Names, order: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._names = names
        self._queries, self._items = pa.array(names.queries), pa.array(names.items)
        kinds = [("query", self._queries.type), ("time", pa.int64()), ("ranking", pa.list_(self._items.type))]
        self._shuffled = order == "shuffled"
        own = [("propensities", pa.list_(pa.float64()))] if self._shuffled else []
        self._schema = pa.schema([*kinds, ("clicks", pa.list_(pa.int16())), ("user", pa.int64()), *own])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def __enter__(self) -> Sink:
        return self._sink

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def _sink(self, batch: _Batch) -> None:
        import pyarrow as pa

        shown = batch.slots >= 0
        pairs = (self._names.base[batch.query][:, None] + batch.slots)[shown]
        clicked = (batch.mask[:, None] >> np.arange(batch.slots.shape[1])) & 1
        positions = (np.nonzero(clicked)[1] + 1).astype(np.int16)
        time = pa.array(np.arange(batch.first + 1, batch.first + 1 + len(batch.mask)))
        rankings = pa.ListArray.from_arrays(_offsets(shown.sum(axis=1)), self._items.take(pa.array(pairs)))
        clicks = pa.ListArray.from_arrays(_offsets(clicked.sum(axis=1)), pa.array(positions))
        queries = self._queries.take(pa.array(batch.query))
        columns = [queries, time, rankings, clicks, time]
        if self._shuffled:
            left = np.diff(self._names.base)[batch.query][:, None] - np.arange(shown.shape[1])
            columns.append(pa.ListArray.from_arrays(_offsets(shown.sum(axis=1)), pa.array(1.0 / left[shown])))
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))


def _offsets(sizes: NDArray[np.int64]) -> Any:
    import pyarrow as pa

    return pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))


class _Yandex(AbstractContextManager[Sink]):
    """Writes the text format of the Yandex log; every list is a session."""

    def __init__(self, path: Path, names: _Names) -> None:
        self._names = names
        # a temporary name with the same suffix
        self._file: Any = gzip.open(path, "wb", compresslevel=3) if path.suffix == ".gz" else path.open("wb")  # noqa: SIM115
        self._lines = specialise(yandex_lines, {})

    def __enter__(self) -> Sink:
        return self._sink

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _sink(self, batch: _Batch) -> None:
        names = self._names
        pairs = names.base[batch.query][:, None] + batch.slots
        out = np.empty(len(batch.mask) * _WIDTH * (batch.slots.shape[1] + 3) + batch.clicks * 4 * _WIDTH, np.uint8)
        end = self._lines(batch.first + 1, names.queries, names.items, batch.query, pairs, batch.mask, out)
        self._file.write(out[:end].data)
