"""Simulated users at the real service: served lists are those of the simulator, and lost feedback is counted."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.client import Client, NotFound
from driftrank.drive.drive import Drive
from driftrank.drive.session import Batcher, FeedbackFaults, Session
from driftrank.wire import RankerSettings
from tests.quick import others_are_slow
from tests.serve.running import ROOT, Running

QUERY = "yandex-like-0-1"
USERS: dict[str, Any] = {"env": "abrupt:period=40", "queries": "yandex-like:4", "steps": 100}


@pytest.mark.parametrize(
    ("policy", "batch"),
    others_are_slow([("CascadeDUCB", 1), ("CascadeTS", 50), ("RankedEXP3", 3)], [("CascadeDUCB", 1)]),
    ids=str,
)
def test_served_is_simulated(service: Running, ranker: Any, policy: str, batch: int) -> None:
    name = ranker(policy=policy, horizon=100, seed=5)
    result = Drive(url=service.url, ranker=name, seed=5, batch=batch, **USERS).run(check=True, progress=False)
    assert result.check is not None
    assert result.check.same
    assert result.check.simulator
    assert "all 400 lists are the same as those of the learner and the simulator" in str(result.check)
    env = dr.environments.Abrupt(dr.queries.yandex_like(4, seed=5), k=3, period=40)
    simulated = dr.simulate(policy, env, horizon=100, seed=5, checkpoints=100, progress=False)
    assert np.array_equal(result.cumulative(), simulated.values[0, 0, :, 0])
    assert np.array_equal(np.cumsum(result.clicks, axis=1), simulated.values[2, 0, :, 0])
    assert result.outcomes == {"counted": 400}
    assert result.learnt == 400
    assert result.breakpoints == [40, 80]


def test_a_ranker_of_its_own_settings_is_compared_with_its_learner(service: Running, ranker: Any) -> None:
    """No horizon, more positions than are asked for, another seed than the users': nothing a simulation has."""
    name = ranker(policy="CascadeTS", k=8, seed=3)
    result = Drive(url=service.url, ranker=name, **USERS).run(check=True, progress=False)
    assert result.check is not None
    assert result.check.same
    assert not result.check.simulator


def test_a_query_with_a_shared_model_is_compared_with_its_learner(service: Running, ranker: Any) -> None:
    name = ranker(policy="PriorRegimeTS:hash_bits=8", k=5)
    users = USERS | {"queries": "yandex-like:1"}
    drive = Drive(url=service.url, ranker=name, name="once", **users)
    result = drive.run(check=True, progress=False)
    assert result.check is not None
    assert result.check.same
    assert not result.check.simulator
    with Client(service.url, ranker=name) as client:
        client.delete_query(result.queries[0])
    with pytest.raises(ValueError, match="has learnt from 100 lists"):
        drive.run(check=True, progress=False)


def test_a_difference_is_found(service: Running, ranker: Any) -> None:
    name = ranker(policy="CascadeTS", horizon=30)
    users = {**USERS, "steps": 30, "queries": "yandex-like:2"}
    drive = Drive(url=service.url, ranker=name, **users)
    with Client(service.url, ranker=name, timeout=30, deadline=60) as client:

        def meddle() -> None:  # somebody else's click in the middle
            while client.ranker().steps < 10:
                time.sleep(0.001)
            other = client.rank(QUERY, list(range(10)), event_id="x:1000")
            client.feedback(other.event_id, [other.items[2].id], wait=True)

        thread = threading.Thread(target=meddle)
        thread.start()
        result = Drive(**{**vars(drive), "rate": 100.0}).run(check=True, progress=False)
        thread.join()
    assert result.check is not None
    assert not result.check.same
    assert result.check.difference is not None
    assert result.check.difference[0] == QUERY
    assert "differ at step" in str(result.check)


def test_faults_are_counted(service: Running, ranker: Any) -> None:
    name = ranker()
    faults = FeedbackFaults(delay=0.05, drop=0.2, duplicate=0.3)
    result = Drive(url=service.url, ranker=name, faults=faults, rate=2000.0, **USERS).run(progress=False)
    outcomes = result.outcomes
    assert set(outcomes) == {"counted", "duplicate", "never sent"}
    assert outcomes["counted"] + outcomes["never sent"] == 400
    assert 40 < outcomes["never sent"] < 120
    assert 50 < outcomes["duplicate"] < 140
    with Client(service.url, ranker=name, timeout=30, deadline=60) as client:
        info = client.ranker()
        assert info.steps == result.learnt == outcomes["counted"]
        assert info.lists == 400
        assert info.pending == outcomes["never sent"]
        assert sum(client.query(query).steps for query in result.queries) == outcomes["counted"]


def test_feedback_is_delayed(service: Running, ranker: Any) -> None:
    """The next list does not wait for it, and the policy has learnt less: the lists are not those of the simulator."""
    name = ranker()
    users = {**USERS, "steps": 20}
    begin = time.monotonic()
    drive = Drive(url=service.url, ranker=name, faults=FeedbackFaults(delay=0.3), **users)
    result = drive.run(progress=False)
    assert time.monotonic() - begin > 0.5
    assert result.outcomes == {"counted": 80}
    assert result.learnt == 80


@pytest.mark.slow
@pytest.mark.parametrize("env", ["Churn", "LinearFeatures", "Drift"])
def test_other_worlds(service: Running, ranker: Any, env: str) -> None:
    name = ranker(policy="CascadeLinUCB" if env == "LinearFeatures" else "CascadeUCB1", horizon=30)
    queries = "" if env == "LinearFeatures" else "yandex-like:2"
    drive = Drive(url=service.url, ranker=name, env=env.lower(), steps=30, queries=queries)
    result = drive.run(check=env != "Churn", progress=False)
    assert result.done.tolist() == [30] * len(result.queries)
    assert result.check is None or result.check.same


def test_the_rate_is_kept(service: Running, ranker: Any) -> None:
    users = {**USERS, "steps": 10}
    result = Drive(url=service.url, ranker=ranker(), rate=100.0, **users).run(progress=False)
    assert result.seconds >= 0.7  # 40 lists, 40 feedbacks


def test_faults_depend_on_the_seed_only() -> None:
    faults = FeedbackFaults(delay=2.0, drop=0.5, duplicate=0.5)
    drawn = [faults.delays(7, "q", t) for t in range(2000)]
    assert drawn == [faults.delays(7, "q", t) for t in range(2000)]
    assert abs(np.mean([len(copies) == 0 for copies in drawn]) - 0.5) < 0.05
    assert abs(np.mean([len(copies) == 2 for copies in drawn]) - 0.25) < 0.05
    assert abs(np.mean([delay for copies in drawn for delay in copies]) - 2.0) < 0.2


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(Drive(key="secret"))


def test_requests_are_batched() -> None:
    parts: list[list[int]] = []

    async def call(numbers: list[int]) -> list[int]:
        parts.append(numbers)
        await asyncio.sleep(0.001)
        if 13 in numbers:
            raise ValueError("thirteen")
        return [-n for n in numbers]

    async def main() -> list[Any]:
        batcher = Batcher(call, 5)
        return await asyncio.gather(*(batcher(n) for n in range(12)), batcher(13), return_exceptions=True)

    *answers, error = asyncio.run(main())
    assert answers[:10] == [-n for n in range(10)]
    assert isinstance(error, ValueError)
    assert [len(part) for part in parts] == [5, 5, 3]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps=0: must be an integer of at least 1"),
        ({"rate": -1.0}, "rate=-1.0"),
        ({"connections": 101}, "connections=101"),
        ({"batch": 0}, "batch=0"),
        ({"faults": FeedbackFaults(delay=-1.0)}, "delay=-1.0"),
        ({"faults": FeedbackFaults(drop=1.5)}, "drop=1.5"),
        ({"faults": FeedbackFaults(duplicate=-0.1)}, "duplicate=-0.1"),
        ({"env": "abrubt"}, "did you mean Abrupt"),
        ({"queries": "yandex-like:0"}, "yandex-like"),
        ({"seed": -1}, "seed=-1"),
        ({"url": "nowhere"}, "url='nowhere'"),
    ],
)
def test_bad_values(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Drive(**settings).run(progress=False)


@pytest.mark.parametrize(
    ("ranker_is", "users", "message"),
    [
        ({}, {"faults": FeedbackFaults(drop=0.1)}, "delayed, dropped or duplicated"),
        ({}, {"env": "Churn"}, "new items replace old ones"),
        ({"mode": "shadow"}, {}, "must be live"),
        ({"holdout": 0.5}, {}, "without a holdout"),
        ({"second_click": "update"}, {}, "second_click"),
        ({"policy": "CascadeDUCB:half_life=1h"}, {}, "CascadeDUCB:half_life=1h forgets by the clock"),
        ({"policy": "CascadeSWUCB:window=1h"}, {}, "forgets by the clock"),
        ({"k": 2}, {}, "k=3: the ranker .* shows at most 2"),
        ({"policy": "PriorRegimeTS:hash_bits=8"}, {}, "learn together, .* check a single query"),
    ],
)
def test_what_cannot_be_checked(
    service: Running, ranker: Any, ranker_is: dict[str, Any], users: dict[str, Any], message: str
) -> None:
    drive = Drive(url=service.url, ranker=ranker(**ranker_is), **USERS | users)
    with pytest.raises(ValueError, match=message):
        drive.run(check=True, progress=False)


# -- the command -------------------------------------------------------------------------------------------------------


def command(service: Running, ranker: str, out: Path, *more: str) -> list[str]:
    return [
        "drive", "--url", service.url, "--ranker", ranker, "--env", "abrupt:period=20", "--queries", "yandex-like:3",
        "--steps", "40", "--out", str(out), *more,
    ]  # fmt: skip


def test_command(service: Running, ranker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = ranker(horizon=40)
    assert run(command(service, name, tmp_path, "--check")) == 0
    out = capsys.readouterr().out
    for text in ("lists                                   120", "clicks per list", "feedback counted", "p99"):
        assert text in out
    assert "all 120 lists are the same" in out
    rows = pyarrow.parquet.read_table(tmp_path / "lists.parquet").to_pylist()
    assert len(rows) == 120
    assert rows[40]["query"] == QUERY
    assert (rows[40]["step"], len(rows[40]["ranking"])) == (1, 3)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["lists"] == 120
    assert summary["check"] == {"same": True, "lists": 120, "difference": None, "against": ["learner", "simulator"]}
    assert summary["regret"] == pytest.approx(sum(row["regret"] for row in rows))
    assert summary["clicks_per_list_of"]["best"] >= summary["clicks_per_list_of"]["random"]
    assert (tmp_path / "drive.png").read_bytes()[:4] == b"\x89PNG"

    assert run(command(service, name, tmp_path, "--check")) == 2  # the queries are no longer fresh
    assert "has 40 lists already; reset the ranker" in capsys.readouterr().err
    assert run(command(service, name, tmp_path, "--json")) == 0
    assert json.loads(capsys.readouterr().out)["feedback"] == {"counted": 120}
    assert run(command(service, name, tmp_path, "-q")) == 0
    assert capsys.readouterr().out == ""


def test_a_difference_is_exit_code_1(
    service: Running, ranker: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftrank.drive.simulation_check.policy_of", lambda settings: dr.CascadeTS())
    assert run(command(service, ranker(), tmp_path, "--check", "-q")) == 1
    assert "served and simulated lists differ at step 1 of query 'yandex-like-0-0'" in capsys.readouterr().err


def test_no_such_ranker_and_no_service(tmp_path: Path, service: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command(service, "nobody", tmp_path)) == 1
    err = capsys.readouterr().err
    assert err.startswith("driftrank: error: ")
    assert "nobody" in err
    assert err.count("\n") == 1
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    assert run([*command(service, "default", tmp_path), "--url", url]) == 1
    assert capsys.readouterr().err.startswith("driftrank: error: no answer to GET /v1/rankers/default: ")
    assert run([*command(service, "default", tmp_path), "--url", "http://127.0.0.1:99999"]) == 2
    assert capsys.readouterr().err.startswith("driftrank: error: url='http://127.0.0.1:99999': ")


def test_stopped(service: Running, ranker: Any, tmp_path: Path) -> None:
    """Ctrl-C: the results so far are shown and kept; delayed feedback is not sent."""
    name = ranker()
    words = command(service, name, tmp_path, "--rate", "200", "--delay", "60", "--steps", "100000", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "driftrank", *words], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with Client(service.url, ranker=name, timeout=30) as client:
        while client.ranker().lists < 20:
            assert process.poll() is None
            time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < 20
    assert process.returncode == 130, err
    assert err == "driftrank: stopped\n"
    summary = json.loads(out)
    assert summary["stopped"]
    assert summary["lists"] >= 20
    assert sum(summary["feedback"].values()) == summary["lists"]
    assert summary["feedback"]["never sent"] > 0
    assert len(pyarrow.parquet.read_table(tmp_path / "lists.parquet")) == summary["lists"]


def test_stopping_does_not_wait_for_the_rate(service: Running, ranker: Any, tmp_path: Path) -> None:
    name = ranker()
    words = command(service, name, tmp_path, "--rate", "0.02", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "driftrank", *words], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        with Client(service.url, ranker=name, timeout=30) as client:
            while not client.ranker().lists:
                assert process.poll() is None
                time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)  # the others are due in 50 s and 100 s
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert json.loads(out)["stopped"]


def test_the_service_is_gone_for_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was done so far is kept."""
    monkeypatch.setattr("driftrank.drive.drive._RETRYING", {"timeout": 1.0, "deadline": 1.0})
    with Running(tmp_path) as service, Client(service.url, timeout=30, deadline=60) as client:
        client.put_ranker("default", RankerSettings(policy="CascadeUCB1", k=3))

        def kill() -> None:
            while client.ranker().lists < 30:
                time.sleep(0.01)
            service.kill()

        thread = threading.Thread(target=kill)
        thread.start()
        out = tmp_path / "out"
        assert run([*command(service, "default", out, "--rate", "100", "--steps", "10000"), "--json"]) == 1
        thread.join()
    printed = capsys.readouterr()
    assert printed.err.startswith("driftrank: error: no answer to POST /v1/rankers/default/")
    summary = json.loads(printed.out)
    assert summary["lists"] >= 25
    assert summary["learnt"] is None
    assert len(pyarrow.parquet.read_table(out / "lists.parquet")) == summary["lists"]


def test_the_ranker_is_gone_at_the_very_end(service: Running, ranker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lists were shown and are kept, though the number that was learnt from is unknown."""
    name = ranker()
    session = Session.run

    async def run_and_delete(self: Session) -> None:
        await session(self)
        await self._client.delete_ranker(name)

    monkeypatch.setattr(Session, "run", run_and_delete)
    result = Drive(url=service.url, ranker=name, **USERS).run(progress=False)
    assert isinstance(result.error, NotFound)
    assert result.learnt is None
    assert result.done.tolist() == [100] * 4


@pytest.mark.slow
def test_the_service_restarts_meanwhile(tmp_path: Path) -> None:
    """Users are patient, lists are repeated by their event ids: the lists are still those of the simulator."""
    with Running(tmp_path) as service, Client(service.url, timeout=30, deadline=60) as client:
        client.put_ranker("default", RankerSettings(policy="CascadeTS", k=3, horizon=60))
        users = {**USERS, "steps": 60, "rate": 150.0}
        results: list[Any] = []
        thread = threading.Thread(
            target=lambda: results.append(Drive(url=service.url, **users).run(check=True, progress=False))
        )
        thread.start()
        while client.ranker().steps < 40:
            time.sleep(0.01)
        service.kill()
        service.restart()
        thread.join()
        (result,) = results
        assert result.error is None
        assert result.check.same
        assert result.learnt == 240
        assert result.outcomes["counted"] + result.outcomes["duplicate"] == 240
        assert client.ranker().steps == 240
