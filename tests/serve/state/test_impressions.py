from __future__ import annotations

from pathlib import Path

from driftrank.serve.log.records import Ranked
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.state.impressions import Impression, Impressions


def an_impression(n: int, candidates: int) -> Impression:
    items: list[str | int] = [f"{n}-{m}" for m in range(candidates)]
    return Impression(n, Ranked("default", "q", f"e{n}", 1.0 + n, 1, items[:3], "lll", n, [None] * 3, items=items))


def test_impressions_in_memory_are_bounded_by_number_and_by_size(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "x.db") as store:
        few = Impressions(store, kept=10)
        for n in range(1, 31):
            few.add(an_impression(n, 5))
        assert [n for n in range(1, 31) if few.cached("default", 1, f"e{n}")] == [*range(21, 31)]

        long = Impressions(store, kept_bytes=1_000_000)
        for n in range(1, 31):
            long.add(an_impression(n, 1000))  # 100 kB each
            assert long.nbytes <= 1_000_000
        assert [n for n in range(1, 31) if long.cached("default", 1, f"e{n}")] == [*range(22, 31)]
        assert [n for n in range(1, 31) if long.in_memory(n)] == [*range(22, 31)]

        larger_than_all = an_impression(31, 20_000)
        long.add(larger_than_all)
        assert long.cached("default", 1, "e31") is larger_than_all
        long.add(larger_than_all)  # again: it is held once
        assert long.nbytes == larger_than_all.nbytes
        assert long.cached("default", 32, "e31") is None, "of a ranker that was deleted, and created again since"
