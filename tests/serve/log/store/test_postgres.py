"""What only a store in a database has: connections that are lost, and a log that may be cut behind its back."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from driftrank.serve.log.store.base import (
    LogCut,
    Snapshot,
    StoreError,
    StoreTooNew,
    StoreUnknown,
    open_reader,
    open_store,
)
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.log.store.postgres_connection import Address
from driftrank.serve.log.store.shared import NewEntry
from tests.serve.log.store.benches import PostgresBench


@pytest.fixture
def bench(postgres):
    return PostgresBench(postgres)


def test_nothing_is_said_of_what_is_settled(bench, caplog):
    """The driver's own warnings: a transaction that was interrupted, or an append whose connection was lost."""
    with bench.open() as store:

        def interrupted(connection):
            with connection.transaction():
                connection.pgconn.send_query(b"SELECT 1")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store._writer.run(interrupted)
        assert store.append([("a", b"{}")]) == [(1, True)]
    assert not caplog.records


def _lose_answers(store, monkeypatch, times, *, before=False):
    """Cut the connection before a statement reaches the server, or after it is committed."""
    run = store._writer.run
    left = [times]

    def losing(work):
        def lost(connection):
            if not left[0]:
                return work(connection)
            left[0] -= 1
            if not before:
                work(connection)
            with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                wire.shutdown(socket.SHUT_RDWR)
            return connection.execute("SELECT 1")

        return run(lost)

    monkeypatch.setattr(store._writer, "run", losing)


@pytest.mark.parametrize("before", [True, False], ids=["request", "answer"])
def test_a_lost_connection_is_settled_by_ids(bench, monkeypatch, before):
    with bench.open() as store:
        store.append([("old", b"{}")])
        _lose_answers(store, monkeypatch, 2, before=before)
        settled = store.append([("a", b'{"n":1}'), ("old", b"{}"), ("b", b'{"n":2}')])
        assert [new for _, new in settled] == [True, False, True]
        assert store.doubts == (0 if before else 2)
        assert [entry.id for entry in store.read(0)] == ["old", "a", "b"]


def test_in_doubt_an_entry_of_another_is_not_taken_for_ones_own(bench, monkeypatch):
    with bench.open() as store, bench.open() as other:
        other.append([("a", b'{"by":"other"}')])
        _lose_answers(store, monkeypatch, 1)
        assert store.append([("a", b'{"by":"us"}')]) == [(1, False)]


def test_a_connection_that_stays_lost_leaves_the_outcome_unknown(bench, monkeypatch):
    with bench.open(patience=0.1) as store:
        _lose_answers(store, monkeypatch, 100)
        with pytest.raises(StoreUnknown, match="cannot be reached"):
            store.append([("a", b"{}")])


def test_nobody_who_is_in_a_hurry_waits_for_a_database_that_does_not_answer(bench):
    """What it was sent is unknown; all that comes after it fails at once."""
    with bench.open() as store, psycopg.connect(bench.cluster.conninfo) as locked:
        store.append([("a", b"{}")])
        locked.execute(f"LOCK TABLE {bench.schema}.log")
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(store.append, [("b", b"{}")])
            while not locked.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                time.sleep(0.01)
            store.hurry(0.1)
            with pytest.raises(StoreUnknown, match="cannot be reached"):
                sent.result()
        for late in (lambda: store.append([("c", b"{}")]), store.flush):
            with pytest.raises(StoreError, match="the store is closed"):
                late()


def test_a_store_in_a_hurry_works_as_long_as_the_database_answers(bench):
    with bench.open() as store:
        store.hurry(60)
        store._writer._disconnect()
        assert store.append([("a", b"{}")]) == [(1, True)]
        assert len(store.read(0)) == 1


def test_a_cancelled_wait_for_the_standby_is_no_success(bench, monkeypatch):
    class Notice:
        sqlstate = "01000"
        message_primary = "canceling wait for synchronous replication due to user request"

    with bench.open() as store:
        run, told = store._writer.run, []

        def warned(work):
            def work_and_warn(connection):
                out = work(connection)
                if not told:
                    told.append(store._writer._notice(Notice()))
                return out

            return run(work_and_warn)

        monkeypatch.setattr(store._writer, "run", warned)
        assert store.append([("a", b"{}")]) == [(1, True)]
        assert store.doubts == 1


def test_a_cut_log_is_noticed_after_a_lost_connection(bench):
    with bench.open() as store, bench.open() as reader:
        store.append([("a", b"{}"), ("b", b"{}")])
        assert len(reader.follow(0)) == 2
        bench.cluster.run(f"DELETE FROM {bench.schema}.log WHERE seq = 2")
        bench.cluster.run(f"INSERT INTO {bench.schema}.log VALUES (2, 0, 0, 0, 0, 'other', '{{}}')")  # the same number
        reader._writer._disconnect()
        with pytest.raises(LogCut, match="entry 2, read before, is gone"):
            reader.follow(2)
        assert reader.follow(2) == []  # it begins again


def test_a_forgotten_entry_is_no_cut(bench):
    with bench.open() as store:
        store.append([("a", b"{}")])
        store.forget(2)
        store._writer._disconnect()
        assert store.follow(1) == []


@pytest.mark.parametrize("gone", [False, True], ids=["put", "dropped"])
def test_services_that_write_the_same_snapshots_do_not_wait_for_each_other(bench, postgres, gone):
    """Both lock the rows in one order, in whichever they are given. Else the database ends one after a second."""
    names = ["q/default/a", "q/default/b"]
    rows = f"SELECT 1 FROM {bench.schema}.snapshots WHERE name = %s FOR UPDATE NOWAIT"
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
    with bench.open() as store, ThreadPoolExecutor(1) as pool, psycopg.connect(postgres.conninfo) as other:
        store.put_snapshots([Snapshot(name, 1, b"x") for name in names])
        other.execute(rows, (names[0].encode(),))
        snapshots = [] if gone else [Snapshot(name, 2, b"y") for name in names[::-1]]
        writing = pool.submit(store.put_snapshots, snapshots, names[::-1] if gone else (), before=2)
        for _ in range(3000):
            if postgres.run(waits, f"%{bench.schema}%"):
                break
            time.sleep(0.01)
        other.execute(rows, (names[1].encode(),))  # raises if the writer has it
        other.rollback()
        writing.result(30)
        assert [store.get_snapshot(name) is None for name in names] == [gone, gone]


def test_long_ids_keep_their_identity(bench):
    ids = ["é" * 2000 + end for end in "ab"]
    with bench.open() as store:
        assert store.append([(id, b"{}") for id in ids]) == [(1, True), (2, True)]
        assert store.append([(ids[1], b"{}")]) == [(2, False)]
        assert set(store.find(ids)) == set(ids)


def test_a_clock_that_is_ahead_is_refused(bench):
    with bench.open() as store:
        clock = store.clock()
        store.append_entries([NewEntry("b", b"{}", time=clock + 2)])
        with pytest.raises(StoreError, match=r"the clock of this machine is .* s ahead of the database"):
            store.append_entries([NewEntry("c", b"{}", time=clock + 60)])


def test_an_ordinary_role_is_enough(bench, postgres):
    role = f"r_{bench.schema}"
    postgres.run(f"CREATE ROLE {role} LOGIN")
    url = bench.url.replace("driftrank@", f"{role}@")
    with pytest.raises(StoreError, match="permission denied"):
        open_store(url)
    postgres.run(f"CREATE SCHEMA {bench.schema} AUTHORIZATION {role}")
    with open_store(url) as store:
        assert store.append([("a", b"{}")]) == [(1, True)]
        assert store.put_snapshots([]) is None
    postgres.run(f"ALTER SCHEMA {bench.schema} OWNER TO driftrank")
    with pytest.raises(StoreError, match=f"permission denied for schema {bench.schema}$"):
        open_store(url)


def test_a_newer_format_is_refused(bench):
    bench.open().close()
    bench.cluster.run(f"UPDATE {bench.schema}.meta SET value = 2 WHERE name = 'format'")
    with pytest.raises(StoreTooNew, match="format 2; this one reads 1"):
        bench.open()


def test_a_reader_sees_what_is_written(bench):
    with pytest.raises(ValueError, match="it does not exist"):
        open_reader(bench.url)
    with bench.open() as store:
        store.append([("r/shop/1/a", b"{}"), ("r/zoo/1/b", b"{}")])
        reader = open_reader(bench.url)
        assert reader.last == 2
        assert [entry.id for entry in reader.read(0)] == ["r/shop/1/a", "r/zoo/1/b"]
        assert reader.next_id("r/shop0") == "r/zoo/1/b"
        assert reader.next_id("s") is None
        reader.close()


def test_the_password_is_not_shown():
    address = Address("postgresql://me:secret@a:1,b:2/shop?schema=x%25y&sslmode=require")
    assert str(address) == "postgresql://me@a:1,b:2/shop?schema=x%y"
    assert "sslmode=require" in address.conninfo
    assert "connect_timeout=3" in address.conninfo
    assert "schema" not in address.conninfo


@pytest.mark.parametrize("password", ["se%zzcret", "sec ret", "secret%"])
def test_a_password_that_is_not_encoded_is_refused_without_showing_it(password):
    with pytest.raises(ValueError, match=r"^store: must have special characters of user and password as %XX, such as"):
        PostgresStore(f"postgresql://me:{password}@127.0.0.1:1/db")


def test_unusual_names_of_schemas(postgres):
    url = postgres.url("odd%25%22%20name")
    for _ in range(2):
        with PostgresStore(url) as store:
            store.append([("a", b"{}")])
            assert len(store.read(0)) == 1
            assert store.size() > 0


@pytest.mark.parametrize("schema", ["", "pg_x", "x" * 64])
def test_invalid_schemas(schema):
    with pytest.raises(ValueError, match=r"schema=.*: must be the name of a schema"):
        open_store(f"postgresql://localhost/db?schema={schema}")


def test_an_address_that_is_none():
    with pytest.raises(ValueError, match=r"store: must be an address such as postgresql://.*Invalid IPv6"):
        open_store("postgresql://me:secret@[::1/db")


@pytest.mark.parametrize("host", ["127.0.0.1:odd", "127.0.0.1:99999", "127.0.0.1:1"])
def test_what_cannot_become_right_is_not_tried_again(host):
    with pytest.raises(StoreError, match="invalid") as raised:
        PostgresStore(f"postgresql://x@{host}/db?sslmode=odd", patience=60)
    assert not isinstance(raised.value, StoreUnknown)


def test_a_server_that_is_not_there():
    with pytest.raises(StoreError, match="cannot be reached"):
        PostgresStore("postgresql://x@127.0.0.1:1/db", patience=0.1)
