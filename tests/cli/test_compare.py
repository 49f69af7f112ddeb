"""driftrank compare: from a store as the service answers, in a sentence, with refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from driftrank.cli import compare
from driftrank.cli.app import run
from driftrank.client import Client
from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.offline.comparison import stored_experiment
from driftrank.wire import AfterPrefix, ArmSettings, Comparison, Interval
from tests.serve.harness import Harness
from tests.serve.running import Running

ITEMS = list("abcde")
LIKES = {"a": 0.05, "b": 0.1, "c": 0.1, "d": 0.3, "e": 0.5}


def visits(harness: Harness, n: int, begin: int = 0) -> None:
    for i in range(begin, begin + n):
        user = random.Random(i)
        shown = harness.shown("q", ITEMS, f"e{i}", subject=f"s{i}" if i % 3 else None, defer=i % 17 == 0)
        if i % 17 == 0:
            harness.activate(f"e{i}")
        if i % 13:
            harness.feedback(f"e{i}", [item for item in shown if user.random() < LIKES[item]][:1])
        harness.clock.now += 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A service with arms, in whose log are a checkpoint, changes of settings and open lists, and which runs."""
    folder = tmp_path_factory.mktemp("compare")
    how: dict[str, Any] = {"holdout": 0.3, "arms": {"b": ArmSettings(share=0.3)}, "wait": 200, "planned": 500}
    with Harness(folder, ranker=how) as harness:
        harness.put("other", policy="CascadeUCB1", k=2)
        visits(harness, 300)
        harness.put(**({"policy": "CascadeUCB1", "k": 3, **how} | {"arms": {"b": ArmSettings(share=0.4)}}))
        visits(harness, 300, 300)
        harness.checkpoint()
        visits(harness, 200, 600)
        harness.end_feedback_windows()
        yield harness


def address(harness: Harness) -> str:
    return f"sqlite:///{harness._path}"


def test_a_store_answers_as_the_service(store: Harness):
    """With and without the checkpoint, to the bit."""
    served = experiment_of(store.state.rankers["default"])
    assert served.comparisons
    assert sum(arm.pending for arm in served.arms)
    assert stored_experiment(address(store), "default") == served
    assert stored_experiment(address(store), "default", since=0.0) == served
    half = store.clock.now - 200
    later = stored_experiment(address(store), "default", since=half)
    assert 150 < sum(arm.lists for arm in later.arms) < 250
    assert all(each.lists <= 200 for each in later.comparisons)
    nothing = stored_experiment(address(store), "default", since=store.clock.now + 1)
    assert (nothing.arms, nothing.comparisons, nothing.shares) == ([], [], served.shares)


def test_records_that_retention_has_removed(tmp_path: Path):
    """The settings are then those of the checkpoint."""
    with Harness(tmp_path, ranker={"holdout": 0.4, "wait": 10, "forget_items": 100}, retention="30m") as harness:
        visits(harness, 400)
        harness.advance(1300)
        visits(harness, 400, 400)
        harness.advance(20)
        harness.checkpoint()
        harness.advance(300)
        harness.checkpoint()
        harness.forget_old()
        assert harness.store.read(0, 1)[0].seq > 1
        assert stored_experiment(address(harness)) == experiment_of(harness.state.rankers["default"])
        part = stored_experiment(address(harness), since=0.0)
        assert part.shares == {"holdout": 0.4, "live": 0.6}
        assert 0 < sum(arm.lists for arm in part.arms) < 800


def test_text(store: Harness, capsys: pytest.CaptureFixture[str]):
    assert run(["compare", str(store._path), "--ranker", "default"]) == 0
    said = capsys.readouterr().out
    first = said.splitlines()[0]
    assert first.startswith("b earns 0.")
    assert first.endswith("at 95%, at all times): keep it.")
    assert "live earns" in said.splitlines()[1]
    assert "after the shared prefix" in said
    assert "pending" in said


def test_json(store: Harness, capsys: pytest.CaptureFixture[str]):
    assert run(["compare", address(store), "--ranker", "default", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    answers = found.pop("answers")
    assert len(answers) == 2
    assert found == to_builtins(experiment_of(store.state.rankers["default"]))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--ranker", "nobody"], 2, "ranker='nobody': must be a ranker with lists in the log; there are: default"),
        (["--since", "yesterday"], 2, "since='yesterday': must be a duration such as '7d', or a time"),
        (["--since", "1s"], 3, "No answer for default: no list of the experiment has ended."),
        (["--every", "soon"], 2, "every='soon'"),
    ],
)
def test_refused(store: Harness, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str):
    assert run(["compare", str(store._path), *arguments]) == code
    said = capsys.readouterr()
    assert says in said.out + said.err


def test_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["compare", str(tmp_path / "none.db")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_watch(store: Harness, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    asked = []

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        if len(asked) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(compare.time, "sleep", sleep)
    assert run(["compare", str(store._path), "--watch", "--every", "5s"]) == 130
    assert asked == [5.0] * 3
    assert capsys.readouterr().out.count("b earns") == 3


def test_a_service(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A real process: few lists are refused, and a ranker without a holdout has nothing to compare."""
    (tmp_path / "driftrank.toml").write_text(
        '[rankers.shop]\npolicy = "CascadeUCB1"\nk = 2\nholdout = 0.5\nexplore = 0.5\n[rankers.alone]\nk = 2\n'
    )
    with Running(tmp_path, "--config", "driftrank.toml") as server, Client(server.url, ranker="shop") as client:
        for n in range(3):
            client.rank("q", ITEMS, event_id=f"e{n}")
            client.feedback(f"e{n}", [], wait=True)
        assert run(["compare", server.url, "--ranker", "shop"]) == 3
        assert "No answer for live against holdout: there are fewer than 100 lists" in capsys.readouterr().out
        assert run(["compare", server.url, "--ranker", "alone"]) == 3
        assert "alone has nothing to compare with" in capsys.readouterr().out
        assert run(["compare", server.url, "--ranker", "shop", "--since", "7d"]) == 2
        assert run(["compare", server.url, "--ranker", "none"]) != 0


SINCE = "2026-11-18T09:00:00Z"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Comparison("live", "holdout", SINCE, 500, refused="lost-feedback"), "were taken back or dropped"),
        (Comparison("live", "holdout", SINCE, 500, refused="pending"), "still wait for feedback"),
        (Comparison("live", "holdout", SINCE, 500, Interval(-0.2, -0.3, -0.1)), "0.2000 fewer clicks per list"),
        (
            Comparison("live", "holdout", SINCE, 500, Interval(0.0, -0.3, 0.3), needed=70_000),
            "No difference between live and holdout is certain (-0.3000 to +0.3000 at 95%, at all times); about 70,000 "
            "lists in all tell ±.01, 500 have ended.",
        ),
        (
            Comparison("live", "holdout", SINCE, 500, Interval(0.0, -0.3, 0.3),
                       after_prefix=AfterPrefix(0.4, Interval(0.1, 0.05, 0.15))),
            "live earns 0.1000 more clicks per list than holdout (+0.0500 to +0.1500",
        ),
    ],
)  # fmt: skip
def test_sentences(found: Comparison, says: str):
    assert says in compare.sentence(found)
