"""The SQLite store beyond the contract: its errors when it cannot write, and its files."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from driftrank.serve.log.store.base import (
    Snapshot,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreInUse,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
)
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.log.store.sqlite_file import FORMAT, checksum
from tests.serve.log.store.benches import SQLiteBench
from tests.serve.log.store.disks import read_only, small_disk

REPOSITORY = Path(__file__).parents[4]


@pytest.fixture
def bench(tmp_path):
    return SQLiteBench(tmp_path / "store")


def entries(n, size=400, tag=""):
    return [(f"{tag}{i}", b'{"n":%d,"x":"%s"}' % (i, b"x" * size)) for i in range(n)]


def ids(store):
    return [entry.id for entry in store.read(0, 1_000_000)]


# -- files that go -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "-wal"])
def test_nothing_is_acknowledged_that_is_not_in_the_file(bench, tmp_path, part):
    with bench.open() as store:
        store.append([("a", b"{}")])
        file = Path(f"{store.path}{part}")
        file.rename(tmp_path / "elsewhere")
        for change in ("", "another file"):
            if change:
                file.write_text(change)
            with pytest.raises(StoreError, match="was removed or replaced while in use"):
                store.append([("b", b"{}")])
            with pytest.raises(StoreError, match="was removed or replaced while in use"):
                store.put_snapshots([Snapshot("probe", 0, b"")])
        (tmp_path / "elsewhere").replace(file)
        store.append([("b", b"{}")])
    with bench.open() as store:
        assert ids(store) == ["a", "b"]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("relaxed", 1)])
def test_settings_of_the_connection(bench, durability, synchronous):
    with bench.open(durability=durability) as store:
        pragmas = {
            name: store._writer.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "auto_vacuum", "busy_timeout")
        }
    assert pragmas == {"synchronous": synchronous, "journal_mode": b"wal", "auto_vacuum": 2, "busy_timeout": 5000}


def test_bodies_are_readable_with_sqlite(bench):
    with bench.open() as store:
        store.append([("a", b'{"n":5}')])
    assert bench.run("SELECT seq, id, json_extract(body, '$.n') FROM log") == [(1, "a", 5)]


def test_the_checksum_of_a_long_body_covers_the_whole():
    body = bytes(range(256)) * 100
    prefixed = b"7 name\n" + body
    assert checksum(7, b"name", body) == zlib.crc32(prefixed)
    assert checksum(7, b"name", body[:9]) == zlib.crc32(prefixed[:16])


def test_a_closed_store_is_one_file_and_the_lock(bench):
    with bench.open() as store:
        store.append(entries(100))
        assert store.size() > 40_000
    assert store.size() == bench.path.stat().st_size
    assert sorted(os.listdir(bench.path.parent)) == ["log.db", "log.db.lock"]


def test_the_file_shrinks_after_forgetting(bench):
    with bench.open() as store:
        for batch in range(20):
            store.append(entries(1000, tag=f"{batch}-"))
        before = store.size()
        while store.forget(19_000):
            pass
        assert len(ids(store)) == 1001
    with bench.open() as store:
        assert store.size() < before / 8


# -- other programs ----------------------------------------------------------------------------------------------------


def test_one_service_per_file(bench):
    with bench.open() as store:
        store.append(entries(1))
        with pytest.raises(StoreInUse, match=rf"is in use by another service \(process {os.getpid()}\)"):
            bench.open()
        assert ids(store) == ["0"]
    bench.open().close()


def test_links_lead_to_the_same_store(bench):
    link = bench.path.parent / "link.db"
    link.symlink_to(bench.path)
    with bench.open(), pytest.raises(StoreInUse):
        SQLiteStore(link)


def test_an_empty_lock_file(bench):
    with bench.open():
        Path(f"{bench.path}.lock").write_text("")
        with pytest.raises(StoreInUse, match="process unknown"):
            bench.open()


def test_a_program_that_is_writing_is_waited_for_and_then_reported(bench):
    with bench.open(timeout=0.2) as store:
        store.append(entries(1))
        with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for write in (
                lambda: store.append(entries(2)),
                lambda: store.append(entries(5000)),
                lambda: store.put_snapshots([Snapshot("a", 1, b"")]),
                lambda: store.put_snapshots([], gone=["a"]),
                lambda: store.forget(2),
            ):
                with pytest.raises(StoreLocked, match=r"log\.db: is locked by another program"):
                    write()
            assert ids(store) == ["0"]  # reading is possible
        assert store.append(entries(2)) == [(1, False), (3, True)]


def test_a_program_that_writes_for_a_moment_is_not_noticed(bench):
    with (
        bench.open() as store,
        closing(sqlite3.connect(bench.path, isolation_level=None, check_same_thread=False)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.1, other.execute, ["COMMIT"])
        timer.start()
        assert store.append(entries(2)) == [(1, True), (2, True)]
        timer.join()


def test_a_log_that_cannot_be_cut_now(bench):
    with bench.open(timeout=0.1) as store:
        store.append(entries(3))
        bench.spoil(2)
        with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked):
                store.verify(0)
        assert store.damage == []
        assert store.verify(0).entries == 2


def test_a_file_that_is_locked_when_it_is_opened(bench):
    bench.open().close()
    with closing(sqlite3.connect(bench.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked):
            bench.open(timeout=0.1)
    bench.open().close()


def test_a_program_that_has_written_to_the_log(bench):
    with bench.open() as store:
        store.append([("a", b"{}")])
        bench.run("INSERT INTO log VALUES (2, 'theirs', 0, '{}')")
        with pytest.raises(StoreError, match="another program has written to the log"):
            store.append([("b", b"{}"), ("c", b"{}")])
        with pytest.raises(StoreError, match="restart the service"):  # c may be in the log
            store.append([("d", b"{}")])
    with bench.open() as store:
        assert store.verify(0).seq == 2


class _ShortLog(SQLiteStore):
    wal_limit = 1 << 20


def test_a_reader_does_not_let_the_write_ahead_log_grow_without_bound(tmp_path):
    bench = SQLiteBench(tmp_path / "store", _ShortLog)
    wal = Path(f"{bench.path}-wal")
    with bench.open() as store, closing(sqlite3.connect(bench.path, isolation_level=None)) as reader:
        store.append(entries(10))
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchall()
        for batch in range(6):
            store.append(entries(1000, tag=f"a{batch}-"))
        assert wal.stat().st_size > _ShortLog.wal_limit
        reader.execute("COMMIT")
        for batch in range(3):
            store.append(entries(1000, tag=f"b{batch}-"))
            store.put_snapshots([Snapshot("s", 0, bytes(1000))])
        assert wal.stat().st_size <= 2 * _ShortLog.wal_limit
        assert len(ids(store)) == 9010


def test_readers_that_follow_each_other_do_not_either(tmp_path):
    bench = SQLiteBench(tmp_path / "store", _ShortLog)
    with bench.open() as store:
        done = threading.Event()

        def follow():
            while not done.is_set():
                store.read(max(0, store.last - 500))

        reader = threading.Thread(target=follow)
        reader.start()
        largest = 0
        try:
            for batch in range(40):
                store.append(entries(500, tag=f"{batch}-"))
                largest = max(largest, Path(f"{bench.path}-wal").stat().st_size)
        finally:
            done.set()
            reader.join()
        assert largest < 4 * _ShortLog.wal_limit  # 10 MB were written


# -- files that are not ours -------------------------------------------------------------------------------------------


def test_a_newer_format_is_left_alone(bench):
    with bench.open() as store:
        store.append(entries(3))
    bench.run("UPDATE meta SET value = value + 1 WHERE name = 'format'")
    before = bench.path.read_bytes()
    with pytest.raises(StoreTooNew, match=rf"newer driftrank \(format {FORMAT + 1}; this one reads {FORMAT}\); update"):
        bench.open()
    assert bench.path.read_bytes() == before
    bench.run("UPDATE meta SET value = value - 1 WHERE name = 'format'")
    with bench.open() as store:
        assert len(ids(store)) == 3


@pytest.mark.parametrize("content", [b"hello", b"# notes\n" * 1000, bytes(5000)])
def test_a_file_that_is_not_sqlite_is_left_alone(bench, content):
    bench.path.write_bytes(content)
    with pytest.raises(StoreError, match=r"log\.db: is not an SQLite file"):
        bench.open()
    assert bench.path.read_bytes() == content


def test_a_file_of_another_program_is_left_alone(bench):
    bench.run("CREATE TABLE meta(name, value)")
    before = bench.path.read_bytes()
    with pytest.raises(StoreError, match="is an SQLite file, but not a store of driftrank"):
        bench.open()
    assert bench.path.read_bytes() == before


def test_an_empty_file_becomes_a_store(bench):
    bench.path.touch()
    with bench.open() as store:
        assert store.append(entries(1)) == [(1, True)]


def test_paths_where_no_file_can_be(tmp_path):
    with pytest.raises(StoreError, match="no such folder"):
        SQLiteStore(tmp_path / "nowhere" / "a.db")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="unable to open database file"):
        SQLiteStore(tmp_path / "folder")
    SQLiteStore(tmp_path / "after.db").close()


def test_memory_is_an_ordinary_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SQLiteStore(":memory:") as store:  # a file of that name
        store.append(entries(1))
    assert (tmp_path / ":memory:").exists()


# -- disks that cannot be written to -----------------------------------------------------------------------------------


def test_a_read_only_folder(bench):
    with bench.open() as store:
        store.append(entries(3))
    before = bench.path.read_bytes()
    with read_only(bench.path.parent), pytest.raises(StoreReadOnly, match=r"log\.db: its folder cannot be written to"):
        bench.open()
    assert bench.path.read_bytes() == before
    with bench.open() as store:
        assert len(ids(store)) == 3


def test_a_read_only_folder_without_a_store(bench):
    with read_only(bench.path.parent), pytest.raises(StoreReadOnly):
        bench.open()


def test_a_read_only_file(bench):
    with bench.open() as store:
        store.append(entries(3))
    with read_only(bench.path), pytest.raises(StoreReadOnly, match=r"log\.db: cannot be written to"):
        bench.open()
    with bench.open() as store:
        assert len(ids(store)) == 3


def fill(store):
    """Append until the disk is full; the number of batches appended."""
    for batch in range(10_000):
        try:
            store.append(entries(50, tag=f"{batch}-"))
        except StoreFull:
            return batch
    raise AssertionError("it is never full")


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk", "3m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(1_000_000))
        with SQLiteStore(disk / "log.db") as store:
            batches = fill(store)
            assert batches > 0
            with pytest.raises(StoreFull, match=f"^{re.escape(str(store.path))}: the disk is full$"):
                store.append(entries(5000, tag="many-"))
            with pytest.raises(StoreFull):
                store.put_snapshots([Snapshot("a", 1, bytes(1_000_000))], gone=["b"])
            expected = [id for batch in range(batches) for id, _ in entries(50, tag=f"{batch}-")]
            assert ids(store) == expected
            assert store.last == len(expected)
            ballast.unlink()
            assert store.append([("after", b"{}")]) == [(len(expected) + 1, True)]
            assert store.verify(0) is None
        with SQLiteStore(disk / "log.db") as store:
            assert ids(store) == [*expected, "after"]
            assert store.damage == []


@pytest.mark.parametrize("size", [256_000, 200_000, 230_000])  # full at the lock, at the file, at its write-ahead log
def test_a_disk_that_is_full_at_the_start(tmp_path, size):
    with small_disk(tmp_path / "disk", "256000") as disk:
        (disk / "ballast").write_bytes(bytes(size))
        with pytest.raises(StoreFull, match="the disk is full"):
            SQLiteStore(disk / "log.db")
        (disk / "ballast").unlink()
        SQLiteStore(disk / "log.db").close()


def test_no_more_pages(bench):
    """The same without mounting a disk: SQLite's own limit of pages."""
    with bench.open() as store:
        store._writer.execute("PRAGMA max_page_count=100")
        batches = fill(store)
        assert len(ids(store)) == 50 * batches
        with pytest.raises(StoreFull):
            store.append(entries(5000, tag="many-"))
        assert not store._writer.in_transaction
        store._writer.execute("PRAGMA max_page_count=1000000")
        assert store.append([("after", b"{}")]) == [(50 * batches + 1, True)]


def test_a_disk_that_fails(bench):
    """A limit of the file size, which SQLite does not report as a full disk."""
    resource = pytest.importorskip("resource")
    with bench.open() as store:
        store.append(entries(10))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{bench.path}-wal").stat().st_size + 100_000, limits[1]))
        try:
            with pytest.raises(StoreError, match=r"log\.db: disk I/O error") as caught:
                store.append(entries(2000, tag="more-"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.type is StoreError
        assert store.last == 10
        assert store.append(entries(11)) == [*((n, False) for n in range(1, 11)), (21, True)]
        assert len(ids(store)) == 11


# -- crashes -----------------------------------------------------------------------------------------------------------

CHILD = """
import sys
from driftrank.serve.log.store.sqlite import SQLiteStore
store = SQLiteStore(sys.argv[1])
n = store.last
while True:
    size = 1 + n % 40
    settled = store.append([(f"id-{n + i}", b'{"n":%d}' % (n + i)) for i in range(size)])
    n = settled[-1][0]
    print(n, flush=True)
"""


def test_nothing_acknowledged_is_lost_by_kill(bench):
    acknowledged = 0
    chance = random.Random(0)
    for _ in range(20):
        command = [sys.executable, "-c", CHILD, str(bench.path)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
            first = child.stdout.readline()
            time.sleep(chance.random() * 0.05)
            child.send_signal(signal.SIGKILL)
            lines = [first, *child.stdout]
        acknowledged = max(int(line) for line in lines if line.endswith("\n"))
        with bench.open() as store:
            assert store.verify(0) is None
            assert store.damage == []
            log = store.read(0, 1_000_000)
            assert store.last >= acknowledged
            assert [(entry.seq, entry.id) for entry in log] == [(n + 1, f"id-{n}") for n in range(store.last)]
    assert acknowledged > 100


def test_the_lock_ends_with_its_process(bench):
    command = [sys.executable, "-c", CHILD, str(bench.path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as child:
        child.stdout.readline()
        with pytest.raises(StoreInUse, match=rf"process {child.pid}\)"):
            bench.open()
        child.kill()
    bench.open().close()


@pytest.fixture
def torn(tmp_path):
    """The files of a store with many entries in the write-ahead log only."""
    bench = SQLiteBench(tmp_path / "live")
    with bench.open() as store:
        for n in range(30):
            store.append([(f"{n}-{i}", b'{"x":"%s"}' % (b"x" * 300)) for i in range(10)])
        copy = SQLiteBench(tmp_path / "torn")
        for part in ("", "-wal"):
            shutil.copy(f"{bench.path}{part}", f"{copy.path}{part}")
    return copy


def prefix_of_whole_batches(bench):
    with bench.open() as store:
        assert store.verify(0) is None
        assert store.damage == []
        found = ids(store)
        assert len(found) % 10 == 0
        assert found == [f"{n}-{i}" for n in range(len(found) // 10) for i in range(10)]
        assert store.append([("next", b"{}")]) == [(len(found) + 1, True)]
    with bench.open() as store:
        assert ids(store) == [*found, "next"]
    return len(found)


def test_a_complete_write_ahead_log(torn):
    assert prefix_of_whole_batches(torn) == 300


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.3, 0.6, 0.95, 0.9999])
def test_a_truncated_write_ahead_log(torn, share):
    wal = Path(f"{torn.path}-wal")
    os.truncate(wal, int(wal.stat().st_size * share))
    assert prefix_of_whole_batches(torn) < 300


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_an_overwritten_write_ahead_log(torn, share):
    wal = Path(f"{torn.path}-wal")
    content = bytearray(wal.read_bytes())
    at = int(len(content) * share)
    content[at : at + 200] = random.Random(1).randbytes(200)
    wal.write_bytes(content)
    assert prefix_of_whole_batches(torn) < 300


def test_a_child_process_does_not_inherit_the_lock(bench):
    """So that another may open the store when its owner has closed it."""
    with bench.open():
        sleeper = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(5,))
        sleeper.start()
    try:
        bench.open().close()
    finally:
        sleeper.terminate()
        sleeper.join()


# -- damage ------------------------------------------------------------------------------------------------------------


def test_entries_that_are_cut_off_are_kept(bench):
    with bench.open() as store:
        store.append([(name, b'{"of":"%s"}' % name.encode()) for name in "abc"])
    bench.run("UPDATE log SET body = 'spoilt' WHERE seq = 2")
    with bench.open() as store:
        damage = store.verify(0)
        assert damage.kept == f"the table damaged of {bench.path}"
        assert damage.reason == "its checksum is wrong"
    kept = bench.run("SELECT seq, id, body, reason FROM damaged")
    assert kept == [(2, "b", "spoilt", "its checksum is wrong"), (3, "c", '{"of":"c"}', "its checksum is wrong")]


@pytest.mark.parametrize("body", ["[]", "{", "", "[" * 100_000])
def test_an_entry_that_is_not_a_json_object_is_damaged(bench, body):
    with bench.open() as store:
        store.append([("a", b"{}"), ("b", body.encode())])
        damage = store.verify(0)
        assert (damage.seq, damage.entries, damage.reason) == (2, 1, "it is not a JSON object")


def test_a_row_of_other_types_is_damaged(bench):
    with bench.open() as store:
        store.append(entries(3))
        bench.run("UPDATE log SET id = x'ff', body = 17 WHERE seq = 2")
        assert [entry.seq for entry in store.read(0)] == [1]
        with pytest.raises(StoreDamaged, match="entry 2 of the log is damaged"):
            store.read(1)
        assert store.verify(0).entries == 2


# -- speed -------------------------------------------------------------------------------------------------------------


def test_a_busy_thread_does_not_slow_every_row(bench):
    """A thread that runs Python code all the time costs a batch some ms, not every row of it."""
    done = threading.Event()

    def busy():
        while not done.is_set():
            sum(range(100))

    thread = threading.Thread(target=busy)
    with bench.open() as store:
        store.append(entries(300, tag="warm-"))
        thread.start()
        try:
            times = []
            for n in range(5):
                batch = entries(300, tag=f"{n}-")
                start = time.perf_counter()
                store.append(batch)
                times.append(time.perf_counter() - start)
        finally:
            done.set()
            thread.join()
    assert min(times) < 0.2  # 300 rows, each waiting for 5 ms, would be 1.5 s
