"""The contract of stores, as checks that can be run on your own backend.

A backend is described by a :class:`Bench`, which opens its store, and corrupts an entry or a snapshot behind the
store's back. Run all checks at once with ``check_store(MyBench)``, or each as a test of pytest::

    import pytest
    from driftrank.serve.log.store.checks import CHECKS
    from mine import MyBench

    @pytest.mark.parametrize("check", CHECKS)
    def test_contract(check):
        CHECKS[check](MyBench)

``MyBench()`` is a new place every time, without a store. A check that fails raises ``AssertionError``, with the name
of the backend and the reason.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from driftrank.contracts import checks_in, require
from driftrank.serve.log.store.base import LogEntry, Snapshot, Store, StoreDamaged, StoreError
from driftrank.serve.log.store.checking import raises, same


class Bench(Protocol):
    """A place for one store."""

    def open(self) -> Store:
        """Open the store as it was left, an empty one at first. It is not open already."""

    def spoil(self, seq: int) -> None:
        """Change the body of an entry, as a faulty disk would. The store is not open."""

    def spoil_snapshot(self, name: str) -> None:
        """Change the body of a snapshot. The store is not open."""


Benches = Callable[[], Bench]


def check_store(benches: Benches) -> None:
    """Run every check."""
    for check in CHECKS.values():
        check(benches)


# -- appending ---------------------------------------------------------------------------------------------------------


def check_a_new_store_is_empty(benches: Benches) -> None:
    """It has no entries, no snapshots and no damage."""
    with benches().open() as store:
        same("last", store.last, 0)
        same("read", store.read(0), [])
        same("find", store.find(["a"]), {})
        same("names", store.snapshot_names(""), [])
        same("get_snapshot", store.get_snapshot("a"), None)
        same("verify", store.verify(0), None)
        same("forget", store.forget(10), 0)
        same("damage", store.damage, [])
        same("append of nothing", store.append([]), [])
        store.put_snapshots([])
        same("last", store.last, 0)
        require(store.size() >= 0, "its size is negative")


def check_numbers_ascend(benches: Benches) -> None:
    """Entries are numbered in the order in which they are appended, and read back in that order."""
    with benches().open() as store:
        numbers: list[int] = []
        for batch in (1, 3, 1000, 5000):
            settled = store.append([_entry(len(numbers) + i) for i in range(batch)])
            require(all(new for _, new in settled), f"of {batch} new entries some are not new")
            numbers += [seq for seq, _ in settled]
        require(numbers[0] > 0, f"the first number is {numbers[0]}")
        require(all(a < b for a, b in itertools.pairwise(numbers)), "numbers do not ascend")
        same("last", store.last, numbers[-1])
        same("the log", _all(store), [LogEntry(seq, *_entry(i)) for i, seq in enumerate(numbers)])


def check_an_id_is_settled_once(benches: Benches) -> None:
    """A known id is not appended again, in the same batch or in a later one; it keeps its number and body."""
    with benches().open() as store:
        (a, _), (b, _), again, (c, _) = store.append([("a", b'{"n":1}'), ("b", b"{}"), ("a", b'{"n":2}'), ("c", b"{}")])
        same("an id twice in a batch", again, (a, False))
        same("a batch of old ids", store.append([("c", b"{}"), ("a", b'{"n":3}')]), [(c, False), (a, False)])
        mixed = store.append([("d", b"{}"), ("b", b'{"n":4}'), ("e", b"{}"), ("d", b"{}")])
        same("what is new", [new for _, new in mixed], [True, False, True, False])
        same("the number of an old id", mixed[1][0], b)
        same("the number of an id twice in a batch", mixed[3][0], mixed[0][0])
        require(c < mixed[0][0] < mixed[2][0], f"numbers do not ascend: {mixed}")
        same("last", store.last, mixed[2][0])
        same("ids of the log", [entry.id for entry in _all(store)], ["a", "b", "c", "d", "e"])
        same("the body of a", store.find(["a"])["a"].body, b'{"n":1}')
        many = [_entry(i) for i in range(4000)]
        store.append(many[::2])
        same("new ones among many", [new for _, new in store.append([*many, *many])].count(True), 2000)
        same("ids of the log", len(_all(store)), 4005)


def check_bodies_come_back_as_given(benches: Benches) -> None:
    """Ids and bodies are arbitrary text; white space, long bodies and characters of all planes are preserved."""
    ids = [
        "",
        "a",
        "A",
        "a b",
        "ä",
        "\u0416",
        "\U0001f600",
        "it's",
        '"',
        "\\",
        "%",
        "_",
        "NULL",
        "1",
        "1.0",
        "\n",
        "a\0b",
    ]
    bodies = [
        *(b"{}", b' { "a" : [ 1.50, 1e3, null ] }\n', '{"ключ":"\U0001f600"}'.encode(), b'{"a":"\\u0000\\""}'),
        b'{"long":"' + b"x" * 200_000 + b'"}',
    ]
    entries = [(id, bodies[i % len(bodies)]) for i, id in enumerate(ids)]
    with benches().open() as store:
        settled = store.append(entries)
        require(all(new for _, new in settled), "ids that differ are taken for the same")
        same("the log", [(entry.id, entry.body) for entry in _all(store)], entries)
        same("found", {id: entry.body for id, entry in store.find(ids).items()}, dict(entries))


def check_a_bad_entry_stops_its_batch(benches: Benches) -> None:
    """A body that is not UTF-8 is rejected, together with its batch."""
    with benches().open() as store:
        raises(ValueError, store.append, [("a", b"{}"), ("b", b'{"\xff":0}'), ("c", b"{}")])
        same("the log", _all(store), [])
        same("a batch after it", [new for _, new in store.append([("a", b"{}")])], [True])


# -- reading -----------------------------------------------------------------------------------------------------------


def check_reading_goes_on_where_it_stopped(benches: Benches) -> None:
    """Reading in pieces equals reading at once."""
    with benches().open() as store:
        store.append([_entry(i) for i in range(250)])
        whole = store.read(0)
        same("entries", len(whole), 250)
        pieces: list[LogEntry] = []
        while piece := store.read(pieces[-1].seq if pieces else 0, 37):
            require(len(piece) <= 37, f"{len(piece)} entries, the limit is 37")
            pieces += piece
        same("the pieces", pieces, whole)
        same("after the last", store.read(store.last), [])
        same("after the last but one", store.read(whole[-2].seq), whole[-1:])


def check_finding(benches: Benches) -> None:
    """Entries are found by id, any number at a time; unknown ids are left out."""
    with benches().open() as store:
        store.append([_entry(i) for i in range(6000)])
        log = {entry.id: entry for entry in _all(store)}
        same("nothing asked", store.find([]), {})
        same("one of two", store.find(["nobody", _entry(5)[0]]), {_entry(5)[0]: log[_entry(5)[0]]})
        same("asked twice", store.find([_entry(5)[0]] * 2), {_entry(5)[0]: log[_entry(5)[0]]})
        same("all", store.find(list(log)), log)


def check_reading_by_number(benches: Benches) -> None:
    """Entries come in the order of their numbers; those that are gone or damaged are left out."""
    bench = benches()
    with bench.open() as store:
        seqs = [seq for seq, _ in store.append([_entry(i) for i in range(5000)])]
        same("one", store.numbered([seqs[7]]), [LogEntry(seqs[7], *_entry(7))])
        same("in any order", [entry.seq for entry in store.numbered(seqs[::-2])], seqs[1::2])
        same(
            "twice, and one that never was",
            [e.seq for e in store.numbered([seqs[3], seqs[3], seqs[-1] + 9])],
            [seqs[3]],
        )
        same("nothing", store.numbered([]), [])
        store.forget(seqs[2])
    bench.spoil(seqs[4])
    with bench.open() as store:
        same("what is left", [entry.seq for entry in store.numbered(seqs[:6])], [seqs[2], seqs[3], seqs[5]])


def check_reading_beside_writing(benches: Benches) -> None:
    """Another thread that reads meanwhile sees whole batches, without gaps, and all of them in the end."""
    with benches().open() as store:
        problems: list[BaseException] = []

        def write() -> None:
            try:
                for batch in range(60):
                    store.append([_entry(7 * batch + i) for i in range(7)])
                    store.put_snapshots([Snapshot("s", store.last, b"%d" % store.last)])
            except BaseException as error:
                problems.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        seen: list[LogEntry] = []
        at_work = True
        while at_work:
            at_work = writer.is_alive()
            seen += store.read(seen[-1].seq if seen else 0)
            snapshot = store.get_snapshot("s")
            require(len(seen) % 7 == 0, "a part of a batch is seen")
            require(snapshot is None or snapshot.body == b"%d" % snapshot.seq, "a part of a snapshot is seen")
        writer.join()
        same("problems of the writer", problems, [])
        same("entries", [entry.id for entry in seen], [_entry(i)[0] for i in range(420)])


# -- durability --------------------------------------------------------------------------------------------------------


def check_everything_survives(benches: Benches) -> None:
    """Entries, snapshots and the last number are there when the store is opened again."""
    bench = benches()
    with bench.open() as store:
        store.append([_entry(i) for i in range(100)])
        store.put_snapshots([Snapshot("a", 7, b"\x00\xff"), Snapshot("b", 9, b"")])
        log, last = _all(store), store.last
    with bench.open() as store:
        same("the log", _all(store), log)
        same("last", store.last, last)
        same("verify", store.verify(0), None)
        same("snapshot a", store.get_snapshot("a"), Snapshot("a", 7, b"\x00\xff"))
        same("snapshot b", store.get_snapshot("b"), Snapshot("b", 9, b""))
        same("an old id", store.append([_entry(3)]), [(log[3].seq, False)])
        same("damage", store.damage, [])


def check_numbers_are_never_given_again(benches: Benches) -> None:
    """Not after their entries were forgotten, nor after the store is opened again."""
    bench = benches()
    with bench.open() as store:
        store.append([_entry(i) for i in range(20)])
        last = store.last
        same("forgotten", store.forget(last + 1), 20)
        same("last", store.last, last)
    with bench.open() as store:
        same("last, opened again", store.last, last)
        ((seq, new),) = store.append([_entry(3)])
        require(seq > last, f"number {seq} was given before")
        require(new, "the id of a forgotten entry is still taken")


def check_forgetting(benches: Benches) -> None:
    """The oldest are deleted first, at most the limit, and none from ``before`` on."""
    with benches().open() as store:
        store.append([_entry(i) for i in range(50)])
        log = _all(store)
        same("forgotten at most 10", store.forget(log[30].seq, limit=10), 10)
        same("the log", _all(store), log[10:])
        same("forgotten up to 30", store.forget(log[30].seq), 20)
        same("nothing more", store.forget(log[30].seq), 0)
        same("the log", _all(store), log[30:])
        same("found", list(store.find([log[29].id, log[30].id])), [log[30].id])


def check_a_store_that_is_closed(benches: Benches) -> None:
    """It may be closed twice; any use afterwards is an error."""
    store = benches().open()
    store.append([_entry(0)])
    store.close()
    store.close()
    for call in (
        functools.partial(store.append, [_entry(1)]),
        functools.partial(store.read, 0),
        functools.partial(store.get_snapshot, "a"),
        functools.partial(store.forget, 1),
    ):
        raises(StoreError, call)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def check_snapshots_replace_each_other(benches: Benches) -> None:
    """The last one written under a name replaces those before; those in ``gone`` are deleted."""
    with benches().open() as store:
        names = [f"n{i:04}" for i in range(5000)]
        store.put_snapshots([Snapshot("x", 0, b"")])
        store.put_snapshots([Snapshot(name, i, b"%d" % i * 100) for i, name in enumerate(names)], gone=["x"])
        same("gone before many", store.get_snapshot("x"), None)
        same("one of many", store.get_snapshot("n0777"), Snapshot("n0777", 777, b"777" * 100))
        store.put_snapshots([Snapshot("n0001", 5, b"new"), Snapshot("n0002", 6, b"old"), Snapshot("n0002", 7, b"new")])
        same("replaced", store.get_snapshot("n0001"), Snapshot("n0001", 5, b"new"))
        same("twice in one call", store.get_snapshot("n0002"), Snapshot("n0002", 7, b"new"))
        store.put_snapshots([Snapshot("n0003", 8, b"back")], gone=["n0001", "n0003", "nobody"])
        same("gone", store.get_snapshot("n0001"), None)
        same("gone and put", store.get_snapshot("n0003"), Snapshot("n0003", 8, b"back"))
        store.put_snapshots([], gone=names)
        same("all gone", store.snapshot_names(""), [])


def check_the_higher_number_wins(benches: Benches) -> None:
    """Snapshots may be written out of order, and be deleted only up to a number."""
    with benches().open() as store:
        store.put_snapshots([Snapshot("a", 7, b"seven")])
        store.put_snapshots([Snapshot("a", 5, b"five")])
        same("an older one after it", store.get_snapshot("a"), Snapshot("a", 7, b"seven"))
        store.put_snapshots([Snapshot("a", 7, b"again")])
        same("one of the same number", store.get_snapshot("a"), Snapshot("a", 7, b"again"))
        store.put_snapshots([Snapshot("b", 9, b"nine"), Snapshot("b", 8, b"eight")], gone=["a"], before=7)
        same("one that is not old enough to go", store.get_snapshot("a"), Snapshot("a", 7, b"again"))
        same("two in one call", store.get_snapshot("b"), Snapshot("b", 9, b"nine"))
        store.put_snapshots([], gone=["a", "b"], before=8)
        same("names", store.snapshot_names(""), ["b"])


def check_names_of_snapshots(benches: Benches) -> None:
    """Names are sorted by code points, begin with the prefix, and continue after a name."""
    top = "\U0010ffff"
    names = sorted(
        ["", "a", "a/", "a/1", "a/10", "a/2", "a0", "A", "b", "ä", "a/ä", "a/\U0001f600", "\ud7ff", "\ud7ff1"]
    )
    names = sorted([*names, "\ue000", top, top * 2, f"a{top}", f"a{top}1", "a_", "a%", "a\0", "a/\0"])
    with benches().open() as store:
        store.put_snapshots([Snapshot(name, 0, b"") for name in reversed(names)])
        for prefix in ["", "a", "a/", "a/1", "A", "b", "c", "ä", "\ud7ff", top, f"a{top}", "a_", "a%", "a\0"]:
            wanted = [name for name in names if name.startswith(prefix) and name > ""]
            same(f"names with {prefix!r}", [n for n in store.snapshot_names(prefix) if n], wanted)
            paged: list[str] = []
            while page := store.snapshot_names(prefix, paged[-1] if paged else "", 2):
                require(len(page) <= 2, "a page is longer than its limit")
                paged += page
            same(f"pages of names with {prefix!r}", paged, wanted)
            same(f"names with {prefix!r} after b", store.snapshot_names(prefix, "b"), [n for n in wanted if n > "b"])


# -- damage ------------------------------------------------------------------------------------------------------------


def check_a_damaged_entry_ends_the_log(benches: Benches) -> None:
    """No reader passes it; ``verify`` cuts the log there and reports it; the log continues with new numbers."""
    bench = benches()
    with bench.open() as store:
        store.append([_entry(i) for i in range(30)])
        log, last = _all(store), store.last
    bench.spoil(log[20].seq)
    with bench.open() as store:
        same("what is read", store.read(0), log[:20])
        raises(StoreDamaged, store.read, log[19].seq)
        raises(StoreDamaged, store.find, [log[20].id])
        same("after the damage all is well", store.verify(log[20].seq), None)
        damage = store.verify(0)
        require(damage is not None and damage.snapshot is None, "the damage is not reported")
        assert damage is not None
        same("where it is cut", damage.seq, log[20].seq)
        same("how many are cut off", damage.entries, 10)
        require(bool(damage.reason), "no reason is given")
        same("the damage on record", store.damage, [damage])
        same("the log", _all(store), log[:20])
        same("verify again", store.verify(0), None)
    with bench.open() as store:
        same("last", store.last, last)
        settled = store.append([(log[25].id, b"{}"), ("z", b"{}")])
        require(all(new and seq > last for seq, new in settled), f"after the cut {settled} is given, {last} before")
        same("the log goes on", [entry.id for entry in _all(store)], [*(e.id for e in log[:20]), log[25].id, "z"])


def check_a_damaged_first_entry(benches: Benches) -> None:
    """The log may be cut to nothing."""
    bench = benches()
    with bench.open() as store:
        (first, _), *_ = store.append([_entry(0), _entry(1)])
    bench.spoil(first)
    with bench.open() as store:
        raises(StoreDamaged, store.read, 0)
        damage = store.verify(0)
        same("the cut", damage and (damage.seq, damage.entries), (first, 2))
        same("the log", _all(store), [])


def check_a_damaged_snapshot_is_none(benches: Benches) -> None:
    """It is treated as missing, and reported once; it can be written again."""
    bench = benches()
    with bench.open() as store:
        store.put_snapshots([Snapshot("a", 3, b"state of a"), Snapshot("b", 4, b"state of b")])
    bench.spoil_snapshot("a")
    with bench.open() as store:
        for _ in range(2):
            same("the damaged one", store.get_snapshot("a"), None)
        same("the other", store.get_snapshot("b"), Snapshot("b", 4, b"state of b"))
        same("what is reported", [damage.snapshot for damage in store.damage], ["a"])
        store.put_snapshots([Snapshot("a", 5, b"new")])
        same("a new one", store.get_snapshot("a"), Snapshot("a", 5, b"new"))


# -- helpers -----------------------------------------------------------------------------------------------------------


def _entry(i: int) -> tuple[str, bytes]:
    return f"id-{i * 7919 % 100_003:06}", b'{"n":%d}' % i


def _all(store: Store) -> Sequence[LogEntry]:
    return store.read(0, 1_000_000)


#: every check, by name
CHECKS: dict[str, Callable[[Benches], None]] = checks_in(
    globals(), "check_store", lambda benches: getattr(benches, "__name__", str(benches))
)
