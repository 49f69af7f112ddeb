"""A rolling upgrade: a node of an older version beside a newer one never writes over what it does not know."""

from __future__ import annotations

import json

import msgspec
import pytest

import driftrank.serve.service
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from driftrank.serve.log.records import Ranked, Record, decode
from driftrank.serve.log.store.base import Snapshot, StoreTooNew
from driftrank.serve.problems import Refused
from driftrank.serve.state.version import VERSION, fields_of
from tests.serve.nodes import Nodes
from tests.serve.test_nodes import _until

RANKER = {"policy": "CascadeUCB1", "k": 3, "wait": 600}


class Before(msgspec.Struct):
    a: int


class After(Before):
    b: list[Before] = []


def test_a_new_field_is_a_new_version() -> None:
    assert fields_of([Before]) < fields_of([After])
    assert fields_of([Record]) < VERSION


def test_a_newer_node_becomes_the_keeper_and_older_ones_write_no_states(postgres, monkeypatch) -> None:
    with Nodes(postgres.url(), 1, ranker=RANKER) as nodes:
        old = nodes[0]
        nodes.run(old.maintenance.renew_lease())
        assert old.maintenance.keeper
        monkeypatch.setattr(driftrank.serve.service, "VERSION", VERSION + 1)
        new = nodes.start(1)
        monkeypatch.undo()
        schema = nodes.url.partition("schema=")[2]
        postgres.run(f"UPDATE {schema}.leases SET until = now() - interval '1 s'")
        nodes.run(old.maintenance.renew_lease())
        nodes.run(new.maintenance.renew_lease())
        assert [node.maintenance.keeper for node in nodes.nodes] == [False, True]
        # the old one still answers, from the same log
        for n, node in enumerate((old, new, old)):
            nodes.run(node.list_of("q", f"e{n}"))
            assert nodes.run(nodes[n % 2].click(f"e{n}", 1)).outcome == "counted"
        nodes.level()
        nodes.run(new.maintenance.checkpoint())
        stored = {name: new.store.get_snapshot(name) for name in new.store.snapshot_names("")}
        assert {"q/default/q", "checkpoint"} <= stored.keys()
        nodes.run(new.list_of("q", "later"))
        nodes.level()
        old.maintenance._keeper_until = 1e18  # it has not noticed
        nodes.run(old.maintenance.checkpoint())
        nodes.run(old.maintenance.cover(old.state.seq))
        assert {name: new.store.get_snapshot(name) for name in new.store.snapshot_names("")} == stored
        assert not nodes.differences()
        nodes.run(old.crash())
        with pytest.raises(StoreTooNew, match="is used by a newer driftrank"):
            nodes.start(0)
        nodes[0].store.close()


def test_a_field_that_is_unknown_makes_a_node_step_aside(postgres) -> None:
    with Nodes(postgres.url(), 1, ranker=RANKER) as nodes:
        node = nodes[0]
        nodes.run(node.list_of("q", "e"))
        body = json.loads(nodes.log()[-1].body)
        assert isinstance(decode(json.dumps(body)), Ranked)
        node.store.append([("new", json.dumps(body | {"event": "f", "weight": 2}).encode())])
        nodes.run(_until(lambda: node.problem))
        with pytest.raises(Refused, match="unknown to this version"):
            nodes.run(node.list_of("q"))


@pytest.mark.parametrize("what", ["an added field", "a newer policy", "an older policy"])
def test_a_state_that_is_unknown_is_refused_and_stays(postgres, monkeypatch, what: str) -> None:
    with Nodes(postgres.url(), 1, ranker=RANKER) as nodes:
        one = nodes[0]
        for n in range(3):
            nodes.run(one.list_of("q", f"e{n}"))
            nodes.run(one.click(f"e{n}", 2))
        query = one.state.queries["default", "q"]
        if what == "an added field":
            saved = msgspec.msgpack.decode(query.to_bytes())[:10]
            places, described, times, estimates, offered, value = [0] * len(query.seen), [], [], [], None, -1.0
            body = msgspec.msgpack.encode([*saved, places, described, times, estimates, offered, value, "new"])
        else:
            monkeypatch.setattr(CascadeUCB1, "version", CascadeUCB1.version + (1 if "newer" in what else -1))
            body = query.to_bytes()
            monkeypatch.undo()
        its = Snapshot("q/default/q", one.state.seq, body)
        one.store.put_snapshots([its])
        two = nodes.start(1)
        if what == "an older policy":
            assert nodes.run(two.list_of("q", "f")).step == 1
            return
        with pytest.raises(Refused, match="cannot be loaded"):
            nodes.run(two.list_of("q", "f"))
        nodes.run(two.list_of("other", "g"))  # the rest goes on
        two.maintenance._keeper_until = 1e18
        nodes.run(two.maintenance.checkpoint())
        assert two.store.get_snapshot("q/default/q") == its
