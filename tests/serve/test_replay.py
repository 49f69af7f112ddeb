"""Replay: another policy learns from the lists of a store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import driftrank as dr
from driftrank.cli.app import run
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.registry import parse_policy
from driftrank.serve.offline.replay import replay_store
from driftrank.wire import Item
from tests.serve.harness import Harness

ITEMS = list("abcde")
PRIOR = "PriorRegimeTS:hash_bits=8"


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'service.db'}"


def traffic(harness: Harness, lists: int, **how: object) -> None:
    for n in range(lists):
        shown = harness.shown(f"q{n % 2}", ITEMS, f"e{n}", **how)
        harness.clock.now += 1
        harness.feedback(f"e{n}", [shown[0]] if n % 3 else [])


@pytest.mark.parametrize("policy", ["CascadeUCB1", "CascadeSWUCB:window=20s"])
def test_the_same_policy_learns_the_same(tmp_path, policy):
    with Harness(tmp_path, policy) as harness:
        traffic(harness, 30)
        harness.rank("q0", ITEMS, "gone")
        harness.feedback("gone", shown=0)
        replayed = replay_store(url(tmp_path), parse_policy(policy))
        for name, learner in replayed.learners.items():
            own = harness.state.query(harness.state.rankers["default"], name).learner
            beliefs = learner.beliefs(now=harness.clock.now)
            assert beliefs == {item: own.beliefs(now=harness.clock.now)[item] for item in beliefs}
            assert learner.steps == own.steps == 15
    assert (replayed.k, replayed.lists, replayed.clicks) == (3, 30, 20)
    assert replayed.notes == ["left out, withdrawn: 1"]


def test_a_shared_model_learns_the_same(tmp_path):
    described = [Item(item, features={"kind": item in "ab"}, score=float(n)) for n, item in enumerate("edcba")]
    with Harness(tmp_path, PRIOR, ranker={"mode": "shadow"}) as harness:
        for n in range(30):
            harness.rank(f"q{n % 2}", described, f"e{n}", context={"device": f"d{n % 3}"})
            harness.feedback(f"e{n}", [1 + n % 3])
        replayed = replay_store(url(tmp_path), parse_policy(PRIOR))
        assert replayed.shared.to_bytes() == harness.state.rankers["default"].shared.to_bytes()
        for name, learner in replayed.learners.items():
            own = harness.state.query(harness.state.rankers["default"], name).learner
            assert learner.to_bytes() == own.to_bytes()


def test_another_policy(tmp_path, capsys):
    with Harness(tmp_path, ranker={"holdout": 0.3}) as harness:
        traffic(harness, 30)
        learner = dr.CascadeKLUCB().start(ITEMS, 2)
        held = 0
        lists, clicked = {}, {}
        for _, record in harness.log():
            if type(record).__name__ == "Ranked":
                lists[record.event_id] = record
            elif type(record).__name__ == "Final":
                clicked[record.event_id] = record.clicks
        for event, record in lists.items():
            held += record.arm == "holdout"
            if record.arm != "holdout" and record.query == "q0":
                clicks = [c for c in clicked[event] if c <= 2]
                learner.update(record.shown[:2], clicks[0] if clicks else None)
        command = ["replay", url(tmp_path), "--policy", "CascadeKLUCB", "--k", "2", "--out", str(tmp_path / "out")]
        assert run(command) == 0
    captured = capsys.readouterr()
    assert f"CascadeKLUCB learnt from {30 - held} lists" in captured.out
    assert "it would have shown others" in captured.out
    assert f"left out, of the holdout: {held}" in captured.err
    saved = dr.load(tmp_path / "out" / json.loads((tmp_path / "out" / "queries.json").read_text())["q0"])
    assert saved.beliefs() == {item: learner.beliefs()[item] for item in saved.items}


def test_summary_as_json(tmp_path, capsys):
    with Harness(tmp_path) as harness:
        traffic(harness, 12)
        out = ["--json", "--out", str(tmp_path / "o")]
        assert run(["replay", url(tmp_path), "--policy", PRIOR, "--top", "1", *out]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lists"], found["clicks"], found["queries"], found["k"]) == (12, 8, 2, 3)
    (busiest,) = found["busiest"]
    assert (busiest["lists"], len(busiest["items"])) == (6, 3)
    estimates = [item["estimate"] for item in busiest["items"]]
    assert estimates == sorted(estimates, reverse=True)
    assert SharedModel.from_bytes((tmp_path / "o" / "shared.bin").read_bytes()).policy.spec == PRIOR


def test_a_policy_with_features(tmp_path):
    features = {item: [float(n), 1.0] for n, item in enumerate(ITEMS)}
    given = [Item(item, features=features[item]) for item in ITEMS]
    with Harness(tmp_path, "CascadeLinUCB") as harness:
        for n in range(6):
            shown = harness.shown("q", given, f"e{n}")
            harness.feedback(f"e{n}", [shown[0]])
        harness.reset("q")
        harness.rank("q", [Item(item, features=[1.0, 2.0, 3.0]) for item in ITEMS], "longer")
        harness.feedback("longer", [1])
        replayed = replay_store(url(tmp_path), parse_policy("CascadeLinTS"))
    assert (replayed.lists, replayed.clicks) == (6, 6)
    assert "not accepted by the policy" in replayed.notes[0], "what was reset is learnt from, too"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--policy CascadeUBC1", "unknown policy 'CascadeUBC1'"),
        ("--policy CascadeUCB1 --ranker none", "ranker='none': must be a ranker with lists in the log"),
        ("--policy CascadeUCB1 --k 0", "k=0"),
        ("--policy CascadeUCB1 --top -1", "top=-1"),
        ("--policy CascadeUCB1 --out .", "must be a new folder, or an empty one"),
        ("--policy OracleUCB1", "policy"),
    ],
)
def test_wrong_input_is_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    with Harness(tmp_path) as harness:
        traffic(harness, 1)
    monkeypatch.chdir(tmp_path)
    assert run(["replay", url(tmp_path), *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
