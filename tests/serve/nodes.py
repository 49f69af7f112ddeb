"""Several services on one PostgreSQL log, in one event loop; and the lists that one fold of that log gives."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from driftrank.serve.log.records import Final, Ranked, decode
from driftrank.serve.log.store.base import LogEntry, LogOnly
from driftrank.serve.log.store.postgres import PostgresStore
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.ranking.choice import CheckedRequest, make_impression
from driftrank.serve.ranking.paging import page_of
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.state.state import State
from driftrank.wire import Feedback, FeedbackResult, RankerSettings, RankRequest, RankResponse

T = TypeVar("T")


class Made(NamedTuple):
    """A list as a node made it."""

    position: int  #: the record up to which the node had folded the log
    request: RankRequest
    ranked: Ranked


class Node(Service):
    """A service that notes for every list what it was made from."""

    def __init__(self, url: str, made: list[Made], *, clock: Any = None, **settings: Any) -> None:
        own = {"checkpoint_seconds": 3600.0, "store": url} | settings
        durability, patience = own.pop("durability", "relaxed"), own.pop("patience", 10.0)
        checked = ServerSettings(**own)
        store = PostgresStore(url, durability=durability, patience=patience)
        super().__init__(store, checked, **({} if clock is None else {"clock": clock}))
        self.made = made
        self._rank, self._ranking._rank = self._ranking._rank, self._noted

    def _noted(self, ranker: Any, assigned: Any, request: RankRequest, *how: Any) -> Any:
        out = self._rank(ranker, assigned, request, *how)
        if not isinstance(out, Ranked):
            self.made.append(Made(self.state.seq, request, out.record))
        return out

    async def list_of(self, query: str, event: str | None = None, items: Any = "abcdef", **how: Any) -> RankResponse:
        (answer,) = await self.rank("default", [RankRequest(query, list(items), event_id=event, **how)])
        return answer

    async def click(self, event: str, *clicks: int, **how: Any) -> FeedbackResult:
        (result,) = await self.feedback("default", [Feedback(event, list(clicks) or None, **how)])
        return result

    async def crash(self) -> None:
        """End without a word: nothing is written any more."""
        self.ready = False
        tasks = [*self.maintenance._tasks, *self._follower._tasks]
        self.store.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._follower._fail_all([], OSError("crashed"))
        self._committer._writer.shutdown()


class Nodes:
    """``with Nodes(url, 3) as nodes``: the services are ``nodes[0]`` to ``nodes[2]``."""

    def __init__(self, url: str, n: int = 2, *, ranker: dict[str, Any] | None = None, **settings: Any) -> None:
        self.url, self.made, self._settings = url, [], settings
        self._runner = asyncio.Runner()
        self.nodes: list[Node] = []
        for number in range(n):
            self.start(number)
        if ranker is not None:
            self.run(self[0].put_ranker("default", RankerSettings(**ranker), discard=True))
            self.level()

    def start(self, number: int, **settings: Any) -> Node:
        """Start a node, or start it again."""
        for before in self.nodes[number : number + 1]:
            if before.ready:
                self.run(before.crash())
        node = Node(self.url, self.made, **({"node": f"n{number}"} | self._settings | settings))
        self.nodes[number : number + 1] = [node]
        self.run(node.start())
        return node

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def __enter__(self) -> Nodes:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            for node in self.nodes:
                if node.ready:
                    self.run(node.crash())
        finally:
            self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def level(self) -> None:
        """Wait until all nodes have folded the whole log."""
        self.run(self.reach())

    async def reach(self) -> None:
        last = max(node.store.last for node in self.nodes if node.ready)
        for node in self.nodes:
            if node.ready:
                await node._follower.reach(last, 30)
                assert node.state.seq >= last

    def log(self) -> list[LogEntry]:
        with PostgresStore(self.url) as store:
            return store.read(0, 10_000_000)

    def differences(self) -> list[str]:
        """Lists that one fold of the log would have made otherwise, and queries that differ from it at the end."""
        self.level()
        return differences(self.log(), self.made, [node for node in self.nodes if node.ready], self.run)


#: a ranker and an event id
Event = tuple[str, str]


class Account(NamedTuple):
    """What became of that which was acknowledged."""

    lists: int
    lost: list[Event]  #: lists and ends that were acknowledged and are not in the log
    twice: list[str]  #: ids of ends of a list that has another one, or of no list


def account(log: Iterable[LogEntry], lists: Iterable[Event], ends: Iterable[Event]) -> Account:
    """Look for lists and ends that were acknowledged in all that ever was in the log.

    Several lists may have one event id: of a ranker that was created anew, or because the log has forgotten the first.
    So ends are counted by list, which is the record that the id of the end names.
    """
    made: dict[int, Event] = {}
    ended: defaultdict[int, list[str]] = defaultdict(list)
    for entry in log:
        record = decode(entry.body)
        if isinstance(record, Ranked):
            made[entry.seq] = record.ranker, record.event_id
        elif isinstance(record, Final):
            number = int(entry.id.split("/")[2])
            ended[number if made.get(number) == (record.ranker, record.event_id) else 0].append(entry.id)
    lost = [*{*lists}.difference(made.values())]
    lost += Counter(ends) - Counter(made[number] for number in ended if number)
    return Account(len(made), lost, [id for number, ids in ended.items() if not number or len(ids) > 1 for id in ids])


def differences(
    log: list[LogEntry], made: list[Made], nodes: list[Node], run: Any, *, states: bool = True
) -> list[str]:
    """Lists, and unless ``states`` is False queries and sums in memory, that one fold of the log does not have."""
    served = {}
    for entry in log:
        record = decode(entry.body)
        if isinstance(record, Ranked):
            served[record.event_id] = record
    with PostgresStore(nodes[0].settings.store) as store:
        state = State(LogOnly(store), Metrics())
        log = [*log, *store.read(log[-1].seq)]
        # lists that were never written are compared with nothing; nodes may differ in what they have folded by now
        checks = [(one.position, 0, one) for one in made if one.ranked.event_id in served]
        checks += [(node.state.seq, n + 1, node) for n, node in enumerate(nodes) if states]
        checks.sort(key=lambda check: check[:2])
        out, at = [], 0
        for entry in [*log, None]:
            while at < len(checks) and (entry is None or checks[at][0] < entry.seq):
                what = checks[at][2]
                out += _difference(state, what, nodes[0].settings) if isinstance(what, Made) else _of_node(state, what)
                at += 1
            if entry is not None:
                state.apply(entry.seq, decode(entry.body))
        if not states:
            return out
        # every query, loaded once more from snapshot and tail
        keys = list(state.queries)
        node = nodes[0]
        node.maintenance._memory = 10**12
        for key in keys:
            node.state.queries.drop(key)
            node.state.queries._absent.pop(key, None)
        run(node._follower.hold(keys))
        for entry in store.read(state.seq):  # the keeper has gone on
            if entry.seq <= node.state.seq:
                state.apply(entry.seq, decode(entry.body))
        for key in keys:
            its, ours = _query(node.state, key), _query(state, key)
            if its is None or its.to_bytes() != ours.to_bytes():
                out.append(f"query {key}, loaded")
    return out


def _query(state: State, key: tuple[str, str]) -> Any:
    ranker, _, label = key[0].partition("@")
    return state.query(state.rankers[ranker].arm(label), key[1])


def _of_node(state: State, node: Node) -> list[str]:
    """What a node has in memory and one fold up to the same record has not."""
    out = []
    for key in list(node.state.queries):
        its, ours = _query(node.state, key), _query(state, key)
        if ours is None or its.to_bytes() != ours.to_bytes():
            out.append(f"query {key} of {node.settings.node}")
    for name, ranker in node.state.rankers.items():
        mine = state.rankers[name]
        for part in ("collected", "values", "deferred", "withdrawn", "sizes", "since", "created", "settings"):
            if getattr(ranker, part) != getattr(mine, part):
                out.append(f"{part} of ranker {name} of {node.settings.node}")
        if ranker.waiting.to_bytes() != mine.waiting.to_bytes():
            out.append(f"waiting impressions of ranker {name} of {node.settings.node}")
        if ranker.traffic.queries != mine.traffic.queries:
            out.append(f"traffic of ranker {name} of {node.settings.node}")
        if ranker.experiment != mine.experiment or ranker.stable_lists.to_bytes() != mine.stable_lists.to_bytes():
            out.append(f"experiment or stable lists of ranker {name} of {node.settings.node}")
        if ranker.series.saved() != mine.series.saved():
            out.append(f"series of ranker {name} of {node.settings.node}")
        for arm, ours in zip(ranker.every_arm(), mine.every_arm(), strict=True):
            if arm.shared is not None and arm.shared.to_bytes() != ours.shared.to_bytes():
                out.append(f"shared model of {arm.owner} of {node.settings.node}")
    return out


def _difference(state: State, made: Made, settings: ServerSettings) -> list[str]:
    theirs, request = made.ranked, made.request
    ranker = state.rankers.get(theirs.ranker)
    if ranker is None:
        return [f"{theirs.event_id}: no ranker at {made.position}"]
    assigned = ranker.assign(theirs.event_id, request.subject)
    checked = CheckedRequest(settings, assigned.arm.settings, assigned.arm.policy, request)
    query = state.query(assigned.arm, request.query)
    page = page_of(state, ranker, assigned, query, request, checked, theirs.time) if ranker.stable else None
    ours, _ = make_impression(
        ranker, assigned, request.query, query, checked, theirs.event_id, theirs.time, defer=request.defer, page=page
    )
    return (
        [] if ours == theirs else [f"{theirs.event_id} of query {request.query} at {made.position}: {theirs} != {ours}"]
    )
