"""Named features, context and scores in the service: what they teach, what is recorded, what is said of the rest."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from msgspec import msgpack

from driftrank.policies.learner.described import describe
from driftrank.serve.log.description import pack_description, unpack_description
from driftrank.serve.log.records import Ranked, decode, encode
from driftrank.wire import ENCODER, RANK, Item, RankRequest, RankResponse, WarmRow
from tests.serve.harness import Harness, differences

PRIOR = "PriorRegimeTS:hash_bits=10"


def started(folder: Path, policy: str = PRIOR, **ranker: object) -> Harness:
    return Harness(folder, policy, ranker={"k": 2, "wait": 100, "forget_items": 1000} | ranker)


def catalogue(n: int) -> list[Item]:
    """Eight items that were never sent before, half of them games."""
    kinds = [("game", "book")[i % 2] for i in range(8)]
    random.Random(n).shuffle(kinds)
    return [Item(f"{n}/{i}/{kind}", {"kind": kind, "price": 5.0 * i, "tags": ["x"] * (i % 2)})
            for i, kind in enumerate(kinds)]  # fmt: skip


def traffic(harness: Harness, lists: int, *, begin: int = 0, features: bool = True) -> int:
    """Phones click games, desks books; the number of clicks."""
    clicks = 0
    for n in range(begin, begin + lists):
        device, liked = (("phone", "game"), ("desk", "book"))[n % 2]
        items: list[Any] = catalogue(n)
        context = {"device": device, "hour": n % 24}
        if not features:
            items, context = [item.id for item in items], None
        shown = harness.shown(f"q{n % 50}", items, f"t{n}", items_unordered=True, context=context)
        clicked = [id_ for id_ in shown if id_.endswith(liked)][:1]
        clicks += len(clicked)
        harness.feedback(f"t{n}", clicked)
    return clicks


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service after 300 lists of new items, with the clicks of the last 100."""
    with started(tmp_path_factory.mktemp("features")) as harness:
        traffic(harness, 200)
        yield harness, traffic(harness, 100, begin=200)


def test_new_items_get_clicks_by_their_features_in_their_context(taught, tmp_path):
    assert taught[1] > 90
    with started(tmp_path) as harness:
        traffic(harness, 60, features=False)
        assert traffic(harness, 100, begin=200, features=False) < 85


def test_the_state_explains_itself(taught):
    harness, _ = taught
    assert harness.info().shared.columns == ["place", "query", "item", "features", "crosses"]
    seen = [item for item in harness.query("q0").items if item.because]
    assert seen
    for item in seen:
        assert set(item.because) == {"bias", "query", "item", "features", "crosses"}
    liked = [item.because["crosses"] for item in seen if item.id.endswith("game")]  # q0 is always on a phone
    other = [item.because["crosses"] for item in seen if item.id.endswith("book")]
    assert min(liked) > max(other, default=-1.0)


def test_replay_gives_the_same_bits(taught):
    harness, _ = taught
    assert not differences(harness.dump(), harness.dump_of_log())


def test_the_record_has_hashes_of_the_items_shown_only(taught):
    harness, _ = taught
    record = [record for _, record in harness.log() if isinstance(record, Ranked)][-1]
    assert decode(encode(record)) == record
    # two items with two to three features, two of the context: at most 8 tokens of 4 bytes, 3 numbers of 8
    assert record.described is not None
    assert len(record.described) < 80
    assert b"game" not in encode(record).replace(b"/game", b"")


def test_after_a_crash_with_a_query_ahead_of_the_checkpoint(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 30)
        harness.restart()  # a checkpoint
        traffic(harness, 20, begin=30)
        harness.run(harness.service.maintenance.snapshot(list(harness.state.queries)))
        before = harness.dump()
        harness.recover()
        assert not differences(before, harness.dump())
        assert not differences(before, harness.dump_of_log())
        query = harness.state.query(harness.state.rankers["default"], "q0")
        assert query.described, "part of the snapshot"


def test_a_query_explains_the_items_shown_last_and_stays_small(tmp_path):
    chance = random.Random(5)
    with started(tmp_path, k=10) as harness:
        for n in range(120):
            items = [Item(f"item-{i}", {"kind": str(i % 5), "brand": str(i % 17), "price": float(i)}, chance.random())
                     for i in range(200)]  # fmt: skip
            shown = harness.shown("q", items, f"e{n}", context={"device": "phone", "hour": n % 24})
            harness.feedback(f"e{n}", shown[-1:])
            if n == 60:
                harness.restart()
        query = harness.state.query(harness.state.rankers["default"], "q")
        assert (len(query.seen), len(query.described)) == (80, 20)
        assert list(query.described)[-10:] == shown
        assert query.nbytes < 60_000
        assert not differences(harness.dump(), harness.dump_of_log())


def test_shadows_warm_rows_and_pinned_items(tmp_path):
    with started(tmp_path, mode="shadow") as harness:
        traffic(harness, 60)
        assert harness.state.rankers["default"].shared_seq
        rows = [
            WarmRow("w", [Item("a", {"kind": "game"}, 2.0), Item("b", {"kind": "book"}, 1.0)], [1], context={"d": "p"})
        ]
        assert harness.warmstart(rows * 5).counted == 5
        assert set(harness.query("w").items[0].because) >= {"place", "score"}
        assert harness.log()[-1][1].described is not None
        harness.put(policy=PRIOR, k=2, wait=100, forget_items=1000)
        answer = harness.rank("p", catalogue(0), "pinned", pinned={catalogue(0)[3].id: 1}, context={"device": "desk"})
        assert (answer.items[0].why, answer.notes) == ("pinned", [])
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_list_that_was_seen_in_part(tmp_path):
    with started(tmp_path) as harness:
        harness.rank("q", catalogue(0), "e", context={"device": "desk"})
        harness.feedback("e", [], shown=1)
        assert harness.state.rankers["default"].shared_seq
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_damaged_description_is_not_imported(tmp_path):
    with started(tmp_path) as harness:
        traffic(harness, 10)
        exported = harness.state.query(harness.state.rankers["default"], "q0")
        good = exported.to_bytes()
        assert harness.run(harness.transfer.import_("default", [("copy", good)])).counted == 1
        assert {item.id for item in harness.query("copy").items} == set(exported.described)
        item, packed = next(iter(exported.described.items()))
        for bad in (b"", packed[:-1], msgpack.encode([b"", bytes(8 * 17)]), msgpack.encode([b"", b"", b"\x09\x09"])):
            exported.described[item] = bad or b"\xc0"
            with harness.refused(422, "query 'bad': "):
                harness.run(harness.transfer.import_("default", [("bad", exported.to_bytes())]))


def test_descriptions_that_do_not_fit():
    x = describe("q", ["a", "b"], features=[{"k": "v", "n": 1.5}, None], context={"c": True}, scores=[1.0, 2.0])
    packed = pack_description(x)
    assert packed is not None
    again = unpack_description(packed, describe("q", ["a", "b"]))
    for before, after in zip(x[1:-1], again[1:-1], strict=True):
        assert (before == after).all()
    assert pack_description(describe("q", ["a", "b"])) is None
    with pytest.raises(ValueError, match="not the description of 3 items"):
        unpack_description(packed, describe("q", ["a", "b", "c"]))
    parts = msgpack.decode(packed)
    for n, part, message in ((4, b"", "do not fit each other"), (4, struct.pack("<d", float("nan")), "not finite")):
        with pytest.raises(ValueError, match=message):
            unpack_description(msgpack.encode([*parts[:n], part]), describe("q", ["a", "b"]))


# -- scores ----------------------------------------------------------------------------------------------------------


def test_scores_are_the_order_and_a_column(tmp_path):
    with started(tmp_path, f"{PRIOR},explore_max=0") as harness:
        assert harness.info().shared.columns == ["place"]
        items = [Item("a", score=0.1), Item("b", score=0.9), Item("c", score=0.5), "d"]
        assert harness.shown("q", items, "e") == ["b", "c"]
        assert harness.shown("q", items, "u", items_unordered=True) == ["b", "c"]
        assert harness.shown("q", items, "f", baseline=["d", "a"]) == ["d", "a"]
        assert harness.log()[-3][1].places == [1, 2]
        harness.feedback("e", ["b"])
        assert harness.query("q").items[0].because["score"] > 0
        assert harness.info().shared.columns == ["place", "score"]
        assert not differences(harness.dump(), harness.dump_of_log())


def test_a_holdout_shows_the_order_of_the_scores(tmp_path):
    with started(tmp_path, "CascadeUCB1", holdout=0.999) as harness:
        items = [Item("a", score=0.1), Item("b", score=0.9), Item("c", score=0.5)]
        answer = harness.rank("q", items)
        assert [item.id for item in answer.items] == ["b", "c"]
        assert answer.notes == ["score: used for the baseline only, not by CascadeUCB1"]


# -- what is said ----------------------------------------------------------------------------------------------------


def test_what_is_not_used_is_said_and_counted(tmp_path):
    with started(tmp_path, "CascadeUCB1") as harness:
        ragged = [Item("a", [1.0]), Item("b", [1.0, 2.0])]
        notes = ["features: not used by CascadeUCB1", "context: not used by CascadeUCB1"]
        assert harness.rank("q", ragged, "e", context={"device": "phone"}).notes == notes
        assert harness.rank("q", ragged, "e", context={"device": "phone"}).notes == notes, "of a retry as well"
        assert harness.rank("q", ["a", "b"]).notes == []
        metrics = harness.service.metrics
        assert metrics.count("ignored", ("default", "features")) == 2
        assert metrics.count("ignored", ("default", "context")) == 2
    assert b"notes" not in ENCODER.encode(RankResponse("e", [], "CascadeUCB1", 1))


@pytest.mark.parametrize(
    ("features", "context", "message"),
    [
        ({"a": [1, 2]}, None, "features: 'a': must be a number, a string, a boolean or a list of strings"),
        (None, {"a": {"b": [None]}}, "context: 'a.b': must be a number, a string, a boolean or a list of strings"),
        ({str(n): n for n in range(257)}, None, "features: 257 by name, at most 256 are allowed"),
    ],
)
def test_bad_features_are_refused(tmp_path, features, context, message):
    with started(tmp_path) as harness, harness.refused(422, message):
        harness.rank("q", [Item("a", features)], context=context)


def test_json():
    body = b"""{"query": "q", "context": {"device": "phone", "user": {"age": 31}}, "items": [
        {"id": "a", "features": {"colour": "red", "tags": ["x", "y"]}, "score": 0.7},
        {"id": "b", "features": [{"colour": "blue"}, {"shop": {"open": true}}]},
        {"id": 3, "features": [1, 2.5]}, "d"]}"""
    request = RANK.decode(body)
    assert isinstance(request, RankRequest)
    first, second, third, _ = request.items
    assert (first.features, first.score) == ({"colour": "red", "tags": ["x", "y"]}, 0.7)
    assert second.features == [{"colour": "blue"}, {"shop": {"open": True}}]
    assert third.features == [1.0, 2.5]
    assert RANK.decode(ENCODER.encode(request)) == request
    assert b"score" not in ENCODER.encode(Item("a")), "services of an earlier version do not know it"
