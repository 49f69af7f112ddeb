"""Files that SQLite itself finds damaged."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from driftrank.serve.log.store.base import LogEntry, Snapshot, StoreDamaged, StoreFull, StoreLocked
from tests.serve.log.store.benches import SQLiteBench
from tests.serve.log.store.disks import small_disk

PAGE = 4096


def entry(n):
    return f"id-{n:05}-{n * 7919 % 1000:03}", b'{"body-%05d":"%s"}' % (n, b"x" * 300)


def fill(bench):
    with bench.open() as store:
        store.append([entry(n) for n in range(1000)])
        store.put_snapshots([Snapshot(f"s{n:03}", n, b"state-%03d-" % n + b"y" * 500) for n in range(200)])
    return bench


@pytest.fixture
def bench(tmp_path):
    return fill(SQLiteBench(tmp_path / "store"))


def pages_with(path, text):
    content = path.read_bytes()
    return [found.start() // PAGE for found in re.finditer(re.escape(text), content)]


def scribble(path, page, start=0, length=PAGE):
    with path.open("r+b") as file:
        file.seek(page * PAGE + start)
        file.write(b"\xee" * length)


def asides(bench):
    return [name for name in os.listdir(bench.path.parent) if ".damaged-" in name]


def log_page(path, n):
    (page,) = pages_with(path, b'"body-%05d"' % n)
    return page


def index_page(path, n):
    """The page of the index of ids with that of entry n."""
    (page,) = set(pages_with(path, entry(n)[0].encode())) - {log_page(path, n)}
    return page


def test_a_page_of_the_log(bench):
    scribble(bench.path, log_page(bench.path, 600))
    with bench.open() as store:
        assert store.damage == []  # not read yet
        damage = store.verify(0)
        assert store.damage == [damage]
        assert 580 < damage.seq <= 601
        assert damage.entries == 1001 - damage.seq
        assert "malformed" in damage.reason
        assert store.read(0) == [LogEntry(n + 1, *entry(n)) for n in range(damage.seq - 1)]
        assert store.last == 1000
        assert store.append([entry(600)]) == [(1001, True)]
        assert len(store.snapshot_names("")) == 200
        assert store.get_snapshot("s100").seq == 100
    assert asides(bench) == [Path(damage.kept).name]
    assert re.fullmatch(r"log\.db\.damaged-\d{8}T\d{6}Z", Path(damage.kept).name)
    with bench.open() as store:
        assert store.damage == []
        assert store.verify(0) is None
    assert bench.run("PRAGMA integrity_check") == [("ok",)]
    assert bench.run("PRAGMA auto_vacuum") == [(2,)]
    assert Path(f"{damage.kept}").stat().st_mode == bench.path.stat().st_mode


def test_a_page_of_the_index_costs_nothing(bench):
    """It is found while the service runs, and repaired at the next start."""
    scribble(bench.path, index_page(bench.path, 600))
    with bench.open() as store:
        assert store.verify(0) is None  # the log itself is intact
        with pytest.raises(
            StoreDamaged, match=r"log\.db: is damaged \(.*malformed\); it is rebuilt when the service is"
        ):
            store.append([entry(n) for n in range(590, 610)])
        with pytest.raises(StoreDamaged):
            store.find([entry(600)[0]])
    with bench.open() as store:
        (damage,) = store.damage
        assert (damage.seq, damage.entries) == (1001, 0)
        assert "No entry is lost" in str(damage)
        assert store.append([entry(600), entry(1000)]) == [(601, False), (1002, True)]
        assert len(store.read(0)) == 1001
    with bench.open() as store:
        assert store.damage == []


def test_a_page_of_snapshots(bench):
    """Only those on it are lost."""
    (page,) = pages_with(bench.path, b"state-100-")
    scribble(bench.path, page)
    with bench.open() as store:
        assert store.get_snapshot("s100") is None
        assert store.get_snapshot("s100") is None
        assert [damage.snapshot for damage in store.damage] == ["s100"]
        assert store.get_snapshot("s010").seq == 10
    with bench.open() as store:
        names = store.snapshot_names("")
        assert 185 < len(names) < 200
        assert all(store.get_snapshot(name) for name in names)
        assert {"s000", "s199"} <= set(names)
        assert len(store.read(0)) == 1000


def test_numbers_in_snapshots_are_not_assigned_again(bench):
    with bench.open() as store:
        store.put_snapshots([Snapshot("far", 5000, b"")])
    scribble(bench.path, log_page(bench.path, 0))
    with bench.open() as store:
        damage = store.verify(0)
        assert damage.seq == 1
        assert damage.entries == 1000
        assert store.last == 5000
        assert store.read(0) == []
        assert len(store.snapshot_names("")) == 201


def test_entries_in_the_write_ahead_log_are_rescued_too(tmp_path, bench):
    copy = SQLiteBench(tmp_path / "copy")
    with bench.open() as store:
        store.append([("late", b"{}")])
        for part in ("", "-wal"):
            Path(f"{copy.path}{part}").write_bytes(Path(f"{bench.path}{part}").read_bytes())
    scribble(copy.path, index_page(copy.path, 600))
    Path(f"{copy.path}.broken").touch()
    with copy.open() as store:
        assert store.damage[0].reason == "SQLite found it damaged while in use"
        assert store.read(1000) == [LogEntry(1001, "late", b"{}")]
    assert not Path(f"{copy.path}.broken").exists()


def test_the_root_of_the_log(bench):
    """No entry can be read; their number is unknown."""
    ((root,),) = bench.run("SELECT rootpage FROM sqlite_master WHERE name = 'log'")
    scribble(bench.path, root - 1)
    with bench.open() as store:  # found at once, by reading the last number
        (damage,) = store.damage
        assert (damage.seq, damage.entries) == (1, None)
        assert store.read(0) == []
        assert store.get_snapshot("s199").seq == 199
        assert store.last == 199
        assert store.append([entry(0)]) == [(200, True)]


def test_nothing_can_be_read(bench):
    scribble(bench.path, 0, start=100)  # the schema table
    before = bench.path.read_bytes()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="nothing in it can be read; it is left unchanged"):
            bench.open()
        assert bench.path.read_bytes() == before
        assert sorted(os.listdir(bench.path.parent)) == ["log.db", "log.db.lock"]


def test_an_empty_store_that_is_rebuilt(tmp_path):
    bench = SQLiteBench(tmp_path / "empty")
    bench.open().close()
    Path(f"{bench.path}.broken").touch()
    with bench.open() as store:
        assert store.damage[0].entries == 0
        assert store.append([entry(0)]) == [(1, True)]


def test_twice_in_a_second(bench):
    for _ in range(3):
        Path(f"{bench.path}.broken").touch()
        bench.open().close()
    assert len(asides(bench)) == 3


def test_leftovers_of_an_earlier_attempt(bench):
    Path(f"{bench.path}.rebuilding").write_bytes(b"half of it")
    Path(f"{bench.path}.broken").touch()
    with bench.open() as store:
        assert len(store.read(0)) == 1000
    assert not Path(f"{bench.path}.rebuilding").exists()


def test_a_damaged_entry_in_a_file_that_is_rebuilt(bench):
    """The new log ends before it, as a cut one would."""
    bench.spoil(501)
    Path(f"{bench.path}.broken").touch()
    with bench.open() as store:
        assert (store.damage[0].seq, store.damage[0].entries) == (501, 500)
        assert len(store.read(0)) == 500
        assert store.last == 1000


def test_a_damaged_page_behind_a_damaged_entry(bench):
    """The log cannot be cut in place, so the file is rebuilt."""
    bench.spoil(501)
    scribble(bench.path, log_page(bench.path, 700))
    with bench.open() as store:
        damage = store.verify(0)
        assert (damage.seq, damage.entries) == (501, 500)
        assert len(asides(bench)) == 1
        assert len(store.read(0)) == 500


def test_a_reading_program_prevents_it(bench):
    """The old file is unchanged."""
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
        other.execute("INSERT INTO damaged VALUES ('', '', 0, '', 0, '')")  # something is in the write-ahead log
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM log").fetchall()
        Path(f"{bench.path}.broken").touch()
        with pytest.raises(StoreLocked, match="must be rebuilt, but is locked by another program"):
            bench.open(timeout=0.1)
        assert asides(bench) == []
    with bench.open() as store:
        assert len(store.read(0)) == 1000


def test_a_program_that_has_the_file_open_keeps_the_old_one(bench):
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
        assert other.execute("SELECT count(*) FROM log").fetchall() == [(1000,)]
        Path(f"{bench.path}.broken").touch()
        with bench.open() as store:
            store.append([entry(1000)])
            other.execute("INSERT INTO damaged VALUES ('', '', 0, '', 0, '')")
            assert other.execute("SELECT count(*) FROM log").fetchall() == [(1000,)]
            assert len(store.read(0)) == 1001
    with bench.open() as store:
        assert len(store.read(0)) == 1001
    assert bench.run("SELECT * FROM damaged") == []


def test_a_file_system_without_links(bench, monkeypatch):
    def link(source, target):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", link)
    Path(f"{bench.path}.broken").touch()
    with bench.open() as store:
        assert len(store.read(0)) == 1000
    assert len(asides(bench)) == 1


def test_no_space_for_the_new_file(tmp_path):
    with small_disk(tmp_path / "disk", "1500k") as disk:
        bench = fill(SQLiteBench(disk))
        Path(f"{bench.path}.broken").touch()
        (disk / "ballast").write_bytes(bytes(800_000))
        before = bench.path.read_bytes()
        with pytest.raises(StoreFull):
            bench.open()
        assert bench.path.read_bytes() == before
        assert asides(bench) == []
