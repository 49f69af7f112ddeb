"""Lists by their event ids: the latest in memory, all others in the log."""

from __future__ import annotations

from collections import OrderedDict

from driftrank.serve.records import (
    Activated,
    Final,
    Ranked,
    activated_id,
    decode,
    final_id,
    ranked_id,
)
from driftrank.serve.store.base import Store, StoreDamaged

#: lists in memory: so many at most, and so many bytes of them, about. A list of ten candidates takes 2 kB, one of a
#: thousand that others did not have takes a hundred
KEPT = 20_000
KEPT_BYTES = 64_000_000


class Event:
    """A list, from when it was made until it is done."""

    __slots__ = ("began", "final", "nbytes", "ranked", "seq", "start")

    def __init__(self, seq: int, ranked: Ranked) -> None:
        self.seq = seq
        self.ranked = ranked
        self.start: int | None = None if ranked.defer else seq  #: the record that began the wait
        self.began = ranked.time  #: when
        self.final: Final | None = None
        rows = ranked.features or ()
        ids = len(ranked.shown) + len(ranked.items or ())
        self.nbytes = 1000 + 100 * ids + sum(60 + 32 * len(row) for row in rows)  #: in memory, about


class Events:
    """The lists of all rankers. Only what the log says is in it; a fold keeps those in memory up to date."""

    def __init__(self, store: Store, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._store = store
        self._kept, self._kept_bytes = kept, kept_bytes
        self.nbytes = 0  #: of all of them
        self._events: OrderedDict[tuple[str, str], Event] = OrderedDict()
        self._by_start: dict[int, Event] = {}

    def add(self, event: Event) -> None:
        at = event.ranked.ranker, event.ranked.event
        if at in self._events:
            self._drop(at)
        self._events[at] = event
        self.nbytes += event.nbytes
        if event.start is not None:
            self._by_start[event.start] = event
        while len(self._events) > 1 and (len(self._events) > self._kept or self.nbytes > self._kept_bytes):
            self._drop(next(iter(self._events)))

    def _drop(self, at: tuple[str, str]) -> None:
        event = self._events.pop(at)
        self.nbytes -= event.nbytes
        self._by_start.pop(event.start or 0, None)

    def cached(self, ranker: str, born: int, event: str) -> Event | None:
        """``born``: the record that made the ranker; lists of an earlier one of the same name do not count."""
        found = self._events.get((ranker, event))
        return None if found is None or found.seq < born else found

    def get(self, ranker: str, born: int, event: str) -> Event | None:
        """The list of that id; None where there was none, or so long ago that the log has forgotten it."""
        found = self.cached(ranker, born, event)
        if found is not None:
            return found
        name = ranked_id(ranker, born, event)
        try:
            entry = self._store.find([name]).get(name)
            if entry is None:
                return None
            names = activated_id(ranker, event, entry.seq), final_id(ranker, event, entry.seq)
            entries = self._store.find(names)
        except StoreDamaged:  # as good as forgotten
            return None
        ranked = decode(entry.body)
        assert isinstance(ranked, Ranked)
        found = Event(entry.seq, ranked)
        if names[0] in entries:
            activated = decode(entries[names[0]].body)
            assert isinstance(activated, Activated)
            found.start, found.began = entries[names[0]].seq, activated.time
        if names[1] in entries:
            final = decode(entries[names[1]].body)
            assert isinstance(final, Final)
            found.final = final
        self.add(found)
        return found

    def started(self, starts: list[int], born: int) -> list[Event]:
        """The lists whose waits these records began, ascending; but for those that cannot be read."""
        out = []
        at = 0
        while at < len(starts):
            event = self._by_start.get(starts[at])
            if event is not None:
                out.append(event)
                at += 1
                continue
            wanted = set(starts[at : at + 1000])
            try:
                read = self._store.read(starts[at] - 1, 2000)
            except StoreDamaged:
                at += 1
                continue
            for entry in read:
                if entry.seq in wanted:
                    record = decode(entry.body)
                    assert isinstance(record, Ranked | Activated)
                    found = self.get(record.ranker, born, record.event)
                    if found is not None:
                        out.append(found)
            last = read[-1].seq if read else starts[-1]
            while at < len(starts) and starts[at] <= last:
                at += 1
        return out

    def forget_before(self, seq: int) -> None:
        """Those that are not done, and that the log has forgotten: a replay could not tell what comes of them."""
        for at in [at for at, event in self._events.items() if event.seq < seq and event.final is None]:
            self._drop(at)

    def forget(self, ranker: str) -> None:
        """Those of a ranker that is no more."""
        for at in [at for at in self._events if at[0] == ranker]:
            self._drop(at)
