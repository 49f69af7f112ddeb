from __future__ import annotations

import json
import re

import pytest

from driftrank.cli.app import commands, run
from driftrank.serve.log.records import Ranked, Withdrawn, encode
from driftrank.serve.log.store.base import Snapshot
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.log.store.sqlite import SQLiteStore
from tests.serve.harness import Harness
from tests.serve.log.store.benches import PostgresBench, SQLiteBench

RECORD = encode(Withdrawn("default", "x", 0.0))


@pytest.mark.parametrize("command", commands()["store"])
def test_help_has_examples(command, capsys):
    assert run(["store", command, "--help"]) == 0
    assert f"\n  driftrank store {command}" in capsys.readouterr().out


def test_create_is_done_once(postgres, capsys):
    url = postgres.url()
    for _ in range(2):
        assert run(["store", "create", url]) == 0
        assert capsys.readouterr().out == "the store is there, with 0 entries so far\n"


def test_a_copy_has_the_numbers_of_the_original(postgres, tmp_path, capsys):
    with Harness(tmp_path) as h:
        for event in ("a", "b", "c"):
            h.rank("shoes", ["x", "y"], event)
        h.feedback("b", [1])
        h.rank("hats", ["x", "y"], "d", defer=True)
        h.activate("d")
        h.checkpoint()
        log = h.store.read(0)
        names = h.store.snapshot_names("")
        numbers = {record.event_id: seq for seq, record in h.log() if isinstance(record, Ranked)}
    url, source = postgres.url(), f"sqlite:///{tmp_path}/service.db"
    for _ in range(2):  # again: it goes on, and changes nothing
        assert run(["store", "copy", source, url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"entries": len(log), "snapshots": len(names)}
    with PostgresStore(url) as store:
        assert store.read(0) == log
        assert store.last == log[-1].seq
        assert store.snapshot_names("") == names
        schema = url.partition("schema=")[2]
        rows = postgres.run(f"SELECT seq, key, impression FROM {schema}.log ORDER BY seq")
        key = {seq: key for seq, key, _ in rows}
        about = {entry.id[:2]: impression for entry, (_, _, impression) in zip(log, rows, strict=True)}
        assert about["f/"] == numbers["b"]
        assert about["a/"] == numbers["d"]
        assert key[numbers["a"]] == key[numbers["b"]] != key[numbers["d"]] != 0
        store.append([("new", b"{}")])
        assert store.last == log[-1].seq + 1
    assert run(["store", "copy", source, f"sqlite:///{tmp_path}/other.db"]) == 2
    assert "must be a store of several services" in capsys.readouterr().err
    assert not (tmp_path / "other.db").exists()


def test_a_copy_of_what_does_not_exist_is_refused(postgres, tmp_path, capsys):
    """An empty store was created and copied: a wrong path passed for a copy."""
    for source in (f"sqlite:///{tmp_path}/no.db", postgres.url()):
        assert run(["store", "copy", source, postgres.url()]) == 2
        assert re.search("no such file|does not exist", capsys.readouterr().err)
    assert not list(tmp_path.iterdir())


def test_a_copy_into_another_log_is_refused(postgres, tmp_path, capsys):
    url = postgres.url()
    with PostgresStore(url) as store:
        store.append([("x", b"{}")])
    with Harness(tmp_path):
        pass
    assert run(["store", "copy", f"sqlite:///{tmp_path}/service.db", url]) == 2
    assert "entry 1 is another one here: this is not the same log" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["went on", "began otherwise", "has more", "has it elsewhere"])
def test_a_copy_is_refused_where_the_logs_differ_later(postgres, tmp_path, capsys, what):
    """Nothing that either store has acknowledged may be lost without a word."""
    with Harness(tmp_path) as h:
        for event in "abc":
            h.rank("shoes", ["x", "y"], event)
        log = h.store.read(0)
    url, source = postgres.url(), f"sqlite:///{tmp_path}/service.db"
    assert run(["store", "copy", source, url]) == 0
    schema = url.partition("schema=")[2]
    last = log[-1].seq
    if what == "went on":  # both were used after the copy
        with PostgresStore(url) as store:
            store.append([("theirs", RECORD)])
        with SQLiteStore(tmp_path / "service.db") as store:
            store.append([("ours", RECORD)])
        last += 1
    elif what == "began otherwise":
        postgres.run(f"UPDATE {schema}.log SET body = body || ' ' WHERE seq = %s", last)
    elif what == "has more":
        with SQLiteStore(tmp_path / "service.db") as store:
            store.append([("gone", RECORD), ("ours", RECORD)])
            store._writer.execute("DELETE FROM log WHERE id = 'gone'")
        last += 1
        with PostgresStore(url) as store:
            store.append([("theirs", RECORD)])
    else:
        postgres.run(f"UPDATE {schema}.log SET seq = seq + 7 WHERE seq = %s", last)
    capsys.readouterr()
    before = postgres.run(f"SELECT * FROM {schema}.log ORDER BY seq")
    assert run(["store", "copy", source, url]) == 2
    assert f"entry {last} is another one here: this is not the same log" in capsys.readouterr().err
    assert postgres.run(f"SELECT * FROM {schema}.log ORDER BY seq") == before


def test_a_store_in_use_is_not_copied_into(postgres, tmp_path, capsys):
    url = postgres.url()
    with Harness(tmp_path):
        pass
    source = f"sqlite:///{tmp_path}/service.db"
    with PostgresStore(url) as store:
        store.announce("n1#1", "", 0)
        assert run(["store", "copy", source, url]) == 2
        assert re.search("node n1 used the store . s ago: stop all nodes first", capsys.readouterr().err)
        store.leave("n1#1")
    assert run(["store", "copy", source, url]) == 0


def test_verify_finds_damage_and_cuts_only_if_asked(postgres, capsys):
    url = postgres.url()
    with PostgresStore(url) as store:
        store.append([(id, b"{}") for id in "abc"])
    assert run(["store", "verify", url]) == 0
    assert capsys.readouterr().out == "3 entries and 0 snapshots, all intact\n"
    schema = url.partition("schema=")[2]
    postgres.run(f"UPDATE {schema}.log SET body = 'x' WHERE seq = 2")
    for _ in range(2):
        assert run(["store", "verify", url]) == 1
        assert capsys.readouterr().out.startswith("1 entries are intact, then: postgresql://")
    assert run(["store", "verify", url, "--cut"]) == 0
    assert "the log is cut before entry 2: its checksum is wrong. 2 entries are cut off" in capsys.readouterr().out
    assert run(["store", "verify", url]) == 0
    assert run(["store", "verify", f"{url}_none"]) == 2
    assert "it does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_verify_finds_damaged_snapshots(postgres, tmp_path, capsys, kind):
    bench = SQLiteBench(tmp_path) if kind == "sqlite" else PostgresBench(postgres)
    url = f"sqlite:///{bench.path}" if kind == "sqlite" else bench.url
    names = ["checkpoint", "q/shop/a", "q/shop/b"]
    with bench.open() as store:
        store.put_snapshots([Snapshot(name, 1, b"x") for name in names])
    assert run(["store", "verify", url]) == 0
    assert capsys.readouterr().out == "0 entries and 3 snapshots, all intact\n"
    bench.spoil_snapshot(names[1])
    assert run(["store", "verify", url]) == 1
    assert capsys.readouterr().out == "the snapshot 'q/shop/a' is damaged\n"


def test_a_store_in_use_is_cut_only_by_force(postgres, capsys):
    url = postgres.url()
    with PostgresStore(url) as store:
        store.append([("a", b"{}"), ("b", b"no object")])
        store.announce("n1#1", "", 2)
        assert run(["store", "verify", url, "--cut"]) == 2
        assert re.search("node n1 used the store . s ago: stop all nodes first", capsys.readouterr().err)
        assert len(store.read(0)) == 2
        assert run(["store", "verify", url, "--cut", "--force"]) == 0
        assert "1 entry is cut off" in capsys.readouterr().out
        assert len(store.read(0)) == 1


def test_nodes_lists_services(postgres, tmp_path, capsys):
    url = postgres.url()
    assert run(["store", "nodes", url]) == 2
    assert "it does not exist" in capsys.readouterr().err
    with PostgresStore(url) as store:
        assert run(["store", "nodes", url]) == 0
        assert capsys.readouterr().out == "no service uses the store\n"
        store.append([("a", b"{}"), ("b", b"{}")])
        store.announce("n1#1", "http://127.0.0.1:8080", 1)
        store.lease("keeper", "n1#1", 10)
        assert run(["store", "nodes", url]) == 0
        line = capsys.readouterr().out.splitlines()[2].split()
        assert line[:3] + line[4:] == ["n1", "http://127.0.0.1:8080", "1", "keeper"]
        assert run(["store", "nodes", url, "--json"]) == 0
        (node,) = json.loads(capsys.readouterr().out)
        assert (node["name"], node["behind"], node["keeper"]) == ("n1", 1, True)
    assert run(["store", "nodes", f"sqlite:///{tmp_path}/a.db"]) == 2
    assert "must be a store of several services" in capsys.readouterr().err
