"""Small logs of random lists, and what is to be counted in them by the definitions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Row = tuple[Any, list[Any], list[int]]


def random_rows(seed: int, lists: int = 300, text: bool = True, longest: int = 5) -> list[Row]:
    """Query, ranking, clicks. Lists of several lengths, empty ones too, that repeat; clicks in any order, or twice."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for _ in range(lists):
        length = int(rng.integers(0, longest + 1))
        items = rng.permutation(length + 1)[:length]
        query = int(rng.integers(3))
        clicks = (rng.integers(0, length, int(rng.integers(0, 4))) + 1).tolist() if length else []
        rows.append((f"q{query}" if text else query, [f"u{i}" if text else int(i) for i in items], clicks))
    return rows


def write_log(path: Path, rows: list[Row], first: int = 0) -> Path:
    kind = pa.string() if isinstance(rows[0][0], str) else pa.int64()
    columns = {
        "query": pa.array([row[0] for row in rows], kind),
        "time": pa.array(range(first, first + len(rows))),
        "ranking": pa.array([row[1] for row in rows], pa.list_(kind)),
        "clicks": pa.array([row[2] for row in rows], pa.list_(pa.int16())),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


def count_ratios(rows: list[Row]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Without ranks, but those of clicks, and with any click above as 1."""
    return count_positions(rows, detailed=False)


def count_positions(rows: list[Row], detailed: bool = True) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """By query, item, rank and previous: views, clicks, examined, last clicks."""
    views: Counter[Any] = Counter()
    clicks: Counter[Any] = Counter()
    examined: Counter[Any] = Counter()
    last_clicks: Counter[Any] = Counter()
    for query, ranking, clicked in rows:
        last = max(clicked, default=0)
        for rank, item in enumerate(ranking, 1):
            previous = max((c for c in clicked if c < rank), default=0)
            key = query, item, rank, previous
            if not detailed:
                key = query, item, rank if rank in clicked else 0, min(previous, 1)
            views[key] += 1
            clicks[key] += rank in clicked
            examined[key] += not clicked or rank <= last
            last_clicks[key] += rank == last
    return {key: (views[key], clicks[key], examined[key], last_clicks[key]) for key in views}


def count_lists(rows: list[Row]) -> dict[tuple[Any, ...], int]:
    """By query, ranking and mask."""
    masks = (
        (query, tuple(ranking), sum(1 << (c - 1) for c in set(clicks))) for query, ranking, clicks in rows if ranking
    )
    return dict(Counter(masks))


def as_dict(kind: str, table: pa.Table) -> dict[tuple[Any, ...], Any]:
    """Statistics as the functions above give them."""
    rows = [tuple(row.values()) for row in table.to_pylist()]
    if kind != "lists":
        found: dict[tuple[Any, ...], Any] = {row[:4]: row[4:] for row in rows}
    else:
        found = {(row[0], tuple(row[1]), row[2]): row[3] for row in rows}
    assert len(found) == len(rows)  # one row for each
    return found


COUNT = {"ratios": count_ratios, "positions": count_positions, "lists": count_lists}
