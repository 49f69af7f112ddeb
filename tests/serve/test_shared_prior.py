"""Rankers with a shared model: the caller's order, and what other queries have learnt, as a prior."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from driftrank.serve.log.records import Ranked, Warm
from driftrank.serve.state.checkpoint import shared_name
from driftrank.wire import WarmRow
from tests.serve.harness import Harness, differences

PRIOR = "PriorRegimeTS:hash_bits=8"
ITEMS = list("abcdefghij")


def started(folder: Path, **ranker: object) -> Harness:
    return Harness(folder, PRIOR, ranker={"k": 3, "wait": 100, "forget_items": 1000} | ranker)


def shared(harness: Harness, ranker: str = "default") -> bytes:
    model = harness.state.rankers[ranker].shared
    assert model is not None
    return model.to_bytes()


def empty(harness: Harness) -> bool:
    return harness.state.rankers["default"].shared_seq == 0


def traffic(harness: Harness, lists: int, *, likes: Sequence[str] = "d", begin: int = 0, queries: int = 5) -> int:
    """Users of several queries click the items they like, if these are shown; the number of clicks."""
    clicks = 0
    for n in range(begin, begin + lists):
        shown = harness.shown(f"q{n % queries}", ITEMS, f"t{n}")
        clicked = [item for item in shown if item in likes][:1]
        clicks += len(clicked)
        harness.feedback(f"t{n}", clicked)
    return clicks


# -- ranking -----------------------------------------------------------------------------------------------------------


def test_a_new_query_begins_in_the_callers_order(tmp_path):
    with started(tmp_path) as harness:
        answer = harness.rank("q", ITEMS, "e")
        assert [item.id for item in answer.items] == ["a", "b", "c"]
        assert {item.why for item in answer.items} == {"prior"}
        assert harness.shown("p", ITEMS, "f", baseline=["d", "c", "b", "a"]) == ["d", "c", "b"]
        assert harness.shown("o", ITEMS, "g", baseline=["d"]) == ["d", "a", "b"], "the others come after it"


def test_the_baseline_and_the_order_of_the_items_mean_the_same(tmp_path):
    logs = []
    for name in ("items", "baseline"):
        (tmp_path / name).mkdir()
        with started(tmp_path / name) as harness:
            for n in range(40):
                order = random.Random(n).sample(ITEMS, 10)
                how = {"baseline": order} if name == "baseline" else {}
                shown = harness.shown("q", sorted(order) if how else order, f"e{n}", **how)
                harness.feedback(f"e{n}", shown[:1] if n % 3 else [])
            logs.append([record for _, record in harness.log()])
            logs.append(shared(harness))
    assert logs[0] == logs[2]
    assert logs[1] == logs[3]


def test_items_without_an_order(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e", items_unordered=True)
        (record,) = [record for _, record in harness.log() if isinstance(record, Ranked)]
        assert record.places == []
        curve = harness.info().shared.places
        harness.feedback("e", [1])
        assert not empty(harness)
        assert harness.info().shared.places == curve, "nothing was learnt about places"
        assert "bias" in harness.query("q").items[0].because
        with harness.refused(422, "items_unordered: must not be true with a baseline"):
            harness.rank("q", ITEMS, "f", items_unordered=True, baseline=["b"])
        assert not differences(harness.dump(), harness.dump_of_log())


def test_reasons(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e")
        harness.feedback("e", ["b"])
        why = {item.id: item.why for item in harness.rank("q", ITEMS, "f").items}
        assert why["b"] == "learnt", "it was observed"
        assert {why[item] for item in why.keys() - {"a", "b"}} <= {"prior", "explore"}
        reasons = [item.why for n in range(300) for item in harness.rank("q", random.Random(n).sample(ITEMS, 10)).items]
        assert 0 < reasons.count("explore") <= 300, "at most one explorer in a list"


def test_what_one_query_has_learnt_helps_another(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 150, likes="d", queries=15)
        assert harness.shown("never seen", ITEMS, "new")[0] == "d"
        assert "item" in harness.info().shared.columns
        assert harness.query("q0").items[0].id == "d"


def test_a_record_has_the_places_of_the_items_shown(tmp_path):
    with started(tmp_path) as harness:
        for n in range(30):
            order = random.Random(n).sample(ITEMS, 10)
            shown = harness.shown("q", order, f"e{n}")
            record = harness.log()[-1][1]
            assert record.places == [order.index(item) + 1 for item in shown]
            known = harness.state.query(harness.state.rankers["default"], "q").seen
            assert record.items is None or set(record.items) < set(known)
            harness.feedback(f"e{n}", shown[:1] if n % 2 else [])


def test_only_items_with_a_state_are_recorded(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e")
        harness.feedback("e", ["b"])
        harness.rank("q", ["b", "x", "y"], "f")
        assert harness.log()[-1][1].items == ["b"]
        harness.rank("q", ["a", "b", "y"], "g")
        assert harness.log()[-1][1].items is None, "all of them"


# -- who learns --------------------------------------------------------------------------------------------------------


def test_a_holdout_teaches_nobody(tmp_path):
    with started(tmp_path, holdout=0.999) as harness:
        traffic(harness, 10)
        assert {record.arm for _, record in harness.log() if isinstance(record, Ranked)} == {"holdout"}
        assert empty(harness)
        assert harness.info().steps == 0


def test_a_shadow_teaches_both(tmp_path):
    with started(tmp_path, mode="shadow") as harness:
        traffic(harness, 60, likes="c", queries=10)
        assert harness.info().steps == 60
        assert harness.query("q0").items[0].id == "c"
        assert not differences(harness.dump(), harness.dump_of_log())
        harness.put(policy=PRIOR, k=3, wait=100, forget_items=1000)
        assert harness.info().steps == 60
        assert harness.shown("never seen", ITEMS, "live")[0] == "c"


def test_pinned_lists_teach_the_query_only(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e", pinned={"h": 1})
        assert harness.log()[-1][1].memo is None
        assert harness.outcome("e", ["h"]) == "counted"
        assert empty(harness)
        assert [item.id for item in harness.query("q").items] == ["h"]
        assert not differences(harness.dump(), harness.dump_of_log())


def test_positions_that_were_not_shown_do_not_count(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e")
        harness.feedback("e", [], shown=1)
        assert [item.id for item in harness.query("q").items] == ["a"]
        assert not empty(harness)
        assert not differences(harness.dump(), harness.dump_of_log())


def test_dropped_and_late_lists_teach_nobody(tmp_path):
    with started(tmp_path, silence="drop") as harness:
        harness.rank("q", ITEMS, "e")
        harness.advance(200)
        assert harness.outcome("e", ["a"]) == "late"
        assert empty(harness)


def test_an_old_log_teaches_both(tmp_path):
    """A head query in the log must not count as though each of its rows were the first."""
    rows = [WarmRow(f"q{n % 7}", ["a", "b", "c"], [3] if n % 2 else [], time=1e6 + n) for n in range(200)]
    with started(tmp_path) as harness:
        assert harness.warmstart(rows, "log").counted == 200
        assert harness.shown("never seen", ["a", "b", "c"], "new")[0] == "c"
        warm = [record for _, record in harness.log() if isinstance(record, Warm)]
        looks = [record_looks(record) for record in warm if record.query == "q0"]
        assert looks[0] == 0
        assert looks[-1] > 15, "what was observed before this row"
        assert not differences(harness.dump(), harness.dump_of_log())
        before = harness.dump()
        assert harness.warmstart(rows, "log").duplicates == 200
        assert not differences(before, harness.dump())
        harness.recover()
        assert not differences(before, harness.dump())


def record_looks(record: Warm) -> float:
    """The observations of the first item when a row was accepted: number 3 of its memo."""
    assert record.memo is not None
    return float(np.frombuffer(record.memo, "<f8")[3])


# -- the fold ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiny", [False, True])
def test_the_same_log_gives_the_same_bits(tmp_path, tiny):
    """After a crash, after a graceful stop, with queries ahead of the checkpoint, and from the log alone."""
    with Harness(
        tmp_path, PRIOR, tiny=tiny, ranker={"k": 3, "wait": 100, "forget_items": 1000, "holdout": 0.1}
    ) as harness:
        for part in range(6):
            traffic(harness, 20, begin=20 * part, likes="dg")
            if part % 2:
                harness.checkpoint()
            else:
                harness.export()  # all queries are written, the checkpoint is not
            harness.advance(40)
            before = harness.dump()
            assert not differences(before, harness.dump_of_log())
            assert (harness.restart if part == 3 else harness.recover)().records >= 0
            assert not differences(before, harness.dump()), part


_OTHER_PROCESS = """
import sys
from pathlib import Path
from tests.serve.harness import Harness
with Harness.at(Path(sys.argv[1])) as harness:
    print(harness.state.rankers["default"].shared.to_bytes().hex())
    print([item.id for item in harness.rank("q1", list("abcdefghij"), "next").items])
"""


def test_another_process_gives_the_same_bits(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 40)
        model = shared(harness).hex()
        harness.rank("q1", ITEMS, "probe")
        shown = [item.id for item in harness.rank("q1", ITEMS, "next").items]
    # no checkpoint was ever made
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_PROCESS, str(tmp_path)], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split("\n")[0] == model
    assert done.stdout.split("\n")[1] == str(shown)


def test_the_model_is_written_with_the_checkpoint_and_only_if_it_changed(tmp_path):
    with started(tmp_path) as harness:
        name, ranker = shared_name("default"), harness.state.rankers["default"]
        harness.checkpoint()
        assert harness.store.get_snapshot(name) is None, "it has learnt nothing"
        traffic(harness, 3)
        assert harness.store.get_snapshot(name) is None
        harness.checkpoint()
        first = harness.store.get_snapshot(name)
        assert first.seq == ranker.shared_seq == ranker.shared_stored
        harness.rank("q", ITEMS, "e")
        harness.checkpoint()
        assert harness.store.get_snapshot(name) == first
        assert not harness.state.changed_models()
        before = harness.dump()
        assert harness.recover().records == 0
        assert not differences(before, harness.dump())
        assert not harness.state.changed_models()


def test_a_lost_snapshot_of_the_model(tmp_path, caplog):
    with started(tmp_path) as harness:
        traffic(harness, 3)
        harness.checkpoint()
        harness.store.put_snapshots([], [shared_name("default")])
        harness.recover()
        assert "the shared model of ranker default is reset" in caplog.text
        assert empty(harness)
        assert harness.info().steps == 3


def test_resets(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 20)
        model = shared(harness)
        harness.reset("q0")
        harness.reset("q1", gone=True)
        assert shared(harness) == model, "a query is reset alone"
        assert harness.query("q0").items == []
        harness.put(policy=PRIOR, k=3, wait=50, forget_items=1000)
        assert shared(harness) == model
        harness.rank("q2", ITEMS, "before")
        harness.checkpoint()
        harness.reset()
        assert empty(harness)
        assert harness.outcome("before", [1]) == "forgotten"
        assert empty(harness), "an impression of an earlier generation teaches nobody"
        harness.recover()
        assert empty(harness)
        harness.drop_outdated()
        assert harness.store.get_snapshot(shared_name("default")) is None
        traffic(harness, 20, begin=100)
        harness.put(policy="CascadeUCB1", k=3)
        assert harness.info().shared is None
        assert harness.put(policy=PRIOR, k=3).shared is not None
        assert empty(harness)
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_reset_query_still_teaches_the_others(tmp_path):
    """Its impressions from before are evidence, and a replay cannot tell when a query that is ahead was reset."""
    with started(tmp_path) as harness:
        harness.rank("q", ITEMS, "e")
        harness.reset("q")
        assert harness.outcome("e", ["a"]) == "forgotten"
        assert not empty(harness)
        assert harness.query("q").steps == 0
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_deleted_ranker_begins_again_with_nothing(tmp_path):
    with started(tmp_path) as harness:
        harness.put("shop", policy=PRIOR, k=3)
        harness.rank("q", ITEMS, "e", ranker="shop")
        harness.feedback("e", ["a"], ranker="shop")
        harness.checkpoint()
        harness.delete("shop")
        harness.put("shop", policy=PRIOR, k=3)
        assert harness.state.rankers["shop"].shared_seq == 0
        harness.drop_outdated()
        assert harness.store.get_snapshot(shared_name("shop")) is None
        harness.recover()
        assert harness.state.rankers["shop"].shared_seq == 0


def test_queries_move_without_the_model(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with started(tmp_path / "one") as one, started(tmp_path / "other") as other:
        traffic(one, 50)
        states = one.export()
        assert all(not name.startswith("shared") for name in states)
        assert other.import_(states).counted == 5
        assert empty(other)
        state = other.query("q0")
        assert state.steps == 10
        assert {item.place for item in state.items} == {item.place for item in one.query("q0").items}
        other.rank("q0", ITEMS, "e")
        other.feedback("e", ["a"])
        assert not differences(other.dump(), other.dump_of_log())


# -- size --------------------------------------------------------------------------------------------------------------


def test_a_query_of_200_candidates_takes_less_than_60_kilobytes(tmp_path):
    chance = random.Random(5)
    items = [f"item-{n}" for n in range(200)]
    with started(tmp_path, k=10) as harness:
        for n in range(1000):
            shown = harness.shown("q", chance.sample(items, 200), f"e{n}")
            harness.feedback(f"e{n}", chance.sample(shown, 1) if chance.random() < 0.5 else [])
        query = harness.state.query(harness.state.rankers["default"], "q")
        assert query.nbytes < 60_000
        assert harness.state.queries.nbytes == query.nbytes
        assert len(query.seen) == len(query.places) == len(query.learner.items) == 80
        assert not differences(harness.dump(), harness.dump_of_log())


def test_items_that_vanish_are_forgotten(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", ["old", "b", "c"], "e")
        harness.feedback("e", ["b"])
        for n in range(8):
            harness.rank("q", ["b", "c", "d"], f"e{n}")
            harness.feedback(f"e{n}", ["b"])
            harness.advance(300)
        assert "old" not in {item.id for item in harness.query("q").items}
        assert "b" in {item.id for item in harness.query("q").items}
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_model_larger_than_the_memory_is_refused(tmp_path):
    with Harness(tmp_path, memory="64MB") as harness, harness.refused(422, "or its shared model takes"):
        harness.put("shop", policy="PriorRegimeTS:hash_bits=20")


# -- what it shows -----------------------------------------------------------------------------------------------------


def test_a_query_shows_where_its_priors_come_from(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 150, queries=15)
        items = harness.query("q0").items
        estimates = [item.estimate for item in items]
        assert estimates == sorted(estimates, reverse=True)
        first = items[0]
        assert (first.id, first.place) == ("d", 4)
        assert first.because.keys() == {"place", "query", "item"}
        assert max(items, key=lambda item: item.because["item"]).id == "d"
        assert 0 < first.prior < first.estimate < 1
        assert first.strength == pytest.approx(harness.info().shared.strength)


def test_a_ranker_shows_its_model(tmp_path):
    with started(tmp_path) as harness:
        new = harness.info().shared
        assert new.columns == ["place"]
        assert new.going_on == pytest.approx(0.9)
        assert list(new.places)[:3] == [1, 2, 4]
        assert list(new.places.values()) == sorted(new.places.values(), reverse=True)
        assert new.bytes == harness.state.rankers["default"].shared_bytes
        traffic(harness, 50, likes="")
        assert harness.info().shared.places[1] < new.places[1]
        assert harness.put("other", policy="CascadeUCB1").shared is None


def test_the_default_of_a_new_ranker(tmp_path):
    with Harness.at(tmp_path) as harness:
        assert harness.info().settings.policy == "PriorRegimeTS"
        assert harness.put("safe", mode="safe").settings.policy.startswith("BubbleRank")
        assert harness.put("own", policy="CascadeRegimeTS").settings.policy == "CascadeRegimeTS"
