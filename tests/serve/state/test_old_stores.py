"""Stores of earlier versions give the same state, to the bit.

``stores/28fd5ba.db.gz`` was written by ``driftrank serve`` of that commit: eight rankers with traffic of all kinds, a
graceful shutdown, more traffic, then SIGKILL. So it has a checkpoint, snapshots, and records of every kind after them
(the one of kind "lost", which takes a damaged disk, was appended by that commit's own code). ``28fd5ba.json`` is the
state as that commit folds it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import msgpack

from driftrank.policies.learner.serialization import unpack
from driftrank.serve.log.records import ChangeFound, Record, SharedImported, Withdrawn, decode, encode
from driftrank.serve.log.store.base import LogOnly
from driftrank.serve.log.store.sqlite import SQLiteStore
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.state.query import Query
from driftrank.serve.state.state import State
from tests.serve.harness import Harness

STORES = Path(__file__).parent / "stores"
EXPECTED = json.loads((STORES / "28fd5ba.json").read_text())
pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    out = tmp_path / "service.db"
    out.write_bytes(gzip.decompress((STORES / "28fd5ba.db.gz").read_bytes()))
    return out


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    with SQLiteStore(path) as store:
        yield store


def fold(state: State, store: SQLiteStore) -> State:
    for entry in store.read(state.seq, 1_000_000):
        state.apply(entry.seq, decode(entry.body))
    state.recount()
    return state


def described(state: State) -> dict[str, Any]:
    """The state in the words of the file. Bytes that zlib wrote may differ from machine to machine, numbers may not."""
    rankers = {
        name: {
            "policy": r.spec, "born": r.created, "since": r.since, "chosen": r.chosen, "queries": r.queries,
            "lists": r.impressions, "steps": r.steps, "clicks": r.clicks, "pending": r.waiting.due(float("inf")),
            "collected": {str(at): [*its] for at, its in r.collected.items()},
            "deferred": {str(at): seq for at, seq in r.deferred.items()},
            "states": {
                query: of_query(found)
                for query in EXPECTED["rankers"][name]["states"]
                if (found := state.query(r, query)) is not None
            },
        }
        for name, r in state.rankers.items()
    }  # fmt: skip
    return {"seq": state.seq, "clock": state.clock, "rankers": rankers}


def of_query(query: Query) -> dict[str, Any]:
    saved = unpack(query.learner.to_bytes())
    return {
        "since": query.since, "seq": query.seq, "lists": query.impressions, "steps": query.steps,
        "clicks": query.clicks, "now": query.now, "all_seen": query.all_seen, "sweep": query.sweep,
        "seen": [[item, query.seen[item]] for item in query.learner.items],
        "numbers": hashlib.sha256(saved.floats.tobytes() + saved.ints.tobytes()).hexdigest(),
    }  # fmt: skip


def test_from_the_checkpoint(store: SQLiteStore) -> None:
    state = State(store, Metrics())
    state.restore()
    assert state.seq == 90
    assert described(fold(state, store)) == EXPECTED


def test_from_the_log_alone(store: SQLiteStore) -> None:
    assert described(fold(State(LogOnly(store), Metrics()), store)) == EXPECTED


def test_records_are_written_as_they_were(store: SQLiteStore) -> None:
    bodies = [entry.body for entry in store.read(0)]
    assert [encode(decode(body)) for body in bodies] == bodies
    later = {Withdrawn, SharedImported, ChangeFound}
    assert {type(decode(body)) for body in bodies} == {*get_args(Record)} - later


def test_snapshots_are_written_as_they_were(store: SQLiteStore) -> None:
    state = State(store, Metrics())
    state.restore()
    assert readable("checkpoint", state.checkpoint().snapshot().body) == readable(
        "checkpoint", body(store, "checkpoint")
    )
    for name in store.snapshot_names("q/"):
        written = body(store, name)
        assert readable(name, Query.from_bytes(written).to_bytes()) == readable(name, written)


def body(store: SQLiteStore, name: str) -> bytes:
    snapshot = store.get_snapshot(name)
    assert snapshot is not None
    return snapshot.body


def readable(name: str, packed: bytes) -> Any:
    """The stored names and values, decompressed."""
    out = msgpack.decode(packed)
    if name == "checkpoint":
        for ranker in out["rankers"].values():
            ranker["pending"] = zlib.decompress(ranker["pending"])
    else:
        header, floats, ints = unpack(out[-1])
        out[-1] = header, floats.tobytes(), ints.tobytes()
    return out


def test_a_service_goes_on_with_it(path: Path) -> None:
    with Harness.at(path.parent) as harness:
        assert harness.replay.records == EXPECTED["seq"] - 90
        assert harness.outcome("twod:3", [1], "default") == "duplicate"
        assert harness.outcome("twop:0", [1], "soft") == "forgotten", "its query was reset"
        assert harness.outcome("twos:1", [3], "slow") == "collected"
        assert harness.activate("twox:3", "drop").outcome == "activated"
        before = harness.rank("shoes", ["a"], "twod:4")
        assert [item.id for item in before.items] != ["a"], "the ranking that was served then"
        assert harness.outcome("oneb:1", [2], "safe") == "duplicate"
        assert harness.rank("shoes", ["a", "b", "c", 7, "7"], "three:1").step == 13
