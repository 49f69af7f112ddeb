"""A committer of a service that shares its log: it takes in what others write, and loads queries when asked for.

One task moves along the log: it appends what is queued, reads what others wrote before that, folds all of it in the
order of the log, and then installs the queries that were asked for, as of the same record. So the state is at every
moment that of the log up to a record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic, perf_counter
from typing import Any, TypeVar

from driftrank.serve.log.committer import Batch, Committer, NewRecord, Settled, fail
from driftrank.serve.log.entries import entry_of
from driftrank.serve.log.records import RankerSet, Record, encode
from driftrank.serve.log.store.base import LogCut, StoreError, StoreTooNew, StoreUnknown
from driftrank.serve.log.store.shared import Loaded, NewEntry, SharedStore, Wanted, query_key
from driftrank.serve.sharing.exchange import Event, LogExchange, Taken, UnknownRecord
from driftrank.serve.slices import Slices
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.loading import load_query
from driftrank.serve.state.queries import QueryKey, snapshot_name
from driftrank.serve.state.state import State
from driftrank.wire import RankerSettings

T = TypeVar("T")

_log = logging.getLogger("driftrank.serve")
#: entries of one commit at most: others wait for it
_MAX_ENTRIES = 500
#: queries loaded at once
_MAX_LOADS = 64
#: seconds until a store that failed is tried again
_RETRY = 0.2

#: seconds without anything to read or write after which the log is read less often, and how much less: a look costs a
#: third of a millisecond of CPU
_QUIET, _SLOWER = 1.0, 10

#: seconds without reading the log after which a service is not ready
_LATE = 2.0
#: seconds between looks whether requests wait for a database that does not answer
_LOOK = 0.25


class Follower(Committer):
    """Appends records, follows those of others, and holds queries.

    Parameters
    ----------
    compile_
        Called before a record of another service is folded that sets a ranker.
    begin_again
        Called after the log was cut.
    followed
        Called with the number of records of others that were folded.
    poll
        Seconds between reads of the log, if there is nothing to write; ten times as many if nobody has written lately.
    """

    def __init__(
        self, store: SharedStore, state: State, *, limit: int, committed: Callable[[int, float], None],
        followed: Callable[[int], None], compile_: Callable[[RankerSettings], Awaitable[None]],
        begin_again: Callable[[], Awaitable[None]], poll: float,
    ) -> None:  # fmt: skip
        super().__init__(store, state.apply, limit=limit, committed=committed)
        assert isinstance(state.queries, HeldQueries)
        self._shared, self._state, self._queries = store, state, state.queries
        self._log = LogExchange(store, state)
        self._followed, self._compile, self._begin_again, self._poll = followed, compile_, begin_again, poll
        self._wanted: dict[QueryKey, asyncio.Future[None]] = {}
        self._asked: list[tuple[Sequence[Event], asyncio.Future[list[Impression | None]]]] = []
        self._settling: list[asyncio.Future[None]] = []
        self._pending: list[asyncio.Future[Any]] = []  # all that requests wait for; those that are done go soon
        self._durable = 0  # all up to this record is known to be durable
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.offset = 0.0  #: of the clock of the store
        self._compared = False  # the offset is known
        self.at = monotonic()  #: when the log was last read to its end
        self._in_use = self.at  # when there was last anything to read or to write
        self.begun_again = 0
        self._cut = False  # what is in memory may not be in the log any more

    # -- requests --------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> asyncio.Future[list[Settled]]:
        return self._awaited(super().append(records, urgent=urgent))

    async def hold(self, keys: Iterable[QueryKey]) -> None:
        """Load those of these queries that are not in memory; they may be dropped again if there are many."""
        waiting = []
        for key in keys:
            if not self._queries.holds(key):
                if key in self._queries.broken:
                    raise StoreError(f"query {key[1]!r}: {self._queries.broken[key]}")
                if key not in self._wanted:
                    self._wanted[key] = self._awaited(self._loop.create_future())
                waiting.append(self._wanted[key])
        if waiting:
            self._check_following()
            self._wake.set()
            await asyncio.wait(waiting)
            for one in waiting:
                one.result()

    async def find(self, events: Sequence[Event]) -> list[Impression | None]:
        """Impressions, from memory or from the log."""
        impressions = self._state.impressions
        out = [impressions.cached(*event) for event in events]
        missing = [event for event, found in zip(events, out, strict=True) if found is None]
        if missing:
            self._check_following()
            answer: asyncio.Future[list[Impression | None]] = self._awaited(self._loop.create_future())
            self._asked.append((missing, answer))
            self._wake.set()
            rest = iter(await answer)
            out = [next(rest) if found is None else found for found in out]
        return out

    async def settle(self) -> None:
        """Wait until all that is in memory is durable: an answer may be about a record that nobody has acknowledged."""
        if self._durable < self._state.seq:
            self._check_following()
            settled: asyncio.Future[None] = self._awaited(self._loop.create_future())
            self._settling.append(settled)
            self._wake.set()
            await settled

    def _awaited(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        self._pending.append(future)
        return future

    def _check_following(self) -> None:
        if self._broken is not None:
            raise self._broken

    async def reach(self, seq: int, seconds: float) -> None:
        """Wait until a record is folded, but not for long."""
        end = monotonic() + seconds
        while self._state.seq < seq and monotonic() < end:
            self._wake.set()
            await asyncio.sleep(0.001)

    @property
    def late(self) -> str | None:
        """A message if the log was not read for a while."""
        return f"the log was last read {self._age:.1f} s ago" if self._age > _LATE else None

    @property
    def _age(self) -> float:
        return monotonic() - self.at

    @property
    def pause(self) -> float:
        """Seconds until the next read of the log, if nobody asks for anything."""
        return self._poll if monotonic() < self._in_use + _QUIET else self._poll * _SLOWER

    @property
    def doubts(self) -> int:
        return self._shared.doubts

    def now(self, clock: float) -> float:
        """The time of the store, by the clock of this machine."""
        return clock + self.offset

    async def set_clock(self, clock: Callable[[], float]) -> None:
        """Compare the clock of this machine with that of the store."""
        before = clock()
        time = await self.run(self._shared.clock)
        after = clock()
        if after - before < 1.0 or not self._compared:  # else the machine was busy, and the last time is better
            self.offset, self._compared = time - (before + after) / 2, True

    # -- the task --------------------------------------------------------------------------------------------------

    async def catch_up(self) -> int:
        """Fold all records of others that are there; returns their number."""
        records = 0
        while True:
            taken = await self.run(self._log.exchange, [], [], [], False)
            if not taken.others:
                return records
            await self._take_in(taken, [])
            records += len(taken.others)
            self._followed(len(taken.others))

    def start(self) -> None:
        self.at = monotonic()
        self._tasks = [asyncio.create_task(self._go()), asyncio.create_task(self._watch())]

    def hurry(self, seconds: float) -> None:
        """Wait no longer than this for a database that does not answer: it is about to be closed."""
        self._log.closing = True
        self._shared.hurry(seconds)

    async def close(self) -> None:
        while self._tasks and not self._tasks[0].done() and (self._busy or self._waiting):
            await asyncio.sleep(0.001)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._fail_all([], StoreError("the service is stopping"))
        self._writer.shutdown()

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        """Read the store in the writer thread: a database that does not answer must not stop the event loop."""
        return await self.run(work, *args)

    def _entry(self, new: NewRecord) -> NewEntry:
        if new.about is None:
            return entry_of(new.id, encode(new.record), new.record)
        return entry_of(new.id, encode(new.record), new.record, new.about.ranked, new.about.seq)

    def _commit(self) -> None:
        self._scheduled = False
        self._wake.set()

    async def _go(self) -> None:
        while True:
            if not (self._waiting or self._wanted or self._asked or self._settling):
                timer = self._loop.call_later(self.pause, self._wake.set)
                await self._wake.wait()
                timer.cancel()
            self._wake.clear()
            self._busy = True
            together, entries = self._next(_MAX_ENTRIES), list[NewEntry]()
            try:
                if self._cut:
                    await self._begin_again()
                    self._cut = False
                slices = Slices()
                for _ in self._encode(together, entries):
                    if slices.over:
                        await slices.pause()
                await self._cycle(together, entries)
            except (UnknownRecord, StoreTooNew) as error:  # a newer version writes it: this service steps aside
                self._stop(str(error))
                self._fail_all(together, error)
                return
            except LogCut as error:
                _log.error("%s; beginning again", error)
                self.problem, self.begun_again, self._durable = str(error), self.begun_again + 1, 0
                self._fail_all(together + self._unsent(), StoreUnknown(str(error)))  # made from what was cut
                self._cut = True
                self._wake.set()
            except StoreError as error:
                if self.problem is None:  # once, not for every request that fails
                    _log.error("the store cannot be used: %s", error)
                self.problem = str(error)
                self._fail_all(together, error)
                await asyncio.sleep(_RETRY)
            except Exception as error:
                _log.exception("the log cannot be followed")
                self._stop(f"the log cannot be followed: {error}; restart the service")
                self._fail_all(together, StoreError(str(error)))
                return
            finally:
                self._busy = False

    async def _watch(self) -> None:
        """Refuse requests that wait for a database that does not answer. Records that were sent are folded later."""
        seen, looks = self.at, 0  # not the time: this process may have been stopped
        while True:
            await asyncio.sleep(_LOOK)
            seen, looks = self.at, looks + 1 if self.at == seen else 0
            if looks * _LOOK > self._shared.patience:
                reason = f"the database does not answer; the log was last read {self._age:.1f} s ago"
                fail((batch for batch in self._unsent() if not batch.settled.done()), StoreError(reason))
                for future in self._pending:
                    _resolve(future, None, StoreUnknown(reason))
            self._pending = [future for future in self._pending if not future.done()]

    def _unsent(self) -> list[Batch]:
        """Take what is queued out of the queue."""
        unsent = list(self._waiting)
        self._waiting.clear()
        self.queued -= sum(len(batch.records) for batch in unsent)
        return unsent

    def _stop(self, reason: str) -> None:
        self._broken, self.problem = StoreError(reason), reason
        _log.error("%s", reason)

    async def _cycle(self, together: list[Batch], entries: list[NewEntry]) -> None:
        for key in [key for key in self._wanted if self._arm(key) is None]:
            _resolve(self._wanted.pop(key), None)  # deleted meanwhile
        keys = list(self._wanted)[:_MAX_LOADS]
        wanted = [self._want(key) for key in keys]
        asked, self._asked = self._asked, []
        settling, self._settling = self._settling, []
        events = [event for events, _ in asked for event in events]
        began = perf_counter()
        try:
            taken = await self.run(self._log.exchange, entries, events, wanted, bool(settling))
        except BaseException as error:
            for waits in settling:
                _resolve(waits, None, error)
            for _, answer in asked:
                _resolve(answer, None, error)
            raise
        finally:
            self.queued -= len(entries)
        took = perf_counter() - began
        self._recovered()
        await self._take_in(taken, together)
        if taken.flushed:
            self._durable = self._state.seq
        for waits in settling:
            _resolve(waits, None)
        self._answer(asked, taken.found)
        await self._install(keys, wanted, taken.loaded)
        self.at = monotonic()
        if entries or wanted or asked or taken.others:
            self._in_use = self.at
        if entries:
            self._committed(len(entries), took)
        if taken.others:
            self._followed(len(taken.others))

    def _want(self, key: QueryKey) -> Wanted:
        name, arm = snapshot_name(*key), self._arm(key)
        assert arm is not None
        return Wanted(name, query_key(name), arm.since)

    def _arm(self, key: QueryKey) -> Arm | None:
        """The arm of a query, if it still exists."""
        ranker, _, label = key[0].partition("@")
        return self._state.rankers[ranker].arm(label) if ranker in self._state.rankers else None

    # -- folding ---------------------------------------------------------------------------------------------------

    async def _take_in(self, taken: Taken, together: list[Batch]) -> None:
        """Fold the records of others and the own ones, in the order of the log, then settle these."""
        own: dict[int, NewRecord] = {}
        if taken.appended is not None:
            new_ones = (new for batch in together for new in batch.records)
            own = {seq: new for new, (seq, is_new) in zip(new_ones, taken.appended.settled, strict=True) if is_new}
        for impression in taken.impressions:
            self._state.impressions.remember(impression)
        slices, outcomes = Slices(), {}
        for seq, record in taken.others:
            if seq in own:
                outcomes[seq] = self._fold_own(seq, own.pop(seq))
            else:
                if isinstance(record, RankerSet):
                    await self._compile(record.settings)
                self._fold_other(seq, record)
            if slices.over:
                await slices.pause()
        for seq, new in own.items():
            outcomes[seq] = self._fold_own(seq, new)
            if slices.over:
                await slices.pause()
        self._settle_all(together, taken.appended.settled if taken.appended else [], outcomes)

    def _settle_all(self, together: list[Batch], all_: list[tuple[int, bool]], outcomes: dict[int, Any]) -> None:
        settled = iter(all_)
        for batch in together:
            results = []
            for _ in batch.records:
                seq, is_new = next(settled)
                results.append(Settled(seq, is_new, outcomes.get(seq) if is_new else None))
            _resolve(batch.settled, results, self._broken)

    def _fold_own(self, seq: int, new: NewRecord) -> Any:
        try:
            return self._apply(seq, new.record, new.prepared)
        except Exception as error:
            self._cannot_fold(seq, new.record, error)
            return None

    def _fold_other(self, seq: int, record: Record) -> None:
        try:
            self._state.follow(seq, record)
        except Exception as error:
            self._cannot_fold(seq, record, error)

    def _cannot_fold(self, seq: int, record: Record, error: Exception) -> None:
        """Go on without the query of a record: it would stop every service."""
        reason = f"record {seq} could not be folded ({error})"
        if not self._state.skip(seq, record, self._queries, reason):
            raise error
        _log.error(
            "%s: query %r of ranker %s stops", reason, getattr(record, "query", ""), record.ranker, exc_info=error
        )

    def _answer(
        self,
        asked: list[tuple[Sequence[Event], asyncio.Future[list[Impression | None]]]],
        found: list[Impression | None],
    ) -> None:
        rest = iter(found)
        for events, answer in asked:
            its: list[Impression | None] = []
            for event in events:
                one = next(rest)
                if one is not None:
                    self._state.impressions.remember(one)
                its.append(self._state.impressions.cached(*event) if one is not None else None)
            _resolve(answer, its)

    async def _install(self, keys: list[QueryKey], wanted: list[Wanted], loaded: list[Loaded]) -> None:
        """Hold the queries that were asked for; those that are ahead of the state, or of another generation, later."""
        slices, state = Slices(), self._state
        for key, its, found in zip(keys, wanted, loaded, strict=True):
            arm = self._arm(key)
            if arm is None or arm.since != its.since:
                continue
            if found.snapshot is not None and found.snapshot.seq > state.seq:
                continue
            error = None
            try:
                ranker = state.rankers[arm.ranker_name]
                query, changes = load_query(ranker, arm, key[1], found)
                self._queries.install(key, query)
                state.report(ranker, changes)
            except Exception as problem:
                _log.exception("query %r of ranker %s cannot be loaded", key[1], key[0])
                error = StoreError(f"query {key[1]!r}: cannot be loaded ({problem})")
            if key in self._wanted:  # else nobody waited any longer
                _resolve(self._wanted.pop(key), None, error)
            if slices.over:
                await slices.pause()

    def _fail_all(self, together: list[Batch], error: StoreError) -> None:
        fail((batch for batch in together if not batch.settled.done()), error)
        for waiting in self._wanted.values():
            _resolve(waiting, None, error)
        self._wanted.clear()
        for _, answer in self._asked:
            _resolve(answer, None, error)
        self._asked.clear()
        for waits in self._settling:
            _resolve(waits, None, error)
        self._settling.clear()


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
        future.exception()  # whoever waits for it has it; nobody may
