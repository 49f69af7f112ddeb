"""The click log of a ranker, from the store of a service: a folder of Parquet files in the schema of click logs.

Besides the columns of the schema there are ``arm`` (live, shadow, safe, holdout or an arm of the settings), ``event``
(the event id), ``how`` (feedback, or silence that counts as no click), ``value`` (the sum of the values of its clicks)
``offset`` (positions above it, of earlier pages) and ``pinned`` (positions of pinned items). ``user`` is a hash of the
subject, NULL if there was none. ``propensities`` are NULL unless the policy defines them or the ranker explores; each
is the probability of the item given those above it, 1 if it was pinned. ``candidates`` are the items of the request,
NULL if their record is no longer in the store. ``baseline`` is the list that the caller's order would have been,
``policy_ranking`` for lists of the holdout, and of a shadow that explores, the one that the ranker's own arm would have
shown; both are NULL if they are not recorded.

Every conversion adds a file with the lists that have ended since the last one. A file is named by the record after
which it begins, so of two conversions at the same time one replaces the same file of the other.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftrank.logs.schema import LONGEST, MARK
from driftrank.serve.log.ended_lists import EndedList, EndedLists, chosen_ranker
from driftrank.serve.log.store.base import open_reader
from driftrank.wire import ItemId

if TYPE_CHECKING:
    import pyarrow as pa

#: lists and bytes of one file at most, which are in memory together, as tables of this many lists
_FILE, _BYTES, _CHUNK = 1_000_000, 512_000_000, 10_000
_RANKER, _LAST = b"driftrank.ranker", b"driftrank.last"
#: columns with lists of items
_LISTS = ("ranking", "baseline", "policy_ranking", "candidates")


@dataclass
class ConvertedStore:
    """The result of a conversion."""

    ranker: str
    lists: int = 0  #: added
    clicks: int = 0
    cut: int = 0  #: lists with more items than a log has
    files: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  #: lists that are left out or changed


def convert_store(url: str, out: str | os.PathLike[str], ranker: str | None = None) -> ConvertedStore:
    """Add the lists of a ranker that ended since the last conversion to the folder ``out``. Only reads the store."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={os.fspath(out)!r}: must be a folder, to which a conversion of a store adds files")
    if not folder.parent.is_dir():
        raise ValueError(f"{folder}: there is no folder {folder.parent}")
    with closing(open_reader(url)) as log:
        report = ConvertedStore(chosen_ranker(log, ranker))
        after = _converted(folder, report.ranker)
        if after > log.last:
            raise ValueError(f"out={str(out)!r}: must be a log of this store, which ends before record {after}")
        found = EndedLists(log, report.ranker, after)
        lists, tables, begin = iter(found), [], after
        while pending := list(islice(lists, _CHUNK)):
            tables.append(_table(pending, report))
            if sum(map(len, tables)) >= _FILE or sum(table.nbytes for table in tables) >= _BYTES:
                _add(folder, begin, pending[-1].seq, tables, report)
                tables, begin = [], pending[-1].seq
        if tables:
            _add(folder, begin, found.last, tables, report)
        report.notes += found.notes()
        if report.cut:
            report.notes.append(f"cut to {LONGEST} items, the most that a log has: {report.cut:,}")
    return report


def _converted(folder: Path, ranker: str) -> int:
    """The last record of the lists in a folder; 0 if there are none."""
    import pyarrow.parquet as pq

    files = sorted(folder.glob("*.parquet"))
    if not files:
        return 0
    written = pq.read_schema(files[-1]).metadata or {}
    if _RANKER not in written:
        raise ValueError(f"out={str(folder)!r}: must be a new folder or a log of this store; it has other files")
    if written[_RANKER].decode() != ranker:
        raise ValueError(f"out={str(folder)!r}: must be a log of ranker {ranker}, not {written[_RANKER].decode()}")
    return int(written[_LAST])


def _add(folder: Path, begin: int, last: int, tables: Sequence[pa.Table], report: ConvertedStore) -> None:
    """Write tables to a file, in the order of time."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    schemas = [table.schema for table in tables]
    if len(set(schemas)) > 1:  # some have integer ids, others text
        schema = schemas[0]
        for name in _LISTS:
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.list_(pa.string())))
        tables = [table.cast(schema) for table in tables]
        _note_text(report)
    table = pa.concat_tables(tables).sort_by("time")
    table = table.replace_schema_metadata({_RANKER: report.ranker, _LAST: str(last), MARK: "conditional"})
    folder.mkdir(exist_ok=True)
    # elsewhere at first: a reader of the folder must not see half a file
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        path = folder / f"{begin:015d}.parquet"
        pq.write_table(table, Path(temporary) / path.name, compression="zstd")
        os.replace(Path(temporary) / path.name, path)
    report.files.append(str(path))
    report.lists += len(table)
    report.clicks += len(pc.list_flatten(table["clicks"]))


def _table(lists: Sequence[EndedList], report: ConvertedStore) -> pa.Table:
    import pyarrow as pa

    report.cut += sum(len(ended.items) > LONGEST for ended in lists)
    rankings: dict[str, list[list[Any] | None]] = {
        "ranking": [ended.items[:LONGEST] for ended in lists],
        "baseline": [_cut(ended.ranked.baseline_list) for ended in lists],
        "policy_ranking": [_cut(ended.ranked.policy_list) for ended in lists],
        "candidates": [ended.candidates for ended in lists],
    }
    kinds = {type(item) for each in rankings.values() for ranking in each for item in ranking or ()}
    if len(kinds) > 1:
        _note_text(report)
        for name, each in rankings.items():
            rankings[name] = [ranking and [str(item) for item in ranking] for ranking in each]
    ids = pa.list_(pa.int64() if kinds == {int} else pa.string())
    columns = {
        "query": pa.array([ended.ranked.query for ended in lists], pa.string()),
        "time": pa.array([round(ended.time * 1e6) for ended in lists], pa.timestamp("us")),
        "ranking": pa.array(rankings["ranking"], ids),
        "clicks": pa.array([[c for c in e.final.clicks if c <= LONGEST] for e in lists], pa.list_(pa.int16())),
        "propensities": pa.array([_propensities(ended) for ended in lists], pa.list_(pa.float64())),
        "arm": pa.array([ended.ranked.arm for ended in lists], pa.string()),
        "event": pa.array([ended.ranked.event_id for ended in lists], pa.string()),
        "how": pa.array([ended.final.how for ended in lists], pa.string()),
        "user": pa.array([f"{e.ranked.subject:016x}" if e.ranked.subject else None for e in lists], pa.string()),
        "value": pa.array([ended.final.value for ended in lists], pa.float64()),
        "offset": pa.array([ended.ranked.offset for ended in lists], pa.int32()),
        "pinned": pa.array([_pinned(ended) for ended in lists], pa.list_(pa.int16())),
        **{name: pa.array(rankings[name], ids) for name in _LISTS[1:]},
    }
    return pa.table(columns)


def _note_text(report: ConvertedStore) -> None:
    note = "ids that are integers are text in the log, as others are"
    if note not in report.notes:
        report.notes.append(note)


def _cut(ranking: list[ItemId] | None) -> list[ItemId] | None:
    return None if ranking is None else ranking[:LONGEST]


def _pinned(ended: EndedList) -> list[int]:
    shown = ended.ranked.why[: min(len(ended.items), LONGEST)]
    return [position for position, why in enumerate(shown, 1) if why == "p"]


def _propensities(ended: EndedList) -> list[float] | None:
    given = ended.ranked.propensity
    return None if given is None else given[: min(len(ended.items), LONGEST)]
