"""The lists of several nodes are those of one: random use of three nodes, compared with one fold of their log."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from driftrank.serve.log import records
from driftrank.serve.log.store.base import LogCut, StoreError
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.operations.transfer import Transfer
from driftrank.serve.problems import Refused
from driftrank.serve.sharing import follower
from driftrank.serve.sharing.exchange import LogExchange
from driftrank.wire import ArmSettings, Feedback, RankerSettings, RankRequest, WarmRow
from tests.postgres import Cluster
from tests.serve.nodes import Event, Nodes, account, differences

ITEMS = "abcdefghij"
RANKERS = {
    "ucb": RankerSettings(policy="CascadeUCB1", k=3, wait=0.5, forget_items=2.0),
    "all": RankerSettings(policy="CascadeUCB1", k=2, wait=0.3, second_click="update", holdout=0.1, silence="drop"),
    "arms": RankerSettings(
        policy="CascadeUCB1", k=3, wait=0.5, holdout=0.1, stable=0.5, arms={"b": ArmSettings(share=0.4, seed=5)}
    ),
    "prior": RankerSettings(k=3, wait=0.5),  # the default policy, with a model of all queries
}


class Use:
    """Random use of nodes. The log is recorded as it grows: retention may forget it."""

    def __init__(self, nodes: Nodes, seed: int) -> None:
        self.nodes, self.chance = nodes, random.Random(seed)
        self.log: list = []
        self.lists: list[Event] = []  #: acknowledged; the same of ends
        self.ends: list[Event] = []
        self.kills = 0
        self._number = 0

    async def run(
        self, steps: int, *, kills: int = 0, at_once: int = 4, fault: Callable[[], None] | None = None
    ) -> None:
        """Act ``steps`` times, kill nodes evenly in between, and let a fault happen in the middle."""
        recording = asyncio.create_task(self._record())
        deaths = {steps * (n + 1) // (kills + 1) for n in range(kills)}
        for step in range(0, steps, at_once):
            happening = None
            if fault is not None and step <= steps // 2 < step + at_once:
                happening = asyncio.create_task(asyncio.to_thread(fault))
            while True:
                await asyncio.gather(*(self._act() for _ in range(at_once)))
                if happening is None or happening.done():
                    break
            if deaths & set(range(step, step + at_once)):
                await self._kill()
        await self.nodes.reach()
        self._done = True
        await recording

    async def _record(self) -> None:
        self._done = False
        with PostgresStore(self.nodes.url) as store:
            while True:
                done = self._done
                try:
                    more = await asyncio.to_thread(store.follow, self.log[-1].seq if self.log else 0)
                except LogCut:  # what was not durable yet was read, and is gone
                    more = []
                    with PostgresStore(self.nodes.url) as other:
                        there = {entry.seq: entry for entry in other.read(0, 10_000_000)}
                        query = "SELECT value FROM {schema}.meta WHERE name = 'forgotten'"
                        forgotten = other._writer.run(partial(other._value, query=query))
                    self.log = [it for it in self.log if it.seq <= forgotten or there.get(it.seq) == it]
                self.log += more
                if done and not more:
                    return
                await asyncio.sleep(0.01)

    async def _kill(self) -> None:
        number = self.chance.randrange(len(self.nodes.nodes))
        await self.nodes[number].crash()
        self.kills += 1
        fresh = type(self.nodes[number])(self.nodes.url, self.nodes.made, node=f"n{number}", **self.nodes._settings)
        await fresh.start()
        fresh.maintenance._memory = 30_000
        self.nodes.nodes[number] = fresh

    def _node(self):
        return self.chance.choice([node for node in self.nodes.nodes if node.ready])

    async def _act(self) -> None:
        chance, node = self.chance, self._node()
        name = chance.choice(list(RANKERS))
        query = f"q{min(chance.randrange(9), chance.randrange(9))}"
        what = chance.random()
        with suppress(Refused, StoreError):
            if what < 0.45:
                requests = [self._request(query if n == 0 else f"q{n}") for n in range(chance.choice([1, 1, 1, 3]))]
                await node.rank(name, requests)
                self.lists += [(name, request.event_id) for request in requests]
            elif what < 0.88 and self.lists:
                of, event = self.lists[-1 - min(chance.randrange(30), chance.randrange(len(self.lists)))]
                clicks = sorted(chance.sample([1, 2], chance.choice([0, 1, 1, 2])))
                (result,) = await node.feedback(of, [Feedback(event, clicks or None)])
                if result.outcome == "counted":
                    self.ends.append((of, event))
            elif what < 0.91 and self.lists:
                of, event = chance.choice(self.lists[-20:])
                await node.activate(event, [of])
            elif what < 0.93 and self.lists:
                of, event = chance.choice([*self.lists[-5:], (name, f"later{chance.randrange(5)}")])
                await node.feedback(of, [Feedback(event, shown=0)])
            elif what < 0.95:
                await node.reset(name, query, gone=chance.random() < 0.5)
            elif what < 0.96:
                rows = [WarmRow(f"q{n}", list("abc"), [1 + n % 3]) for n in range(3)]
                await Transfer(node).warmstart(name, rows, None)
            elif what < 0.985:
                change = chance.choice(
                    [{"k": chance.choice([2, 3, 4])}, {"forget_items": chance.choice([1.0, 2.0, 50.0])}]
                )
                await node.patch_ranker(name, change)
            elif what < 0.99:
                await node.reset(name)
            elif name != "prior":
                await node.delete_ranker(name)
                await node.put_ranker(name, RANKERS[name])

    def _request(self, query: str) -> RankRequest:
        self._number += 1
        chance = self.chance
        event = f"later{chance.randrange(5)}" if chance.random() < 0.01 else f"e{self._number}"
        items = chance.sample(ITEMS, chance.choice([4, 6]))
        subject = f"s{chance.randrange(6)}" if chance.random() < 0.5 else None
        return RankRequest(query, items, event_id=event, defer=chance.random() < 0.1, subject=subject)


def _use(url: str, seed: int, steps: int, *, kills: int = 0, fault=None, **settings) -> tuple[Use, list[str]]:
    with Nodes(url, 3, rankers=RANKERS, **settings) as nodes:
        for node in nodes.nodes:
            node.maintenance._memory = 30_000  # a few queries
        use = Use(nodes, seed)
        nodes.run(use.run(steps, kills=kills, fault=fault))
        return use, differences(use.log, nodes.made, nodes.nodes, nodes.run)


def test_lists_of_three_nodes_are_those_of_one(postgres):
    use, different = _use(postgres.url(), 1, 500, kills=3, checkpoint_seconds=0.5, retention=0.8)
    assert not different
    assert use.kills == 3
    _check_acknowledged(use)


@pytest.mark.slow
def test_lists_stay_the_same_when_the_database_is_killed():
    with Cluster() as cluster:

        def fault() -> None:
            cluster.kill()
            cluster.start()

        use, different = _use(cluster.url(), 3, 400, fault=fault, durability="full")
        assert not different
        _check_acknowledged(use)


@pytest.mark.slow
def test_lists_stay_the_same_when_a_synchronous_standby_takes_over():
    with Cluster("synchronous_standby_names=standby") as primary, Cluster(primary=primary) as standby:

        def fault() -> None:
            primary.kill()
            standby.promote()

        use, different = _use(primary.url(None, standby), 4, 400, fault=fault, durability="full")
        assert not different
        _check_acknowledged(use)


def _check_acknowledged(use: Use) -> None:
    """Nothing acknowledged is lost, and nothing has ended twice."""
    found = account(use.log, use.lists, use.ends)
    assert found.lists > 150
    assert (found.lost, found.twice) == ([], [])


def test_ends_are_counted_by_list(postgres):
    """The same event id, after its ranker was created anew."""
    with Nodes(postgres.url(), ranker={"policy": "CascadeUCB1"}) as nodes:
        event = "default", "e"
        for node in nodes.nodes:
            nodes.run(node.delete_ranker("default"))
            nodes.run(node.put_ranker("default", RankerSettings(policy="CascadeUCB1")))
            nodes.run(node.list_of("q", "e"))
            assert nodes.run(node.click("e", 1)).outcome == "counted"
            nodes.level()
        log = nodes.log()
    assert account(log, [event] * 2, [event] * 2) == (2, [], [])
    assert account(log[:-1], [event] * 2, [event] * 2) == (2, [event], [])
    assert account(log, [event, ("default", "other")], []) == (2, [("default", "other")], [])


def test_an_end_that_was_written_twice_is_noticed(postgres, monkeypatch):
    """The mutant: ends of a list by two nodes have different ids."""
    id, number = records.final_id, itertools.count()
    monkeypatch.setattr(records, "final_id", lambda *of: f"{id(*of)}/{next(number)}")
    with Nodes(postgres.url(), ranker={"policy": "CascadeUCB1"}) as nodes:
        a, b = nodes[0], nodes[1]
        nodes.run(a.list_of("q", "e"))
        nodes.run(b.hold("default", ["q"]))
        nodes.level()

        async def both():
            return await asyncio.gather(a.click("e", 1), b.click("e", 2))

        nodes.run(both())
        assert len(account(nodes.log(), [], []).twice) == 2


def _no_tail(monkeypatch):
    load = follower.load_query
    monkeypatch.setattr(follower, "load_query", lambda *of: load(*of[:-1], of[-1]._replace(entries=[])))


def _nothing_kept_while_loading(monkeypatch):
    """What is taken in together with a query is missing in it."""
    exchange = LogExchange.exchange

    def as_of_before(self, *of):
        at, load = self._state.seq, self._store.load
        self._store.load = lambda wanted, until: load(wanted, at)
        try:
            return exchange(self, *of)
        finally:
            del self._store.load

    monkeypatch.setattr(LogExchange, "exchange", as_of_before)


def _own_records_first(monkeypatch):
    """Others' records that came before the own ones are folded only with the next exchange."""
    monkeypatch.setattr(
        LogExchange, "_of_others", lambda self, at, appended: [] if appended else self._store.follow(at)
    )


def _no_shared_model(monkeypatch):
    follow = follower.State.follow

    def without(self, seq, record):
        kept = {name: ranker.learns_shared for name, ranker in self.rankers.items()}
        for ranker in self.rankers.values():
            ranker.learns_shared = False
            ranker._shared, ranker._aside = None, ranker._shared
        follow(self, seq, record)
        for name, ranker in self.rankers.items():
            if name in kept:
                ranker.learns_shared, ranker._shared = True, ranker._aside

    monkeypatch.setattr(follower.State, "follow", without)


@pytest.mark.parametrize("mutation", [_no_tail, _nothing_kept_while_loading, _own_records_first, _no_shared_model])
def test_the_comparison_notices(postgres, monkeypatch, mutation):
    """Random use meets each fault sooner or later: which of three nodes reads when is not ours to say."""
    mutation(monkeypatch)
    assert any(_differs(postgres.url(), seed) for seed in range(2, 10)), "no list differs"


def _differs(url: str, seed: int) -> bool:
    with Nodes(url, 3, rankers=RANKERS) as nodes:
        for node in nodes.nodes:
            node.maintenance._memory = 30_000
        with suppress(AssertionError, KeyError):  # a fold out of order may stop the use; what was made is compared
            nodes.run(Use(nodes, seed).run(200))
        return bool(differences(nodes.log(), nodes.made, nodes.nodes, nodes.run, states=False))
