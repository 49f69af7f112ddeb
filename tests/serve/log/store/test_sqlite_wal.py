"""The write-ahead log: moved into the file beside the writer, never in a commit."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from driftrank.serve.log.store import sqlite_wal
from driftrank.serve.log.store.base import Snapshot
from tests.serve.log.store.benches import SQLiteBench


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A store whose log is moved every 50 kB, and begins again from 400 kB on."""
    monkeypatch.setattr(sqlite_wal, "_MOVE", 50_000)
    monkeypatch.setattr(sqlite_wal, "_LONG", 100)
    return SQLiteBench(tmp_path / "store")


def batch(n):
    return [(f"{n}-{i}", b'{"x":"%s"}' % (b"x" * 1000)) for i in range(20)]


def movers():
    return [thread for thread in threading.enumerate() if thread.name == "driftrank-wal"]


def test_the_log_is_moved_beside_the_writer_and_begins_again(bench):
    wal, until = Path(f"{bench.path}-wal"), time.monotonic() + 60
    with bench.open() as store:
        assert store._writer.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
        n = 0
        while n < 100 or wal.stat().st_size > 20_000 * n / 2:  # half of what was written
            store.append(batch(n))
            store.put_snapshots([Snapshot("s", n, bytes(1000))])
            n += 1
            assert time.monotonic() < until, "the log never began again"
        assert bench.path.stat().st_size > 500_000
        assert len(store.read(0, 1_000_000)) == 20 * n
    assert not movers()


def test_little_is_moved_only_at_the_end(bench):
    with bench.open() as store:
        store.append(batch(0))
        assert not movers()


def test_a_store_can_be_closed_while_its_log_is_moved(bench):
    n = 0
    for _ in range(5):
        with bench.open() as store:
            for _ in range(10):
                store.append(batch(n))
                n += 1
    with bench.open() as store:
        assert store.verify(0) is None
        assert len(store.read(0, 1_000_000)) == 20 * n


def test_closing_does_not_wait_for_a_mover_that_waits_for_the_writer(bench, monkeypatch):
    waiting = threading.Event()
    monkeypatch.setattr(sqlite_wal, "_FEW", 1_000_000)
    real = sqlite_wal._moved

    def moved(connection):
        waiting.set()
        return max(200, real(connection)[0]), 0

    monkeypatch.setattr(sqlite_wal, "_moved", moved)
    store = bench.open()
    with store._writing:  # as a commit does that takes for ever
        for n in range(4):
            store.append(batch(n))
        assert waiting.wait(60)
        store.close()
    assert not movers()
