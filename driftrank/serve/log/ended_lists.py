"""The lists of a ranker that were shown and have ended, from the records of the log alone."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import DecodeError

from driftrank.serve.log.records import (
    Activated,
    Clicked,
    Collected,
    Final,
    Lost,
    Ranked,
    RankerDeleted,
    RankerSet,
    Record,
    collected_with,
    decode,
    with_collected,
)
from driftrank.serve.log.store.base import LogReader, StoreDamaged
from driftrank.wire import ItemId

#: records that are read at once, and candidates of queries that are remembered
_CHUNK, _OFFERS = 10_000, 10_000


class EndedList(NamedTuple):
    """A list with its clicks."""

    seq: int  #: of the record that ended it
    time: float  #: when it was shown: ranked, or activated
    ranked: Ranked
    final: Final
    candidates: list[ItemId] | None = None  #: None: unknown

    @property
    def items(self) -> list[ItemId]:
        """The items that were shown, which may be fewer than were ranked."""
        return self.ranked.shown[: self.final.shown]


class EndedLists:
    """A fold over the records of a log. What is not counted as shown by the service is left out.

    Parameters
    ----------
    log
        The log to read.
    ranker
        The name of the ranker.
    after
        Lists that ended up to this record are left out, and not counted.
    """

    def __init__(self, log: LogReader, ranker: str, after: int = 0) -> None:
        self._log, self._ranker, self._after = log, ranker, after
        self._open: dict[str, tuple[int, float, Ranked]] = {}  # by event id: the opening record (0: none), when
        self._collected: dict[str, Collected] = {}  # by event id: clicks that count at the end
        self._values: dict[str, dict[int, float]] = {}  # by event id: the values of positions, if they were given
        self._offers: OrderedDict[int, list[ItemId] | None] = OrderedDict()  # by record: the candidates that it has
        self._created: float = 0  # the first record of the ranker, if known; infinite: it is deleted
        self.first = 0  #: the oldest record of the log; 0: it has none, or is not read yet
        self.last = 0  #: the last record read
        self.left_out: Counter[str] = Counter()  #: reasons, and the number of lists

    @property
    def removed(self) -> tuple[int, int] | None:
        """The records from ``after`` on that are no longer in the log: the first and the last."""
        return (self._after + 1, self.first - 1) if self._after + 1 < self.first else None

    def notes(self) -> list[str]:
        """The lists that are left out."""
        lines = [f"left out, {why}: {count:,}" for why, count in self.left_out.items() if count]
        if self.removed is not None:
            lines.append("records {} to {} are no longer in the store: retention removes them".format(*self.removed))
        return lines

    def __iter__(self) -> Iterator[EndedList]:
        """Yield the lists in the order of their ends."""
        while entries := self._log.read(self.last, _CHUNK):
            self.first = self.first or entries[0].seq
            for entry in entries:
                try:
                    ended = self._fold(entry.seq, decode(entry.body))
                except DecodeError as error:
                    raise StoreDamaged(f"record {entry.seq} is unknown to this version ({error})") from None
                self.last = entry.seq
                if ended is not None:
                    yield ended
        for opened_by, _, _ in self._open.values():
            self.left_out["in their feedback window" if opened_by else "deferred and not activated"] += 1

    def _fold(self, seq: int, record: Record) -> EndedList | None:
        if record.ranker != self._ranker:
            return None
        if isinstance(record, Ranked) and not record.offered_by:
            self._remember(seq, record)
        if self._created == math.inf:  # it is deleted
            if isinstance(record, RankerSet):
                self._created = seq
        elif isinstance(record, Ranked):
            if not 0 < record.ranker_since < self._created:  # else of a deleted one of this name
                self._open[record.event_id] = (0 if record.defer else seq), record.time, record
        elif isinstance(record, Activated):
            if record.event_id in self._open:
                self._open[record.event_id] = seq, record.time, self._open[record.event_id][2]
        elif isinstance(record, Clicked):
            if record.event_id in self._open:
                before = self._collected.get(record.event_id)
                clicks = before[0] if before else []
                for position, value in record.values or [(click, 1.0) for click in record.clicks]:
                    if record.values or record.event_id in self._values:
                        values = self._values.setdefault(record.event_id, dict.fromkeys(clicks, 1.0))
                        values[position] = max(value, values.get(position, 0.0))
                self._collected[record.event_id] = collected_with(before, record)
        elif isinstance(record, Final):
            values, collected = self._values.pop(record.event_id, {}), self._collected.pop(record.event_id, None)
            return self._ended(seq, with_collected(record, collected, values))
        elif isinstance(record, Lost):
            for event_id in [e for e, (opened_by, _, _) in self._open.items() if opened_by == record.start]:
                del self._open[event_id]
                self._leave_out(seq, "lost by damage of the store")
        elif isinstance(record, RankerDeleted):
            for _ in self._open:
                self._leave_out(seq, "open when the ranker was deleted")
            self._open.clear()
            self._collected.clear()
            self._values.clear()
            self._created = math.inf
        return None

    def _ended(self, seq: int, final: Final) -> EndedList | None:
        opened_by, time, ranked = self._open.pop(final.event_id, (0, 0.0, None))
        if final.how == "withdrawn":
            self._leave_out(seq, "withdrawn")
        elif final.how == "dropped":
            self._leave_out(seq, "without feedback, which the ranker's settings drop")
        elif ranked is None:
            self._leave_out(seq, "ranked in records that retention has removed")
        elif not opened_by:
            self._leave_out(seq, "deferred and not activated")
        elif seq > self._after:
            return EndedList(seq, time, ranked, final, self._candidates(ranked))
        return None

    def _candidates(self, ranked: Ranked) -> list[ItemId] | None:
        """The candidates, which may be in the record of an earlier ranking."""
        by = ranked.offered_by
        if not by:
            return _own_candidates(ranked)
        if by in self._offers:
            self._offers.move_to_end(by)
        else:
            found = self._log.read(by - 1, 1)
            record = decode(found[0].body) if found and found[0].seq == by else None
            self._remember(by, record if isinstance(record, Ranked) else None)
        return self._offers[by]

    def _remember(self, seq: int, record: Ranked | None) -> None:
        self._offers[seq] = None if record is None else _own_candidates(record)
        if len(self._offers) > _OFFERS:
            self._offers.popitem(last=False)

    def _leave_out(self, seq: int, why: str) -> None:
        self.left_out[why] += seq > self._after


def _own_candidates(ranked: Ranked) -> list[ItemId] | None:
    """The candidates that a record has itself; None: they are unknown."""
    if ranked.candidates is not None:
        return ranked.candidates
    # with a shared model these are only the candidates that had a state
    return None if ranked.places or ranked.described else ranked.items


def rankers_of(log: LogReader) -> list[str]:
    """The rankers with lists in a log, by the ids of their records."""
    found: list[str] = []
    after = "r/"
    while (id := log.next_id(after)) is not None and id.startswith("r/"):
        found.append(id.split("/")[1])
        after = f"r/{found[-1]}0"  # the character after the slash
    return found


def chosen_ranker(log: LogReader, name: str | None) -> str:
    """The ranker of this name, or the only one with lists."""
    found = rankers_of(log)
    if name is None and len(found) == 1:
        return found[0]
    if name is None or name not in found:
        there = f"there are: {', '.join(found)}" if found else "the log has no list"
        given = "ranker: must be given" if name is None else f"ranker={name!r}: must be a ranker with lists in the log"
        raise ValueError(f"{given}; {there}")
    return name
