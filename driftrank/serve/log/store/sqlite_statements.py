"""The statements of the SQLite store, for many rows at once; few different ones, so that all stay compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

#: rows of one statement at most; SQLite allows 32,766 parameters
MAX_ROWS = 4096

SELECT_AFTER = "SELECT seq, id, crc, body FROM log WHERE seq > ? ORDER BY seq LIMIT ?"
SELECT_LAST = "SELECT max((SELECT coalesce(max(seq), 0) FROM log), (SELECT value FROM meta WHERE name = 'last'))"


def capacity(n: int) -> int:
    """The least power of two not below n, so that few different statements are compiled."""
    return 1 << (n - 1).bit_length()


def padded(values: Sequence[Any], width: int) -> list[Any]:
    """Values in rows of ``width``, filled up to the capacity with NULL, which matches nothing."""
    return [*values, *[None] * (width * capacity(len(values) // width) - len(values))]


def parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The values, as many at a time as a statement allows."""
    return (values[start : start + MAX_ROWS] for start in range(0, len(values), MAX_ROWS))


def _marks(n: int) -> str:
    return ", ".join("?" * n)


@cache
def insert_entries(n: int) -> str:
    return f"INSERT OR IGNORE INTO log VALUES {', '.join(['(?, ?, ?, ?)'] * n)}"


@cache
def upsert_snapshots(n: int) -> str:
    return (
        f"INSERT OR IGNORE INTO snapshots VALUES {', '.join(['(?, ?, ?, ?)'] * n)}"
        " ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, crc = excluded.crc, body = excluded.body"
        " WHERE snapshots.seq <= excluded.seq"
    )


@cache
def select_by_id(columns: str, n: int) -> str:
    return f"SELECT {columns} FROM log WHERE id IN ({_marks(n)})"


@cache
def select_by_number(n: int) -> str:
    return f"SELECT seq, id, crc, body FROM log WHERE seq IN ({_marks(n)}) ORDER BY seq"


@cache
def delete_snapshots(n: int) -> str:
    return f"DELETE FROM snapshots WHERE name IN ({_marks(n)}) AND seq < ?"


def end_of_prefix(prefix: str) -> Any:
    """A bound above every text that begins with ``prefix``; at worst a blob, which SQLite sorts after all texts."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return b""
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if code == 0xD800 else code)
