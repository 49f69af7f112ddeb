"""The contract of stores that several services use at the same time, in addition to :mod:`.checks`.

A bench opens its store as often as it is asked to; ``check_shared_store(MyBench)`` runs every check.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from driftrank.contracts import checks_in, require
from driftrank.serve.log.store.base import LogCut, LogEntry, Snapshot, StoreTooNew
from driftrank.serve.log.store.checking import raises, same
from driftrank.serve.log.store.shared import NewEntry, SharedStore, Wanted, arm_key, process_of, query_key


class SharedBench(Protocol):
    """A place for one store, which may be open several times."""

    def open(self) -> SharedStore: ...


SharedBenches = Callable[[], SharedBench]


def check_shared_store(benches: SharedBenches) -> None:
    """Run every check."""
    for check in SHARED_CHECKS.values():
        check(benches)


def check_order_of_several_writers(benches: SharedBenches) -> None:
    """A reader that goes on where it stopped sees every entry once, whoever wrote it; ids are settled once for all."""
    bench, batches, size = benches(), 40, 5
    problems: list[BaseException] = []
    settled: dict[str, list[tuple[int, bool]]] = {}

    def write(n: int) -> None:
        try:
            with bench.open() as store:
                for batch in range(batches):
                    ids = [f"{n}/{batch}/{i}" for i in range(size)] + [f"all/{batch}"]
                    done = store.append_entries([NewEntry(id, b"{}", key=n + 1) for id in ids])
                    require(all(seq > done.base for seq, new in done.settled if new), "a number is not above its base")
                    for id, outcome in zip(ids, done.settled, strict=True):
                        settled.setdefault(id, []).append(outcome)
        except BaseException as error:
            problems.append(error)

    with bench.open() as reader:
        writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for writer in writers:
            writer.start()
        seen: list[LogEntry] = []
        while any(writer.is_alive() for writer in writers):
            seen += reader.follow(seen[-1].seq if seen else 0, limit=7)
        while more := reader.follow(seen[-1].seq if seen else 0):
            seen += more
        same("problems of writers", problems, [])
        same("entries", len(seen), 3 * batches * size + batches)
        same("what was followed", seen, reader.read(0, 1_000_000))
    numbers = {entry.id: entry.seq for entry in seen}
    for id, outcomes in settled.items():
        same(f"numbers of {id}", {seq for seq, _ in outcomes}, {numbers[id]})
        same(f"how often {id} is new", sum(new for _, new in outcomes), 1)


def check_following_up_to_an_entry(benches: SharedBenches) -> None:
    """Entries of others before one's own are found between one's position and the base."""
    bench = benches()
    with bench.open() as one, bench.open() as other:
        first = one.append_entries([NewEntry("a", b"{}")])
        same("the base of an empty log", first.base, 0)
        other.append_entries([NewEntry("b", b"{}"), NewEntry("c", b"{}")])
        done = one.append_entries([NewEntry("d", b"{}")])
        own = first.settled[0][0]
        same("of others", [entry.id for entry in one.follow(own, done.base)], ["b", "c"])
        one.flush()
        same("the last one", one.last, done.settled[0][0])


def check_loading(benches: SharedBenches) -> None:
    """A query is its snapshot, what came after it up to a number, and the impressions that this is about."""
    bench = benches()
    with bench.open() as store:
        name, other = "q/r/shoes", "q/r/hats"
        key = query_key(name)
        (n, _), *_ = store.append_entries(
            [NewEntry("i1", b'{"n":1}', key), NewEntry("x", b"{}", query_key(other))]
        ).settled
        store.append_entries(
            [NewEntry("c1", b'{"n":2}', key, n), NewEntry("z", b"{}"), NewEntry("i2", b'{"n":3}', key)]
        )
        snapshot = Snapshot(name, store.last, b"state")
        store.put_snapshots([snapshot])
        store.append_entries([NewEntry("i3", b'{"n":4}', key), NewEntry("f1", b'{"n":5}', key, n)])
        last = store.last
        store.append_entries([NewEntry("i4", b'{"n":6}', key)])
        wanted = [
            Wanted(name, key, 1),
            Wanted(other, query_key(other), 0),
            Wanted("q/r/none", query_key("q/r/none"), 0),
        ]
        shoes, hats, none = store.load(wanted, last)
        same("the snapshot", shoes.snapshot, snapshot)
        same("its tail, and the impression in it", [entry.id for entry in shoes.entries], ["i1", "c1", "i3", "f1"])
        same("of another key", (hats.snapshot, [entry.id for entry in hats.entries]), (None, ["x"]))
        same("nothing", none, (None, []))
        same("number of snapshots", (store.count("q/r/"), store.count("q/s/")), (1, 0))
        (later,) = store.load([Wanted(name, key, snapshot.seq + 1)], store.last)
        same("since a later number", (later.snapshot, [e.id for e in later.entries]), (None, ["i1", "c1", "f1", "i4"]))


def check_forgetting_what_is_covered(benches: SharedBenches) -> None:
    """Entries are covered by snapshots of their keys; an impression is needed until what is about it is covered."""
    bench = benches()
    with bench.open() as store:
        a_key, other = arm_key("q/r/a"), arm_key("q/r/b")
        _, (b, _), _ = store.append_entries(
            [
                NewEntry("a", b'{"n":1}', a_key, arm=a_key),
                NewEntry("b", b'{"n":2}', other, arm=other),
                NewEntry("z", b"{}"),
            ]
        ).settled
        ((end, _),) = store.append_entries([NewEntry("fb", b'{"n":3}', other, b, arm=other)]).settled
        same("covered", store.covered(), 0)
        same("keys", _ids(store.cover(end - 1)), {a_key: "a", other: "b"})
        store.put_snapshots([Snapshot("q/r/a", end - 1, b""), Snapshot("q/r/b", end - 1, b"")])
        same("keys", store.cover(end - 1), {})
        same("more entries", store.cover(end - 1), None)
        same("covered, but for an impression", store.covered(), b - 1)
        same("keys", _ids(store.cover(end)), {other: "b"})
        store.put_snapshots([Snapshot("q/r/b", end, b"")])
        same("keys", store.cover(end), {})
        same("covered", store.covered(), end)
        same("forgotten", store.forget(b + 1), 2)
        late = store.append_entries([NewEntry("again", b"{}", other, b), NewEntry("y", b"{}", other)])
        same("about a forgotten impression", late.settled[0], (0, False))
        require(late.settled[1][1], "another entry of the batch is not new")


def check_following_what_is_forgotten(benches: SharedBenches) -> None:
    """Whoever is behind what was forgotten gets an error, and does not pass it over."""
    bench = benches()
    with bench.open() as store:
        store.append([("a", b"{}"), ("b", b"{}"), ("c", b"{}"), ("a", b"{}")])
        store.append([("d", b"{}")])
        store.forget(3)
        same("after what is forgotten", [entry.id for entry in store.follow(2)], ["c", "d"])
        raises(LogCut, store.follow, 1)


def check_an_impression_in_use_is_not_forgotten(benches: SharedBenches) -> None:
    """An entry that came after what the caller has seen keeps its impression."""
    bench = benches()
    with bench.open() as keeper, bench.open() as other:
        (a, _), (b, _) = keeper.append_entries([NewEntry("a", b"{}", 1), NewEntry("b", b"{}", 1)]).settled
        other.append_entries([NewEntry("activated", b"{}", 1, b)])
        same("forgotten", keeper.forget(b + 1), 1)
        same("the log", [entry.id for entry in keeper.read(a)], ["b", "activated"])


def check_a_lease_has_one_holder(benches: SharedBenches) -> None:
    """It can be prolonged by its holder, and taken by another once it has ended."""
    bench = benches()
    with bench.open() as one, bench.open() as other:
        first, again, second = process_of("one", "1"), process_of("one", "2"), process_of("other", "1")
        require(not one.held("keeper"), "nobody has it")
        require(one.lease("keeper", first, 60), "a free lease is refused")
        require(other.held("keeper"), "somebody has it")
        require(one.lease("keeper", first, 60), "it cannot be prolonged")
        require(not other.lease("keeper", second, 60), "two have it")
        require(not other.lease("keeper", again, 60), "two of the same name have it")
        one.announce(first, "http://one", 7)
        other.announce(again, "http://one", 8)
        same(
            "nodes",
            [(node.name, node.url, node.seq, node.keeper) for node in other.nodes()],
            [("one", "http://one", 7, True), ("one", "http://one", 8, False)],
        )
        raises(ValueError, one.check_unused)
        one.leave(first)
        same("nodes", [(node.seq, node.keeper) for node in other.nodes()], [(8, False)])
        other.leave(again)
        one.check_unused()
        require(other.lease("keeper", second, 0), "it does not end")
        require(one.lease("keeper", again, 60), "it does not end in time")


def check_a_newer_version_ends_what_older_ones_keep(benches: SharedBenches) -> None:
    """Once a service of a newer version has joined, those of older ones write no snapshots and get no lease."""
    bench = benches()
    with bench.open() as old, bench.open() as new:
        old.join(1)
        require(old.lease("keeper", "old#1", 0), "a free lease is refused")
        old.put_snapshots([Snapshot("a", 1, b"old")])
        new.join(2)
        new.put_snapshots([Snapshot("b", 1, b"new")])
        old.put_snapshots([Snapshot("b", 2, b"old")], ["a"])
        same(
            "snapshots", [old.get_snapshot(name) for name in "ab"], [Snapshot("a", 1, b"old"), Snapshot("b", 1, b"new")]
        )
        require(not old.lease("keeper", "old#1", 60), "an older service gets a lease")
        require(new.lease("keeper", "new#1", 60), "a newer one gets none")
        raises(StoreTooNew, old.join, 1)


def check_a_cut_log_is_noticed(benches: SharedBenches) -> None:
    """Also by a service that has lost no connection."""
    bench = benches()
    with bench.open() as store, bench.open() as reader:
        reader.check_uncut()
        store.append([("a", b"{}"), ("b", b"no object")])
        reader.follow(0)
        reader.check_uncut()
        require(store.verify(0) is not None, "damage is not found")
        raises(LogCut, reader.check_uncut)
        reader.check_uncut()  # it begins again


def _ids(found: Mapping[int, LogEntry] | None) -> dict[int, str]:
    return {key: entry.id for key, entry in (found or {}).items()}


#: every check, by name
SHARED_CHECKS: dict[str, Callable[[SharedBenches], None]] = checks_in(
    globals(), "check_shared_store", lambda benches: getattr(benches, "__name__", str(benches))
)
