"""Impressions by their event ids: the latest in memory, all others in the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from driftrank.serve.log.records import (
    Activated,
    Final,
    Ranked,
    activated_id,
    decode,
    final_id,
    ranked_id,
)
from driftrank.serve.log.store.base import LogEntry, Readable, StoreDamaged

#: impressions in memory: at most so many, of about so many bytes. One of ten candidates takes 2 kB, one of a thousand
#: candidates of its own takes a hundred
KEPT = 20_000
KEPT_BYTES = 64_000_000


class Impression:
    """A ranking that was served, from then until its end."""

    __slots__ = ("delivered", "ended_by", "final", "nbytes", "opened_at", "opened_by", "ranked", "seq")

    def __init__(self, seq: int, ranked: Ranked) -> None:
        self.seq = seq
        self.ranked = ranked
        self.opened_by: int | None = None if ranked.defer else seq  #: the record that opened its feedback window
        self.opened_at = ranked.time  #: when
        self.final: Final | None = None
        self.ended_by: int | None = None  #: its record, which a replay may not have reached yet
        self.delivered = False  #: the answer was sent, as far as this process knows
        rows = ranked.features or ()
        parts = ranked.items, ranked.candidates, ranked.above, ranked.baseline, ranked.instead
        ids = len(ranked.shown) + sum(len(part) for part in parts if part)
        self.nbytes = 1000 + 100 * ids + sum(60 + 32 * len(row) for row in rows)  #: in memory, about


class Impressions:
    """The impressions of all rankers. Holds nothing that is not in the log; the state keeps those in memory current."""

    def __init__(self, store: Readable, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._store = store
        self._kept, self._kept_bytes = kept, kept_bytes
        self.nbytes = 0  #: of those in memory
        self._by_event: OrderedDict[tuple[str, str], Impression] = OrderedDict()
        self._by_opening: dict[int, Impression] = {}

    def add(self, impression: Impression) -> None:
        at = impression.ranked.ranker, impression.ranked.event_id
        if at in self._by_event:
            self._drop(at)
        self._by_event[at] = impression
        self.nbytes += impression.nbytes
        if impression.opened_by is not None:
            self._by_opening[impression.opened_by] = impression
        while len(self._by_event) > 1 and (len(self._by_event) > self._kept or self.nbytes > self._kept_bytes):
            self._drop(next(iter(self._by_event)))

    def _drop(self, at: tuple[str, str]) -> None:
        impression = self._by_event.pop(at)
        self.nbytes -= impression.nbytes
        self._by_opening.pop(impression.opened_by or 0, None)

    def end(self, ranker: str, event_id: str) -> None:
        """Drop one that has ended, if nothing will ask for it any more."""
        if (ranker, event_id) in self._by_event:
            self._drop((ranker, event_id))

    def cached(self, ranker: str, created: int, event_id: str) -> Impression | None:
        """``created``: the record that created the ranker; impressions of a deleted one of this name do not count."""
        found = self._by_event.get((ranker, event_id))
        # the record of such an impression may come after that of the new ranker
        if found is None or found.seq < created or 0 < found.ranked.ranker_since < created:
            return None
        return found

    def remember(self, impression: Impression) -> None:
        """Add one from the log, unless it is there, or a later one with its event id."""
        found = self._by_event.get((impression.ranked.ranker, impression.ranked.event_id))
        if found is None or found.seq < impression.seq:
            self.add(impression)

    def get(self, ranker: str, created: int, event_id: str) -> Impression | None:
        """The impression with this id; None if there is none, or the log has forgotten it."""
        found = self.cached(ranker, created, event_id)
        if found is not None:
            return found
        try:
            (found,) = self.fetch([(ranker, created, event_id)])
        except StoreDamaged:  # as good as forgotten
            return None
        if found is not None:
            self.add(found)
        return found

    def fetch(self, wanted: Sequence[tuple[str, int, str]]) -> list[Impression | None]:
        """Impressions from the log, by rankers, the records that created these, and event ids. Changes nothing."""
        names = [ranked_id(*one) for one in wanted]
        entries = self._store.find(names)
        later = {
            name: (activated_id(ranker, event_id, entries[name].seq), final_id(ranker, event_id, entries[name].seq))
            for name, (ranker, _, event_id) in zip(names, wanted, strict=True)
            if name in entries
        }
        entries |= self._store.find([id for ids in later.values() for id in ids]) if later else {}
        return [_impression(entries, name, *later[name]) if name in later else None for name in names]

    def record(self, seq: int) -> Ranked | None:
        """The impression of a record; None if the log has forgotten it."""
        found = self._by_opening.get(seq)
        if found is not None:
            return found.ranked
        try:
            entries = self._store.read(seq - 1, 1)
        except StoreDamaged:  # as good as forgotten
            return None
        record = decode(entries[0].body) if entries and entries[0].seq == seq else None
        return record if isinstance(record, Ranked) else None

    def read_opened(self, openings: Sequence[int], created: int) -> list[Impression]:
        """The impressions whose feedback windows these records opened, from the log; without unreadable ones. Changes
        nothing.
        """
        out, activated = [], []
        for entry in self._store.numbered(openings):
            record = decode(entry.body)
            if isinstance(record, Ranked):
                out.append(Impression(entry.seq, record))
                out[-1].delivered = True
            elif isinstance(record, Activated):
                activated.append((record.ranker, created, record.event_id))
        return out + [found for found in self._fetch_readable(activated) if found is not None]

    def read_ranked(self, records: Sequence[int], created: int) -> list[Impression]:
        """The impressions of these records, from the log; without unreadable ones. Changes nothing."""
        found = (decode(entry.body) for entry in self._store.numbered(records))
        wanted = [(it.ranker, created, it.event_id) for it in found if isinstance(it, Ranked)]
        return [found for found in self._fetch_readable(wanted) if found is not None]

    def _fetch_readable(self, wanted: Sequence[tuple[str, int, str]]) -> list[Impression | None]:
        try:
            return self.fetch(wanted) if wanted else []
        except StoreDamaged:
            return [found for one in wanted for found in self._fetch_readable([one])] if len(wanted) > 1 else []

    def in_memory(self, opening: int) -> Impression | None:
        """The impression whose feedback window a record opened, if it is in memory."""
        return self._by_opening.get(opening)

    def forget_before(self, seq: int) -> None:
        """Drop those without an end that the log has forgotten: a replay could not fold what comes of them."""
        for at in [at for at, found in self._by_event.items() if found.seq < seq and found.final is None]:
            self._drop(at)


def _impression(entries: Mapping[str, LogEntry], ranked_by: str, activated_by: str, ended_by: str) -> Impression:
    """An impression, from its entries."""
    entry = entries[ranked_by]
    ranked = decode(entry.body)
    assert isinstance(ranked, Ranked)
    found = Impression(entry.seq, ranked)
    found.delivered = True
    if activated_by in entries:
        activated = decode(entries[activated_by].body)
        assert isinstance(activated, Activated)
        found.opened_by, found.opened_at = entries[activated_by].seq, activated.time
    if ended_by in entries:
        final = decode(entries[ended_by].body)
        assert isinstance(final, Final)
        found.final, found.ended_by = final, entries[ended_by].seq
    return found
