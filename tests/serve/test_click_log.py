"""The click log of a ranker, converted from the store of a service that may be running."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.serve.log.ended_lists import EndedLists
from driftrank.serve.log.records import Final, Lost, Ranked, Record, encode
from driftrank.serve.log.store.base import LogEntry, LogReader, Snapshot, StoreDamaged, StoreError, open_reader
from driftrank.serve.offline import click_log
from driftrank.serve.offline.click_log import ConvertedStore, convert_store
from driftrank.wire import ArmSettings, WarmRow
from tests.serve.harness import Harness
from tests.serve.running import Running

ITEMS = list("abcde")


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'service.db'}"


def converted(folder: Path, **how: Any) -> ConvertedStore:
    return convert_store(url(folder), folder / "log.parquet", **how)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files, in the order of the files."""
    return [row for file in sorted((folder / "log.parquet").glob("*")) for row in pq.read_table(file).to_pylist()]


def by_event(folder: Path) -> dict[str, dict[str, Any]]:
    found = {row["event"]: row for row in rows(folder)}
    assert len(found) == len(rows(folder))
    return found


# -- lists -------------------------------------------------------------------------------------------------------------


def test_arms_subjects_and_values(tmp_path):
    how = {"arms": {"b": ArmSettings(share=0.5)}, "values": {"dwell": 0.3}, "stable": 60}
    with Harness(tmp_path, ranker=how) as harness:
        for n in range(12):
            harness.rank("shoes", ITEMS, f"e{n}", subject=f"user {n % 3}" if n else None)
            harness.feedback(f"e{n}", [1], kind="dwell" if n > 5 else None)
        harness.rank("shoes", ITEMS, "page 2", subject="user 1", offset=3)
        harness.feedback("page 2", [4])
        converted(tmp_path)
        found = by_event(tmp_path)
        assert {row["arm"] for row in found.values()} == {"live", "b"}
        assert found["e0"]["user"] is None
        assert len({found[f"e{n}"]["user"] for n in range(1, 12)}) == 3
        assert not any("user" in (row["user"] or "") for row in found.values())
        assert [found[f"e{n}"]["value"] for n in (5, 6)] == [1.0, 0.3]
        assert (found["page 2"]["offset"], found["page 2"]["clicks"]) == (3, [1])
    assert dr.logs.open_log(tmp_path / "log.parquet").types["user"] == "VARCHAR"


def test_propensities_and_what_the_others_would_have_shown(tmp_path):
    """A ranker that explores: a log that evaluate answers from, with the list of the other arm beside each."""
    with Harness(tmp_path, ranker={"holdout": 0.3, "explore": 1.0}) as harness:
        for n in range(40):
            shown = harness.shown("shoes", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [shown[0]] if n % 3 else [])
        harness.rank("shoes", [1, 2, "c"], "mixed")
        harness.feedback("mixed", [])
        converted(tmp_path)
        found = by_event(tmp_path)
    held = [row for row in found.values() if row["arm"] == "holdout" and row["event"] != "mixed"]
    live = [row for row in found.values() if row["arm"] == "live" and row["event"] != "mixed"]
    assert held
    assert live
    for row in held:
        assert (row["baseline"], row["propensities"]) == (row["ranking"], None)
        assert len(row["policy_ranking"]) == 3
    for row in live:
        assert (row["baseline"], row["policy_ranking"]) == (ITEMS[:3], None)
        assert len(row["propensities"]) == 3
    assert any(row["policy_ranking"] != row["ranking"] for row in held)
    assert any(row["baseline"] != row["ranking"] for row in live)
    assert set(found["mixed"]["ranking"]) == {"1", "2", "c"}
    assert dr.logs.open_log(tmp_path / "log.parquet").propensities == "conditional"


@pytest.mark.slow
def test_the_log_of_a_ranker_that_explores_can_be_evaluated(tmp_path):
    """A list that the policy does not show: its value, from the service's log. Left out are the holdout, second pages
    and lists with pinned items: users click less on pages below, and the worst item is pinned to the top.
    """
    likes = dict(zip("abcdef", (0.1, 0.15, 0.2, 0.3, 0.4, 0.05), strict=True))
    with Harness(tmp_path, ranker={"holdout": 0.2, "explore": 1.0, "stable": 60}) as harness:
        for n in range(2000):
            user = random.Random(n)
            pinned = {"pinned": {"f": 1}} if n % 5 == 0 else {}
            for page in (0, 3) if n % 4 == 1 and not pinned else (0,):
                event = f"e{n}" if not page else f"e{n} below"
                shown = harness.shown("q", list(likes), event, subject=f"s{n}", offset=page, **pinned)
                liked = [item for item in shown if user.random() < likes[item] / (1 + page)][:1]
                harness.feedback(event, liked)
            harness.clock.now += 1
        converted(tmp_path)
    found = dr.evaluate(tmp_path / "log.parquet", {"q": list("edc")}, changes=0)
    assert 1200 < found.lists < 1360
    assert found.checks["left-out"].numbers["lists"].keys() == {
        "lists of the holdout", "pages after the first", "lists with pinned items"
    }  # fmt: skip
    best = found["rankings"]
    assert best.grade == "B"
    assert best.low < 1 - 0.6 * 0.7 * 0.8 < best.high
    assert best.high - best.low < 0.25


def test_candidates_and_pinned_places(tmp_path):
    """By request, also if an earlier record has the candidates, and if that was converted before."""
    with Harness(tmp_path, ranker={"explore": 1.0}) as harness:
        for event, items in (("all", ITEMS), ("few", ["c", "a"]), ("again", ["c", "a"])):
            harness.rank("shoes", items, event)
        harness.rank("shoes", ITEMS[:4], "pinned", pinned={"d": 2})
        for event in ("all", "few", "pinned"):
            harness.feedback(event, [])
        converted(tmp_path)
        harness.feedback("again", [])
        harness.rank("shoes", ["c", "a"], "later")
        harness.feedback("later", [])
        converted(tmp_path)
    found = by_event(tmp_path)
    assert {event: sorted(row["candidates"]) for event, row in found.items()} == {
        "all": ITEMS, "few": ["a", "c"], "again": ["a", "c"], "later": ["a", "c"], "pinned": ITEMS[:4]
    }  # fmt: skip
    assert {event: row["pinned"] for event, row in found.items() if row["pinned"]} == {"pinned": [2]}
    assert found["pinned"]["ranking"][1] == "d"


def test_pages_and_pinned_lists_are_not_evaluated(tmp_path):
    """Only they are there: that is said, instead of a value or another reason."""
    with Harness(tmp_path, ranker={"explore": 1.0}) as harness:
        for n in range(4):
            harness.rank("shoes", ITEMS, f"e{n}", pinned={"d": 2})
            harness.feedback(f"e{n}", [])
        converted(tmp_path)
    with pytest.raises(ValueError, match="has no list to evaluate, only lists with pinned items"):
        dr.evaluate(tmp_path / "log.parquet", {"shoes": ["a", "b"]})


def test_lists_that_were_shown_with_their_clicks(tmp_path):
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        shown = {e: harness.shown("shoes", ITEMS, e) for e in ("clicked", "none", "silent", "part", "gone", "late")}
        harness.rank("shoes", ITEMS, "deferred", defer=True)
        harness.rank("shoes", ITEMS, "inactive", defer=True)
        harness.clock.now += 10
        harness.activate("deferred")
        harness.feedback("clicked", [3, 1])
        harness.feedback("none", [])
        harness.feedback("part", [1], shown=2)
        harness.feedback("gone", shown=0)
        harness.feedback("deferred", [2])
        harness.feedback("inactive", [1])
        harness.warmstart([WarmRow("shoes", ["a", "b"], [1], None)])
        harness.advance(95)
        assert harness.outcome("late", [1]) != "counted"
        harness.rank("shoes", ITEMS, "open")
        report = converted(tmp_path)
    found = by_event(tmp_path)
    assert {event: row["clicks"] for event, row in found.items()} == {
        "clicked": [1, 3], "none": [], "silent": [], "part": [1], "deferred": [2], "late": []
    }  # fmt: skip
    assert found["clicked"]["ranking"] == shown["clicked"]
    assert found["part"]["ranking"] == shown["part"][:2]
    assert {event: row["how"] for event, row in found.items() if row["how"] != "feedback"} == {
        "silent": "silence", "late": "silence"
    }  # fmt: skip
    times = {event: row["time"].timestamp() for event, row in found.items()}
    assert times["deferred"] - times["clicked"] == 10, "it was shown when it was activated"
    assert {row["query"] for row in found.values()} == {"shoes"}
    assert {row["arm"] for row in found.values()} == {"live"}
    assert (report.lists, report.clicks) == (6, 4)
    assert sorted(report.notes) == [
        "left out, deferred and not activated: 1", "left out, in their feedback window: 1", "left out, withdrawn: 1"
    ]  # fmt: skip


def test_silence_that_is_dropped_is_not_in_the_log(tmp_path):
    with Harness(tmp_path, ranker={"wait": 100, "silence": "drop", "second_click": "update"}) as harness:
        harness.rank("shoes", ITEMS, "silent")
        harness.rank("shoes", ITEMS, "twice")
        harness.feedback("twice", [3])
        harness.feedback("twice", [1])
        harness.advance(101)
        report = converted(tmp_path)
    assert {event: row["clicks"] for event, row in by_event(tmp_path).items()} == {"twice": [1, 3]}
    assert report.notes == ["left out, without feedback, which the ranker's settings drop: 1"]


def test_arms_and_propensities(tmp_path):
    with Harness(tmp_path, "CascadeSoftmax", ranker={"holdout": 0.5}) as harness:
        harness.put("shadow", policy="CascadeSoftmax", k=3, mode="shadow")
        for n in range(20):
            harness.rank("shoes", ITEMS, f"e{n}")
            harness.feedback(f"e{n}", [], shown=2)
        harness.rank("shoes", ITEMS, "s", ranker="shadow")
        harness.feedback("s", [1], ranker="shadow")
        converted(tmp_path, ranker="default")
        live = [row for row in rows(tmp_path) if row["arm"] == "live"]
        held = [row for row in rows(tmp_path) if row["arm"] == "holdout"]
        assert live
        assert held
        assert len(live) + len(held) == 20
        assert all(len(row["propensities"]) == 2 and min(row["propensities"]) > 0 for row in live)
        assert all(row["ranking"] == ["a", "b"] and row["propensities"] is None for row in held)
        shutil.rmtree(tmp_path / "log.parquet")
        converted(tmp_path, ranker="shadow")
    assert [(row["arm"], row["ranking"], row["clicks"]) for row in rows(tmp_path)] == [("shadow", ["a", "b", "c"], [1])]


def test_ids_are_integers_if_all_are(tmp_path, monkeypatch):
    with Harness(tmp_path) as harness:
        harness.rank("shoes", [1, 2, 3], "numbers")
        harness.feedback("numbers", [1])
        assert converted(tmp_path).notes == []
        harness.rank("boots", [4, "x", 5], "both")
        harness.feedback("both", [1])
        assert converted(tmp_path).notes == ["ids that are integers are text in the log, as others are"]
    found = by_event(tmp_path)
    assert sorted(found["numbers"]["ranking"]) == [1, 2, 3]
    assert sorted(found["both"]["ranking"]) == ["4", "5", "x"]
    assert dr.logs.open_log(tmp_path / "log.parquet").types["ranking"] == "VARCHAR[]"
    shutil.rmtree(tmp_path / "log.parquet")
    monkeypatch.setattr(click_log, "_CHUNK", 1)
    assert converted(tmp_path).notes == ["ids that are integers are text in the log, as others are"]
    assert sorted(by_event(tmp_path)["numbers"]["ranking"]) == ["1", "2", "3"]


def test_long_lists_are_cut(tmp_path):
    with Harness(tmp_path, ranker={"k": 70}) as harness:
        harness.rank("shoes", range(70), "long")
        harness.feedback("long", [62, 63])
        assert converted(tmp_path).notes == ["cut to 62 items, the most that a log has: 1"]
    (row,) = rows(tmp_path)
    assert (len(row["ranking"]), row["clicks"]) == (62, [62])


def test_a_deleted_ranker_of_the_same_name(tmp_path):
    with Harness(tmp_path) as harness:
        harness.put("shop", policy="CascadeUCB1", k=2)
        for event in ("both", "open"):
            harness.rank("shoes", ITEMS, event, ranker="shop")
        harness.feedback("both", [1], ranker="shop")
        harness.delete("shop")
        harness.put("shop", policy="CascadeUCB1", k=1)
        harness.rank("shoes", ITEMS, "both", ranker="shop")
        harness.feedback("both", [], ranker="shop")
        assert converted(tmp_path).notes == ["left out, open when the ranker was deleted: 1"]
    assert [(row["event"], len(row["ranking"]), row["clicks"]) for row in rows(tmp_path)] == [
        ("both", 2, [1]), ("both", 1, [])
    ]  # fmt: skip


class _Log(LogReader):
    """A log in memory."""

    def __init__(self, records: list[Record]) -> None:
        self._entries = [LogEntry(n, str(n), encode(record)) for n, record in enumerate(records, 1)]

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        return self._entries[after:][:limit]

    def next_id(self, after: str) -> str | None:
        return None

    def get_snapshot(self, name: str) -> Snapshot | None:
        return None

    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return []

    def close(self) -> None: ...


def test_lists_that_damage_has_lost():
    ranked = Ranked("r", "q", "e", 1.0, 1, ["a"], "l", 0)
    found = EndedLists(_Log([ranked, Lost("r", 2.0, 1), Final("r", "e", 3.0, "feedback", [1])]), "r")
    assert list(found) == []
    assert found.left_out["lost by damage of the store"] == 1


# -- again and again ---------------------------------------------------------------------------------------------------


def test_every_conversion_adds_what_is_new(tmp_path, monkeypatch):
    with Harness(tmp_path, ranker={"wait": 100}) as harness:
        ended: list[str] = []
        for n in range(12):
            harness.rank("shoes", ITEMS, f"e{n}")
            if n % 3:
                harness.feedback(f"e{n}", [1])
                ended.append(f"e{n}")
            if n % 4 == 3:
                converted(tmp_path)
                assert sorted(by_event(tmp_path)) == sorted(ended)
        assert len(list((tmp_path / "log.parquet").iterdir())) == 3
        harness.advance(101)
        assert converted(tmp_path).lists == 4
        assert converted(tmp_path).files == []
        assert len(by_event(tmp_path)) == 12
        shutil.rmtree(tmp_path / "log.parquet")
        monkeypatch.setattr(click_log, "_FILE", 5)
        monkeypatch.setattr(click_log, "_CHUNK", 2)
        assert len(converted(tmp_path).files) == 2
        assert len(by_event(tmp_path)) == 12
        assert converted(tmp_path).files == []


def test_retention(tmp_path):
    with Harness(tmp_path, ranker={"wait": 1000, "forget_items": 10_000}, retention="30m") as harness:
        harness.rank("shoes", ITEMS, "kept")
        harness.feedback("kept", [1])
        converted(tmp_path)
        harness.rank("shoes", ITEMS, "missed")
        harness.feedback("missed", [1])
        harness.clock.now += 3600
        harness.checkpoint()
        harness.forget_old()
        harness.rank("shoes", ITEMS, "new")
        harness.feedback("new", [1])
        report = converted(tmp_path)
    assert sorted(by_event(tmp_path)) == ["kept", "new"]
    assert any("are no longer in the store: retention removes them" in note for note in report.notes)


# -- the store ---------------------------------------------------------------------------------------------------------


def test_the_store_is_only_read(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("shoes", ITEMS, "e")
        harness.feedback("e", [1])
        with closing(open_reader(url(tmp_path))) as log:
            assert len(log.read(0)) == log.last == harness.store.last
            harness.rank("shoes", ITEMS, "f")  # the service is not held up
            assert log.read(log.last)[0].id.endswith("/f")
            with closing(sqlite3.connect(tmp_path / "service.db")) as connection:
                moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert moved == (0, 0, 0), "no read transaction is open"
        harness.stop()
        before = (tmp_path / "service.db").read_bytes()
        converted(tmp_path)
        assert (tmp_path / "service.db").read_bytes() == before
        harness.open()
        assert harness.outcome("f", [1]) == "counted"


def test_a_damaged_record_stops_it(tmp_path):
    with Harness(tmp_path) as harness:
        harness.rank("shoes", ITEMS, "e")
        harness.feedback("e", [1])
    with closing(sqlite3.connect(tmp_path / "service.db", isolation_level=None)) as connection:
        connection.execute("UPDATE log SET crc = crc + 1 WHERE seq = (SELECT max(seq) FROM log)")
    with pytest.raises(StoreDamaged, match="is damaged"):
        converted(tmp_path)
    assert not (tmp_path / "log.parquet").exists()


def test_files_that_are_not_stores(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(ValueError, match="ranker: must be given; the log has no list"):
        convert_store(f"sqlite:///{tmp_path}/empty.db", tmp_path / "log.parquet")
    (tmp_path / "text.db").write_text("not a database, but long enough to be one " * 50)
    with pytest.raises(StoreError, match="is not an SQLite file"):
        convert_store(f"sqlite:///{tmp_path}/text.db", tmp_path / "log.parquet")
    with pytest.raises(ValueError, match="no such file"):
        convert_store(f"sqlite:///{tmp_path}/none.db", tmp_path / "log.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.db", "text.db"]


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_rankers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store of two rankers, and an export of one."""
    folder = tmp_path_factory.mktemp("two")
    with Harness(folder) as harness:
        harness.put("shop", policy="CascadeUCB1", k=2)
        for ranker in ("default", "shop"):
            harness.rank("shoes", ITEMS, "e", ranker=ranker)
            harness.feedback("e", [1], ranker=ranker)
        harness.stop()
    (folder / "export.jsonl").write_text('{"query":"shoes","state":"mAo="}\n')
    (folder / "file.parquet").write_text("mine")
    (folder / "other").mkdir()
    dr.logs.generate(folder / "other" / "log.parquet", dr.environments.Stationary(dr.queries.yandex_like(1)), 10)
    assert run(["log", "convert", url(folder), str(folder / "shop.parquet"), "--ranker", "shop", "-q"]) == 0
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("STORE out", "ranker: must be given; there are: default, shop"),
        ("service.db out", "ranker: must be given; there are: default, shop"),
        ("STORE out --ranker none", "ranker='none': must be a ranker with lists in the log; there are: default, shop"),
        ("STORE shop.parquet --ranker default", "must be a log of ranker default, not shop"),
        ("STORE file.parquet --ranker shop", "must be a folder"),
        ("STORE other --ranker shop", "must be a new folder or a log of this store; it has other files"),
        ("STORE none/out --ranker shop", "there is no folder"),
        ("STORE out --format csv", "a store takes --ranker, but no other option of formats"),
        ("sqlite:///none.db out", "store='none.db': must be the file of a store; no such file"),
        ("sqlite:service.db out", "no such file"),
        ("postgres://x out", "unknown kind of store 'postgres'"),
        ("export.jsonl out --ranker shop", "ranker='shop': must not be given unless IN is a store"),
        ("export.jsonl out", "an export of a ranker, which has what was learnt, but no lists"),
    ],
)
def test_wrong_input_is_one_line(two_rankers, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(two_rankers)
    words = ["sqlite:///service.db" if word == "STORE" else word for word in arguments.split()]
    assert run(["log", "convert", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not Path("out").exists()


def test_the_log_of_another_store(two_rankers, tmp_path, capsys):
    with Harness(tmp_path) as harness:
        harness.put("shop", policy="CascadeUCB1", k=2)
        harness.rank("shoes", ITEMS, "e", ranker="shop")
    assert run(["log", "convert", url(tmp_path), str(two_rankers / "shop.parquet")]) == 2
    assert "must be a log of this store" in capsys.readouterr().err


def test_a_running_server(
    server: Running, http: httpx.Client, ranker: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its log is converted beside it, checked, fitted, and teaches another ranker."""
    here, other = ranker(k=2), ranker(k=2)
    store, out = f"sqlite:///{server.folder / 'driftrank.db'}", str(tmp_path / "log.parquet")
    convert = ["log", "convert", store, out, "--ranker", here.rpartition("/")[2]]
    for part in range(2):
        for n in range(10):
            event = f"e{part}-{n}"
            http.post(f"{here}/rank", json={"query": "q", "items": ITEMS, "event_id": event}).raise_for_status()
            clicks = [{"position": 1 + n % 2}] if n % 3 else []
            http.post(f"{here}/feedback", json=[{"event_id": event, "clicks": clicks}]).raise_for_status()
        assert run(convert) == 0
        assert ": 10 lists, 6 clicks of ranker " in capsys.readouterr().out
    assert run(["log", "check", out]) == 0
    assert run(["fit", out, "--model", "CM", "--out", str(tmp_path / "models.json")]) == 0
    assert run(["warmstart", out, "--url", server.url, "--ranker", other.rpartition("/")[2]]) == 0
    assert "20 lists learnt from" in capsys.readouterr().out
    taught, teacher = (http.get(f"{url}/queries/q").json() for url in (other, here))
    assert [(i["id"], i["estimate"], i["samples"]) for i in taught["items"]] == [
        (i["id"], i["estimate"], i["samples"]) for i in teacher["items"]
    ]
