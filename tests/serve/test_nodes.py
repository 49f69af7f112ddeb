"""Several services on one log."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import threading
import time
from collections import Counter

import msgspec
import pytest

from driftrank.serve.answers import feeds
from driftrank.serve.answers.experiment import experiment_of
from driftrank.serve.log.entries import entry_of
from driftrank.serve.log.records import Activated, Final, Ranked, activated_id, decode, encode, final_id, ranked_id
from driftrank.serve.log.store.base import LogCut, LogOnly, Snapshot, StoreUnknown
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.log.store.shared import Loaded
from driftrank.serve.maintenance import _end
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.operations.transfer import Transfer
from driftrank.serve.problems import Refused
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.wire import RankerSettings, RankRequest
from tests.postgres import Cluster, binaries
from tests.serve.nodes import Nodes, differences

RANKER = {"policy": "CascadeUCB1", "k": 3, "wait": 600}
BRIEF = {"default": RankerSettings(**RANKER | {"wait": 0.2})}


@pytest.fixture
def nodes(postgres):
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        yield nodes
        assert not nodes.differences()


def test_a_click_on_one_node_is_learnt_by_all(nodes):
    a, b = nodes[0], nodes[1]
    answer = nodes.run(a.list_of("q", "e1"))
    assert nodes.run(b.click("e1", 1)).outcome == "counted"
    assert nodes.run(a.click("e1", 1)).outcome == "duplicate"
    nodes.level()
    for node in (a, b):
        nodes.run(node.hold("default", ["q"]))
        query = node.state.query(node.state.rankers["default"], "q")
        assert (query.steps, query.clicks) == (1, 1)
    assert nodes.run(b.list_of("q", "e1")) == answer  # the same request, elsewhere
    with pytest.raises(Refused, match="was used for another query"):
        nodes.run(b.list_of("other", "e1"))


def test_two_nodes_that_end_a_list_at_the_same_time(nodes):
    a, b = nodes[0], nodes[1]
    nodes.run(a.list_of("q", "e"))

    async def both():
        return await asyncio.gather(a.click("e", 1), b.click("e", 2), a.click("e", 1), b.click("e", 2))

    outcomes = sorted(result.outcome for result in nodes.run(both()))
    assert outcomes == ["counted", "duplicate", "refused", "refused"]


def test_an_answer_from_memory_waits_until_it_is_durable(postgres, monkeypatch):
    """The record of another node can be read before that node has acknowledged it."""
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        flushes = []
        monkeypatch.setattr(b.store, "flush", lambda: flushes.append(b.state.seq))
        settings = RankerSettings(policy="CascadeUCB1", k=2)

        async def repeat(first, again):
            before = len(flushes)
            await first
            await nodes.reach()
            out = await again
            assert len(flushes) == before + 1
            return out

        nodes.run(repeat(a.list_of("q", "e"), b.list_of("q", "e")))
        assert nodes.run(repeat(a.click("e", 1), b.click("e", 1))).outcome == "duplicate"
        nodes.run(a.list_of("q", "later", defer=True))
        again = repeat(a.activate("later", ["default"]), b.activate("later", ["default"]))
        assert nodes.run(again).outcome == "duplicate"
        nodes.run(repeat(a.put_ranker("shop", settings), b.put_ranker("shop", settings)))
        flushes.clear()
        nodes.run(b.list_of("q", "own"))  # its own append has waited for all before it
        nodes.run(b.list_of("q", "e"))
        assert not flushes


@pytest.mark.slow
def test_what_a_standby_lacks_is_acknowledged_by_no_node():
    if binaries() is None:
        pytest.skip("needs initdb of PostgreSQL")
    with (
        Cluster("synchronous_standby_names=standby") as primary,
        Cluster(primary=primary) as standby,
        Nodes(primary.url(None, standby), ranker=RANKER, durability="full") as nodes,
    ):
        a, b = nodes[0], nodes[1]
        for node in (a, b):  # to prolong a lease waits for the standby, too
            node.maintenance.renew_lease = _nothing
            nodes.run(node.hold("default", ["q"]))
        nodes.run(asyncio.sleep(0.5))

        async def hang():
            standby.signal(signal.SIGSTOP)
            try:
                first = asyncio.create_task(a.list_of("q", "e"))
                await _until(lambda: b.state.impressions.cached("default", 0, "e") is not None)
                again = asyncio.create_task(b.list_of("q", "e"))
                done, _ = await asyncio.wait({first, again}, timeout=1)
                assert not done
            finally:
                standby.signal(signal.SIGCONT)
            assert await first == await again

        nodes.run(hang())
        assert not nodes.differences()


def test_rankers_are_those_of_all_nodes(nodes):
    a, b = nodes[0], nodes[1]
    nodes.run(b.put_ranker("shop", RankerSettings(policy="CascadeUCB1", k=2)))
    nodes.level()
    (answer,) = nodes.run(a.rank("shop", [RankRequest("q", list("abc"), event_id="x")]))
    assert len(answer.items) == 2
    nodes.run(a.put_ranker("shop", RankerSettings(policy="CascadeUCB1", k=3)))
    nodes.run(b.reset("shop", "q"))
    nodes.run(a.delete_ranker("shop"))
    nodes.level()
    with pytest.raises(Refused, match="no such ranker"):
        nodes.run(b.rank("shop", [RankRequest("q", list("abc"))]))


@pytest.mark.parametrize("known", [True, False])
def test_collected_clicks_that_the_keeper_does_not_know_yet_count(postgres, known):
    with Nodes(postgres.url(), ranker=RANKER | {"second_click": "update"}) as nodes:
        a, b = nodes[0], nodes[1]
        nodes.run(a.list_of("q", "e"))
        if known:
            assert nodes.run(b.click("e", 1)).outcome == "collected"
            nodes.level()
        ranker = a.state.rankers["default"]
        end = _end(ranker, a.state.impression(ranker, "e"), a.now())  # of the feedback window
        assert nodes.run(b.click("e", 3)).outcome == "collected"
        nodes.run(a.append([end]))
        nodes.level()
        for node in (a, b):
            found = nodes.run(node.impressions(node.state.rankers["default"], ["e"]))["e"]
            assert found.final.clicks == ([1, 3] if known else [3])
        assert nodes.run(b.click("e", 3, *([1] * known))).outcome == "duplicate"
        assert not nodes.differences()


def test_an_export_has_what_other_nodes_have_learnt(nodes):
    a, b = nodes[0], nodes[1]
    nodes.run(a.list_of("q", "e"))
    nodes.run(a.click("e", 1))
    nodes.level()

    async def states() -> dict[str, bytes]:
        return {query: state async for query, state in Transfer(b).export("default")}

    assert nodes.run(states())["q"] == a.state.queries["default", "q"].to_bytes()


def test_activation_on_another_node(nodes):
    a, b = nodes[0], nodes[1]
    nodes.run(a.list_of("q", "e", defer=True))
    assert nodes.run(b.click("e", 1)).outcome == "inactive"
    assert nodes.run(b.activate("e", ["default"])).outcome == "activated"
    assert nodes.run(a.activate("e", ["default"])).outcome == "duplicate"
    assert nodes.run(a.click("e", 1)).outcome == "counted"
    nodes.run(b.click("unknown", shown=0))  # taken back before it came
    nodes.run(a.list_of("q", "unknown"))
    assert nodes.run(b.click("unknown", 1)).outcome == "refused"


@pytest.mark.parametrize("what", ["ended", "activated"])
def test_no_record_is_about_a_list_that_was_made_later(nodes, what):
    """Another node ends a list while its ranker is created anew, and the event id is used again. A node that is behind
    finds that later list in the log.
    """
    a = nodes[0]
    nodes.run(a.list_of("q", "e", defer=True))
    nodes.level()
    ranker = a.state.rankers["default"]
    about = a.state.impression(ranker, "e")
    nodes.run(a.delete_ranker("default"))
    nodes.run(a.put_ranker("default", ranker.settings))
    id, record = {
        "ended": (final_id("default", "e", about.seq), Final("default", "e", time.time(), "withdrawn", [], 0)),
        "activated": (activated_id("default", "e", about.seq), Activated("default", "e", time.time())),
    }[what]
    with PostgresStore(nodes.url) as store:
        store.append_entries([entry_of(id, encode(record), record, about.ranked, about.seq)])
    nodes.level()
    nodes.run(a.list_of("q", "e", defer=True))
    nodes.start(1)
    assert not nodes.differences()


def test_a_list_of_a_deleted_ranker_does_not_count_if_it_was_recorded_later(nodes):
    """A node makes a list while another creates the ranker anew. The first one still finds it; nobody else does."""
    a = nodes[0]
    nodes.run(a.list_of("q", "before"))
    ranker = a.state.rankers["default"]
    made = a.state.impression(ranker, "before").ranked
    nodes.run(a.delete_ranker("default"))
    nodes.run(a.put_ranker("default", ranker.settings))
    with PostgresStore(nodes.url) as store:
        late = msgspec.structs.replace(made, event_id="late")
        append = [entry_of(ranked_id("default", ranker.created, "late"), encode(late), late)]
        ((number, _),) = store.append_entries(append).settled
        nodes.level()
        (found,) = nodes.run(a.impressions(ranker, ["late"])).values()
        assert found.seq == number
        end = Final("default", "late", time.time(), "feedback", [1])
        store.append_entries([entry_of(final_id("default", "late", number), encode(end), end, late, number)])
    nodes.level()
    assert not nodes.differences()
    assert nodes.run(a.click("late", 1)).outcome == "orphan"


def test_settings_of_a_file_are_written_once(postgres):
    settings = {"rankers": {"shop": RankerSettings(policy="CascadeUCB1", k=2)}}
    with Nodes(postgres.url(), 1, **settings) as nodes:
        first = len(nodes.log())
        nodes.start(1)
        nodes.start(2)
        assert len(nodes.log()) == first == 2
        nodes.run(nodes[0].delete_ranker("shop"))
        nodes.start(1)
        assert "shop" in nodes[1].state.rankers


def test_a_node_that_was_away_takes_in_what_it_missed(nodes):
    for n in range(5):
        nodes.run(nodes[0].list_of(f"q{n % 2}", f"e{n}"))
    nodes.run(nodes[0].maintenance.checkpoint())
    nodes.run(nodes[1].crash())
    for n in range(5, 12):
        nodes.run(nodes[0].list_of(f"q{n % 2}", f"e{n}"))
        nodes.run(nodes[0].click(f"e{n}", 1 + n % 3))
    nodes.start(1)
    assert nodes.run(nodes[1].click("e11", 2 + 1 % 3)).outcome in ("duplicate", "refused")
    assert nodes.run(nodes[1].click("e3", 1)).outcome == "counted"


def test_the_keeper_is_one_and_another_follows(postgres):
    with Nodes(postgres.url(), ranker=RANKER | {"wait": 1}) as nodes:
        for node in nodes.nodes:
            nodes.run(node.maintenance.renew_lease())
        assert [node.maintenance.keeper for node in nodes.nodes].count(True) == 1
        assert max(node.maintenance.keeper_age for node in nodes.nodes) < 60
        one = next(node for node in nodes.nodes if node.maintenance.keeper)
        other = next(node for node in nodes.nodes if node is not one)
        nodes.run(other.list_of("q", "e"))
        before = other.maintenance.keeper_age
        nodes.run(one.stop())  # gives the lease back
        assert other.maintenance.keeper_age > before
        nodes.run(other.maintenance.renew_lease())
        assert other.maintenance.keeper
        nodes.run(_ended(other, "e"))


def test_nodes_whose_names_are_the_same_have_one_keeper(postgres):
    with Nodes(postgres.url(), ranker=RANKER, node="same") as nodes:
        for _ in range(3):
            for node in nodes.nodes:
                nodes.run(node.maintenance.renew_lease())
            assert [node.maintenance.keeper for node in nodes.nodes] == [True, False]
        listed = nodes[0].store.nodes()
        assert sorted((node.name, node.keeper) for node in listed) == [("same", False), ("same", True)]


def test_the_name_of_a_node_is_that_of_its_machine(postgres, monkeypatch):
    with Nodes(postgres.url(), 1, ranker=RANKER, node=None) as nodes:
        maintenance, names = nodes[0].maintenance, []
        for machine in ("a", "b"):
            monkeypatch.setattr(socket, "gethostname", lambda machine=machine: machine)
            for maintenance.url in ("http://0.0.0.0:8080", "https://[::]:8443", "unix:/run/shop.sock", ""):
                names.append(maintenance.node)
        assert names[:4] == ["a:8080", "a:8443", "a:/run/shop.sock", "a:8080"]
        assert not set(names[:4]) & set(names[4:])


def test_a_keeper_that_wakes_up_after_its_lease_does_no_harm(postgres):
    """It hangs before it writes its checkpoint, and before it ends a list; another has done both meanwhile."""
    url = postgres.url()
    with Nodes(url, 2, rankers=BRIEF, retention=0.3) as nodes:
        a, b = nodes.nodes
        for node in nodes.nodes:
            nodes.run(node.maintenance.renew_lease())
        assert a.maintenance.keeper
        nodes.run(_use(nodes, random.Random(11), 20, queries=3))
        awake, put, append = threading.Event(), a.store.put_snapshots, a.store.append_entries
        hung = []

        def asleep(work):
            def hang(*arguments, **options):
                hung.append(work)
                assert awake.wait(60)
                return work(*arguments, **options)

            return hang

        a.store.put_snapshots, a.store.append_entries = asleep(put), asleep(append)

        async def hang():
            late = asyncio.create_task(a.maintenance.checkpoint())
            await _until(lambda: hung)
            postgres.run(f"UPDATE {url.partition('schema=')[2]}.leases SET until = now() - interval '1 s'")
            b.maintenance._keeper_until = 0.0
            await b.maintenance.renew_lease()
            assert b.maintenance.keeper
            await b.list_of("q0", "meanwhile")
            await _until(lambda: not b.info("default").pending)
            await b.maintenance.checkpoint()
            await asyncio.sleep(0.4)
            for _ in range(2):
                await b.maintenance._forget_old()
            its = b.store.get_snapshot("checkpoint")
            awake.set()
            await late
            assert b.store.get_snapshot("checkpoint") == its
            await a.maintenance.renew_lease()
            assert [node.maintenance.keeper for node in nodes.nodes] == [False, True]
            await a.list_of("q0", "again")
            assert (await b.click("again", 1)).outcome == "counted"

        log = nodes.log()
        nodes.run(hang())
        nodes.level()
        log += [entry for entry in nodes.log() if entry.seq > log[-1].seq]
        ends = Counter(record.event_id for entry in log if isinstance(record := decode(entry.body), Final))
        assert set(ends.values()) == {1}
        loaded = nodes.start(2)
        nodes.level()
        for key in list(a.state.queries):
            nodes.run(loaded._follower.hold([key]))
            queries = [node.state.queries[key].to_bytes() for node in nodes.nodes if key in node.state.queries]
            assert len(queries) > 1 == len(set(queries))


async def _ended(node, event):
    found = (await node.impressions(node.state.rankers["default"], [event]))[event]
    await _until(lambda: found.final is not None)
    assert found.final.how == "silence"


def test_two_keepers_at_once_do_no_harm(postgres):
    with Nodes(postgres.url(), 2, rankers=BRIEF, retention=1) as nodes:
        for node in nodes.nodes:
            node.maintenance._keeper_until = 1e18
            node.maintenance.renew_lease = _nothing
        nodes.run(_use(nodes, random.Random(3), 150))
        for node in nodes.nodes:
            nodes.run(node.maintenance.checkpoint())
        nodes.run(_until(lambda: not any(node.info("default").pending for node in nodes.nodes)))
        nodes.level()
        finals = [record.event_id for record in map(_record, nodes.log()) if isinstance(record, Final)]
        assert len(finals) == len(set(finals)) == 150
        assert not nodes.differences()


async def _nothing():
    pass


def _record(entry):
    return decode(entry.body)


async def _use(nodes, chance, n, queries=12):
    """Requests anywhere; a part of the lists gets clicks, elsewhere."""
    events = []
    for number in range(n):
        node = chance.choice([node for node in nodes.nodes if node.ready])
        event = f"u{number}"
        await node.list_of(f"q{chance.randrange(queries)}", event, chance.sample("abcdefgh", 6))
        events.append(event)
        if chance.random() < 0.7:
            other = chance.choice([node for node in nodes.nodes if node.ready])
            await other.click(events[chance.randrange(max(0, len(events) - 20), len(events))], chance.randrange(1, 4))


def test_a_query_in_use_by_nobody_is_covered_before_its_records_go(postgres):
    with Nodes(postgres.url(), 2, rankers=BRIEF, retention=0.3) as nodes:
        nodes.run(_use(nodes, random.Random(5), 60))
        made = list(nodes.made)
        log = nodes.log()
        nodes.run(nodes[1].crash())
        keeper = nodes[0].maintenance
        keeper._keeper_until = 1e18
        nodes.run(_until(lambda: not nodes[0].info("default").pending))
        nodes.run(asyncio.sleep(0.3))  # and are old
        nodes.level()
        whole = nodes.log()
        nodes.run(keeper.checkpoint())
        for _ in range(2):
            nodes.run(keeper._forget_old())
        rest = nodes.log()
        assert len(rest) < len(whole) / 2
        assert log[: len(log) // 2][-1].seq < rest[0].seq
        assert not differences(whole, made, [nodes[0]], nodes.run)
        # feedback on what is forgotten
        assert nodes.run(nodes[0].click("u0", 1)).outcome in ("late", "duplicate", "refused", "orphan")


def test_a_snapshot_ahead_of_a_node_is_waited_for(nodes):
    a, b = nodes[0], nodes[1]
    for n in range(6):
        nodes.run(a.list_of("q", f"e{n}"))
    nodes.level()
    b._follower._poll = 3600.0  # b stays behind unless it is asked

    async def ahead() -> None:
        await asyncio.sleep(0.05)
        exchange = b._follower._log.exchange
        calls = []

        def stale(entries, events, wanted, flush):
            """The first time, the log is read before a goes on, the queries afterwards."""
            if wanted and not calls:
                calls.append(1)
                out = exchange(entries, events, [], flush)
                asyncio.run_coroutine_threadsafe(_go_on(a), loop).result()
                return out._replace(loaded=b.store.load(wanted, 10**9))
            return exchange(entries, events, wanted, flush)

        loop = asyncio.get_running_loop()
        b._follower._log.exchange = stale
        await b.list_of("q", "after")
        assert calls

    nodes.run(ahead())
    del b._follower._log.exchange


def test_a_log_that_nobody_writes_to_is_read_less_often(nodes):
    a, b = nodes[0]._follower, nodes[1]._follower
    a._in_use, b._in_use = time.monotonic() + 60, time.monotonic() - 60
    assert (a.pause, b.pause) == (0.005, 0.05)
    now = a._in_use = b._in_use = time.monotonic()
    nodes.run(nodes[0].list_of("q"))
    nodes.run(_until(lambda: a._in_use > now < b._in_use))  # one wrote, the other read


async def _until(true):
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.01)


async def _go_on(node):
    for n in range(6, 9):
        await node.list_of("q", f"e{n}")
        await node.click(f"e{n}", 1)
    await node.maintenance.snapshot([("default", "q")])


@pytest.mark.parametrize("statements", [1, 2])
def test_a_query_is_loaded_at_one_moment(postgres, monkeypatch, statements):
    """A keeper covers the query and forgets its records as soon as a part of it was read."""
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        for n in range(6):
            nodes.run(a.list_of("q", f"e{n}"))
            nodes.run(a.click(f"e{n}", 1 + n % 3))
        nodes.level()
        whole, rows, load = nodes.log(), b.store._rows, b.store.load

        def forgotten_meanwhile(link, query, **parameters):
            out = rows(link, query, **parameters)
            if "since" in parameters and a.store.read(0):
                body = a.state.queries["default", "q"].to_bytes()
                a.store.put_snapshots([Snapshot("q/default/q", a.state.seq, body)])
                assert a.store.forget(a.state.seq + 1) > 6
            return out

        def in_two(wanted, until):
            snapshots = [found.snapshot for found in load(wanted, 0)]
            return [Loaded(its, found.entries) for its, found in zip(snapshots, load(wanted, until), strict=True)]

        monkeypatch.setattr(b.store, "_rows", forgotten_meanwhile)
        if statements == 2:
            monkeypatch.setattr(b.store, "load", in_two)
        nodes.run(b.list_of("q", "after"))
        monkeypatch.undo()
        assert len(nodes.log()) < 6
        assert bool(differences(whole, nodes.made, [b], nodes.run)) == (statements == 2)


@pytest.mark.parametrize("changes", [{"k": 2}, {"forget_items": 0.01, "wait": 0.01}])
@pytest.mark.parametrize("right", [True, False])
def test_records_are_folded_with_the_settings_of_their_time(postgres, monkeypatch, changes, right):
    if not right:
        monkeypatch.setattr(Ranker, "go_back", lambda *_: None)
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        nodes.run(a.list_of("q", "old", "abc"))
        nodes.run(asyncio.sleep(0.05))
        for n in range(3):
            nodes.run(a.list_of("q", f"e{n}", "def"))
            nodes.run(a.click(f"e{n}", 3))
        nodes.run(a.patch_ranker("default", changes))
        nodes.level()
        nodes.run(b.list_of("q", "new", "def"))
        assert bool(nodes.differences()) is not right


def test_a_cut_log_makes_a_node_begin_again(postgres):
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        for n in range(4):
            nodes.run(a.list_of("q", f"e{n}"))
        nodes.level()
        nodes.run(b.hold("default", ["q"]))
        schema = nodes.url.partition("schema=")[2]
        last = nodes.log()[-1].seq
        nodes.run(a.crash())
        # a standby that lacks the last moments has taken over, and others have written since
        postgres.run(f"UPDATE {schema}.log SET id = 'other' WHERE seq = %s", last)
        postgres.run(f"DELETE FROM {schema}.log WHERE seq = %s", last)
        b.store._writer._disconnect()
        nodes.run(_until(lambda: b._follower.begun_again and b.problem is None))
        assert b._follower.begun_again == 1
        assert b.state.seq == last - 1
        nodes.made[:] = [made for made in nodes.made if made.ranked.event_id != "e3"]
        nodes.run(b.list_of("q", "e3"))
        assert not nodes.differences()


def test_a_log_that_is_cut_under_live_nodes_is_noticed(postgres):
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        for n in range(4):
            nodes.run(a.list_of("q", f"e{n}"))
        nodes.level()
        nodes.run(b.hold("default", ["q"]))
        last = nodes.log()[-1].seq
        postgres.run(f"UPDATE {nodes.url.partition('schema=')[2]}.log SET crc = crc + 1 WHERE seq = %s", last)
        with PostgresStore(nodes.url) as store:
            assert store.verify(0).seq == last
        nodes.run(_until(lambda: all(node._follower.begun_again and node.problem is None for node in nodes.nodes)))
        assert [node._follower.begun_again for node in nodes.nodes] == [1, 1]
        nodes.made[:] = [made for made in nodes.made if made.ranked.event_id != "e3"]
        for node in nodes.nodes:
            assert nodes.run(node.click("e3", 1)).outcome == "orphan"
            nodes.run(node.list_of("q"))
        assert not nodes.differences()


def test_what_was_made_from_a_log_that_was_cut_is_not_written(postgres, monkeypatch):
    with Nodes(postgres.url(), 1, ranker=RANKER) as nodes:
        node = nodes[0]
        nodes.run(node.list_of("q", "e"))
        begin, calls = node._follower._begin_again, []

        async def failing():
            assert not calls or node.problem
            calls.append(node.ready)
            if len(calls) == 1:
                raise StoreUnknown("not yet")
            await begin()

        async def cut():
            node._follower._begin_again = failing
            monkeypatch.setattr(node.store, "check_uncut", _cut)
            node._follower._log._check_at = 0.0
            clicks = [asyncio.create_task(node.click("e", n)) for n in (1, 2)]
            found = await asyncio.gather(*clicks, return_exceptions=True)
            assert all("the log was cut" in str(error) for error in found)
            monkeypatch.undo()
            await _until(lambda: node.problem is None)

        nodes.run(cut())
        assert len(calls) == 2  # a database that fails meanwhile is asked again
        assert not any(isinstance(decode(entry.body), Final) for entry in nodes.log())
        assert nodes.run(node.click("e", 1)).outcome == "counted"


def _cut():
    raise LogCut("the log was cut")


def test_an_unknown_record_makes_a_node_step_aside(postgres):
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        nodes[0].store.append([("new", b'{"kind":"of-the-future","ranker":"default","time":0}')])
        nodes.run(_until(lambda: all(node.problem for node in nodes.nodes)))
        for node in nodes.nodes:
            assert "is unknown to this version" in node.problem
            with pytest.raises(Refused, match="is unknown to this version"):
                nodes.run(node.list_of("q"))


def test_a_record_that_cannot_be_folded_stops_its_query_only(postgres, monkeypatch):
    with Nodes(postgres.url(), ranker=RANKER) as nodes:
        a, b = nodes[0], nodes[1]
        nodes.run(a.list_of("bad", "e"))
        nodes.run(b.hold("default", ["bad"]))
        nodes.level()
        query = b.state.queries["default", "bad"]
        monkeypatch.setattr(type(query), "learn", _fail)
        with pytest.raises(Refused, match="could not be folded"):
            nodes.run(a.click("e", 1))
        nodes.level()
        monkeypatch.undo()
        for node in (a, b):
            with pytest.raises(Refused, match="could not be folded"):
                nodes.run(node.list_of("bad"))
            nodes.run(node.list_of("good"))
            assert node.problem is None


def _fail(*_, **__):
    raise RuntimeError("a bug")


def test_a_node_that_cannot_reach_the_store_is_not_ready(postgres, monkeypatch):
    with Nodes(postgres.url(), 1, ranker=RANKER, patience=0.1) as nodes:
        node = nodes[0]
        nodes.run(node.list_of("q", "e"))

        monkeypatch.setattr(node.store._writer, "run", _unreachable)
        with pytest.raises(Refused, match="outcome is unknown"):
            nodes.run(node.list_of("q", "f"))
        assert node.problem
        monkeypatch.undo()
        nodes.run(_until(lambda: node.problem is None))
        nodes.run(node.list_of("q", "f"))
        assert not nodes.differences()


def test_nobody_waits_for_a_database_that_does_not_answer(postgres, monkeypatch):
    """Requests waited until it did: those behind the first one, and those of a query that is not in memory."""
    with Nodes(postgres.url(), 1, ranker=RANKER, patience=0.5) as nodes:
        node, go_on = nodes[0], threading.Event()
        nodes.run(node.list_of("q", "e"))
        append = node.store.append_entries

        async def hangs():
            sent = asyncio.create_task(node.list_of("q", "sent"))
            await _until(lambda: node._follower._busy and not node._follower._waiting)
            return await asyncio.gather(
                sent, node.click("e", 1), node.list_of("other", "f"), return_exceptions=True
            ), await node.rank("default", [RankRequest("new", ["b", "a"])], lenient=True)

        monkeypatch.setattr(node.store, "append_entries", lambda entries: go_on.wait(20) and append(entries))
        try:
            (sent, click, list_), (instead,) = nodes.run(hangs())
        finally:
            monkeypatch.undo()
            go_on.set()
        assert [problem.title for problem in (sent, click, list_)] == [
            "Outcome unknown", "Store not writable", "Store not readable"
        ]  # fmt: skip
        assert ([item.id for item in instead.items], instead.degraded) == (["b", "a"], "store")
        nodes.run(_until(lambda: node._follower.queued == 0))
        assert nodes.run(node.list_of("q", "sent")).event_id == "sent"  # it was in the log
        assert nodes.run(node.click("e", 1)).outcome == "counted"  # that one was not sent any more
        nodes.run(node.list_of("other", "f"))
        assert sum(isinstance(decode(entry.body), Ranked) for entry in nodes.log()) == 3
        assert not nodes.differences()


def _unreachable(work):
    raise StoreUnknown("cannot be reached")


def test_a_clock_that_is_wrong_is_not_used(postgres):
    with Nodes(postgres.url(), 1, ranker=RANKER, clock=lambda: time.time() + 3600) as nodes:
        nodes.start(1, clock=lambda: time.time() - 3600)
        for n, (one, other) in enumerate((nodes.nodes, nodes.nodes[::-1])):
            now = time.time()
            nodes.run(one.list_of("q", f"e{n}"))
            assert -5 < nodes.made[-1].ranked.time - now < 60  # the machine may be busy, but not for an hour
            assert nodes.run(other.click(f"e{n}", 1)).outcome == "counted"
        assert not nodes.differences()


#: a policy that finds changes
DETECTS = {"policy": "GLRTCascadeUCB:explore=0.2", "k": 2, "horizon": 1000, "wait": 600}


async def _visits(node, clicked_on, query, n, liked, users):
    for number in range(n):
        answer = await node.list_of(query, f"{query}-{liked}-{number}", "abc")
        chosen = next((item.id for item in answer.items if users.random() < (0.9 if item.id == liked else 0.05)), None)
        await clicked_on.click(answer.event_id, *([chosen] if chosen else []))


def test_all_nodes_have_the_changes_that_any_has_found(postgres):
    with Nodes(postgres.url(), 3, ranker=DETECTS) as nodes:
        a, b, c = nodes.nodes
        users = random.Random(0)
        for liked in "ac":
            nodes.run(_visits(a, b, "q", 110, liked, users))
        for node in nodes.nodes:
            nodes.run(node.maintenance.record_changes())
        nodes.level()
        assert not c.state.queries.holds(("default", "q"))
        found = [feeds.changes(node, "default", None, None, 100) for node in nodes.nodes]
        assert found[0] == found[1] == found[2] != []
        assert [change.number for change in _one_fold(nodes).changes] == [change.number for change in found[0][::-1]]
        assert sum(node.metrics.count("changes_detected", ("default",)) for node in nodes.nodes) == len(found[0])
        assert len(feeds.top_queries(c, "default", "change", 0, 10)) == 1
        # from the checkpoint
        c.maintenance._keeper_until = 1e18
        nodes.run(c.maintenance.checkpoint())
        d = nodes.start(3)
        assert feeds.changes(d, "default", "q", None, 100) == found[0]
        nodes.run(b.reset("default", "q"))
        nodes.level()
        assert not any(feeds.changes(node, "default", None, None, 100) for node in nodes.nodes)


def test_a_change_whose_finder_has_gone_is_found_by_whoever_loads_the_query(postgres):
    with Nodes(postgres.url(), 1, ranker=DETECTS) as nodes:
        a, users = nodes[0], random.Random(0)
        a.maintenance.record_changes = _nothing
        for liked in "ac":
            nodes.run(_visits(a, a, "q", 110, liked, users))
        assert a.state.found
        b = nodes.start(1)
        nodes.run(a.crash())
        assert feeds.changes(b, "default", None, None, 100) == []
        b.maintenance._keeper_until = 1e18
        nodes.run(b.maintenance.cover(b.state.seq))  # nobody asks for it, but its records are to be forgotten
        assert b.state.rankers["default"].changes == _one_fold(nodes).changes != []


def _one_fold(nodes) -> Ranker:
    """The ranker as one fold of the log has it."""
    with PostgresStore(nodes.url) as store:
        state = State(LogOnly(store), Metrics())
        for entry in store.read(0, 1_000_000):
            state.apply(entry.seq, decode(entry.body))
    return state.rankers["default"]


def test_memory_is_bounded_and_what_is_dropped_is_loaded_again(postgres):
    with Nodes(postgres.url(), 3, ranker=RANKER) as nodes:
        for node in nodes.nodes:
            node.maintenance._memory = 1
        nodes.run(_use(nodes, random.Random(7), 80))
        assert all(node.metrics.count("evictions") > 5 for node in nodes.nodes)
        assert not nodes.differences()


def test_exploration_and_the_experiment_are_the_same_on_all_nodes(postgres):
    """Lists are those of a single service, and so are the sums: also on nodes that do not hold the query."""
    with Nodes(postgres.url(), 2, ranker=RANKER | {"explore": 1.0, "holdout": 0.4}) as nodes:
        user = random.Random(3)
        for n in range(40):
            node = nodes[n % 2 if n % 3 else 0]
            answer = nodes.run(node.list_of("q", f"e{n}", subject=f"s{n}"))
            assert all(item.propensity for item in answer.items) == (answer.items[0].why != "baseline")
            nodes.run(node.click(f"e{n}", *([user.choice([1, 2, 3])] if user.random() < 0.5 else [])))
        nodes.level()
        one, two = (experiment_of(nodes[number].state.rankers["default"]) for number in (0, 1))
        assert one == two
        assert sum(arm.lists for arm in one.arms) == 40
        assert not nodes.differences()  # with a single service that makes the same lists
