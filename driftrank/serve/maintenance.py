"""Maintenance: feedback windows end, memory stays within its limit, the log stays short. Independent of requests."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from time import perf_counter

from driftrank.serve.log.committer import Committer, NewRecord
from driftrank.serve.log.records import Final, Lost, Withdrawn, decode, final_id, withdrawn_id
from driftrank.serve.log.store.base import LAST, Store, StoreError
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.monitoring.recent import Recent
from driftrank.serve.ranking.feedback import withdrawal
from driftrank.serve.settings.server import ServerSettings
from driftrank.serve.slices import Slices
from driftrank.serve.state.checkpoint import CHECKPOINT, CheckpointCopy, shared_name
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.queries import QueryKey, snapshot_name
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import ModelCopy, State

_log = logging.getLogger("driftrank.serve")
#: queries written at once; requests are answered in between
_SLICE = 64
#: for a checkpoint without hurry: queries at once, then seconds for records that are to be written
_SMALL_SLICE, _PAUSE = 8, 0.002
#: impressions ended at once
_DUE = 250
#: seconds in which a client that has gone may ask again for its ranking
_ASK_AGAIN = 60.0
#: seconds until a store that failed is tried again
_RETRY = 1.0
#: seconds between two measurements of the event loop
_TICK = 0.25
#: seconds between two measurements of the store
_MEASURE = 10.0


class Maintenance:
    """The background tasks of a running service."""

    recent: Recent  #: requests since the start

    def __init__(
        self, state: State, store: Store, committer: Committer, settings: ServerSettings, metrics: Metrics,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._state = state
        self._store = store
        self._committer = committer
        self.settings = settings
        self._metrics = metrics
        self._now = now
        self._tasks: list[asyncio.Task[None]] = []
        self._undelivered: deque[tuple[float, Ranker, Impression]] = deque()
        self._withdrawals: list[NewRecord] = []  # to be written as soon as the store takes them
        self.store_bytes = 0  #: its size a moment ago
        self._new = 0  # records since the last checkpoint
        self._checkpoint_at = 0  # the record of the last checkpoint of this service
        self._memory = settings.memory_bytes
        self._full = asyncio.Event()
        self._checkpoint_due = asyncio.Event()
        self._checkpointing = asyncio.Lock()
        # a query whose snapshot is being written is neither dirty nor durable: no other task may rely on either
        self._snapshotting = asyncio.Lock()
        self.memory_free = asyncio.Event()  #: set while more queries may be loaded
        self.memory_free.set()

    def start(self) -> None:
        self.recent = Recent(self._metrics)
        for work in self._work():
            self._tasks.append(asyncio.create_task(self._forever(work)))

    def _work(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """The tasks that are done all the time."""
        return (
            self._end_feedback_windows, self._evict_when_full, self._take_checkpoints, self._retry_store,
            self._measure_lag, self._measure_store,
        )  # fmt: skip

    async def stop(self) -> None:
        """Write a last checkpoint, so that the next start is quick."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(StoreError):
            await self.take_back_undelivered(math.inf)
        if self._new:
            try:
                await self.checkpoint(hurry=True)
            except StoreError as error:  # everything is in the log
                _log.warning("no checkpoint at the end: %s", error)

    def folded(self, records: int) -> None:
        """Called after this number of records was folded."""
        self._new += records
        if self._new >= self.settings.checkpoint_every:
            self._checkpoint_due.set()
        self._check_memory()

    def _check_memory(self) -> None:
        if self._state.queries.nbytes > self._memory:
            self._full.set()
            if self._state.queries.nbytes > 1.25 * self._memory:
                self.memory_free.clear()

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        what = work.__name__.strip("_").replace("_", " ")
        while True:
            await asyncio.sleep(0)  # requests come first
            try:
                await work()
            except StoreError as error:
                self._metrics.add("store_errors", (type(error).__name__,))
                _log.error("cannot %s: %s; trying again", what, error)
                await asyncio.sleep(1)
            except Exception:
                _log.exception("cannot %s; trying again", what)
                await asyncio.sleep(1)

    # -- time ------------------------------------------------------------------------------------------------------

    def undelivered(self, ranker: Ranker, impression: Impression) -> None:
        """Take an impression back, unless it is delivered soon: its answer could not be sent."""
        later = min(_ASK_AGAIN, ranker.feedback_window / 2)
        self._undelivered.append((self._now() + later, ranker, impression))

    def unseen(self, ranker: Ranker, event_ids: Iterable[str]) -> None:
        """Take impressions back that may be in the log or may still come: the outcome is unknown."""
        now = self._now()
        for event_id in event_ids:
            record = Withdrawn(ranker.name, event_id, now)
            self._withdrawals.append(NewRecord(withdrawn_id(ranker.name, ranker.created, event_id), record))

    async def take_back_undelivered(self, now: float) -> None:
        while self._undelivered and self._undelivered[0][0] <= now:
            _, ranker, impression = self._undelivered.popleft()
            if not impression.delivered and impression.final is None:
                self._withdrawals.append(withdrawal(ranker, impression, self._now()))
        if records := self._withdrawals[:]:
            await self._committer.append(records, urgent=True)
            del self._withdrawals[: len(records)]

    async def _end_feedback_windows(self) -> None:
        await self.take_back_undelivered(self._now())
        more = await self.end_feedback_windows()
        await self.free_dropped()
        self._check_memory()  # queries that are only read are loaded, too
        shortest = min((ranker.feedback_window for ranker in self._state.rankers.values()), default=10.0)
        await asyncio.sleep(0 if more else min(1.0, shortest / 10))

    async def end_feedback_windows(self) -> bool:
        """End the impressions whose feedback window is over; True if there may be more."""
        more = False
        for ranker in list(self._state.rankers.values()):
            due = ranker.waiting.due(self._now() - ranker.feedback_window, _DUE)
            impressions = await self._opened(ranker, due)
            if self._state.rankers.get(ranker.name) is not ranker:  # deleted meanwhile; its event ids may be used again
                continue
            now, records = self._now(), []
            for opened_by in due:
                if opened_by not in ranker.waiting:  # it has ended meanwhile
                    continue
                if opened_by in impressions:
                    records.append(_end(ranker, impressions[opened_by], now))
                else:
                    _log.error(
                        "record %d, of a waiting impression, cannot be read: nothing is learnt from it", opened_by
                    )
                    records.append(NewRecord(f"l/{ranker.name}/{opened_by}", Lost(ranker.name, now, opened_by)))
            if records:
                await self._committer.append(records, urgent=True)
            more = more or len(due) == _DUE
        return more

    async def _opened(self, ranker: Ranker, openings: list[int]) -> dict[int, Impression]:
        """The impressions whose feedback windows these records opened, by these; without unreadable ones.

        Most are in the log only: from 11 lists a second on, half an hour is more than what is in memory. They are read
        beside the event loop.
        """
        impressions = self._state.impressions
        known = {opening: impressions.in_memory(opening) for opening in openings}
        found = {opening: impression for opening, impression in known.items() if impression is not None}
        if len(found) < len(openings):
            missing = [opening for opening in openings if opening not in found]
            for impression in await self._committer.run(impressions.read_opened, missing, ranker.created):
                opening = impression.opened_by
                found[opening] = impressions.in_memory(opening) or impression
                if opening in ranker.waiting and found[opening] is impression:
                    impressions.add(impression)  # folding its end asks for it
        return found

    async def free_dropped(self) -> None:
        """Free the memory of queries that were dropped with all others of their arm."""
        slices = Slices()
        while self._state.queries.free(16):
            if slices.over:
                await slices.pause()

    async def _measure_lag(self) -> None:
        began = perf_counter()
        await asyncio.sleep(_TICK)
        self._metrics.observe("event_loop_lag_seconds", (), max(0.0, perf_counter() - began - _TICK))
        self.recent.take()

    async def _measure_store(self) -> None:
        await asyncio.sleep(_MEASURE)
        await self.measure_store()

    async def measure_store(self) -> None:
        """Read the size of the store: a scrape must be answered also if the store is not."""
        self.store_bytes = await self._committer.run(self._store.size)

    # -- memory ----------------------------------------------------------------------------------------------------

    async def _evict_when_full(self) -> None:
        await self._full.wait()
        try:
            await self.evict()
        finally:  # if nothing can be written, better use more memory than stop answering
            self.memory_free.set()

    async def evict(self) -> None:
        """Write the least recently used queries and drop them from memory, until it is within its limit."""
        queries = self._state.queries
        while queries.nbytes > 0.9 * self._memory and queries:
            oldest = [key for key, _ in zip(queries, range(_SLICE), strict=False)]
            await self.snapshot(oldest)
            # the others changed again while they were written, or were dropped
            written = [key for key in oldest if key in queries and key not in queries.dirty]
            for key in written:
                queries.drop(key)
            self._metrics.add("evictions", (), len(written))
            if queries.nbytes < 1.25 * self._memory:
                self.memory_free.set()
        self._full.clear()

    async def dirty(self) -> list[QueryKey]:
        """The queries that differ from their snapshots, after those being written are durable or dirty again."""
        async with self._snapshotting:
            return list(self._state.queries.dirty)

    async def write_queries(self, owner: str) -> None:
        """Write all queries of an arm that differ from their snapshots."""
        await self.snapshot([key for key in await self.dirty() if key[0] == owner])

    async def snapshot(self, keys: Sequence[QueryKey], slice_: int = _SLICE, pause: float = 0.0) -> None:
        """Write queries, a slice at a time; those that cannot be written stay dirty."""
        queries = self._state.queries
        for n in range(0, len(keys), slice_):
            async with self._snapshotting:
                await self.record_changes()
                dirty = [key for key in keys[n : n + slice_] if key in queries.dirty]
                if not dirty:
                    continue
                deleted = [key for key in dirty if key in queries.deleted]
                try:
                    await self._committer.put_snapshots(self._state.snapshots(dirty))
                except BaseException:
                    queries.dirty.update(key for key in dirty if key in queries)
                    queries.deleted.update(deleted)  # the stored snapshot is still that of an earlier generation
                    self._state.changes_stored = False
                    raise
            self._metrics.add("snapshots_written", (), len(dirty))
            if pause:
                await asyncio.sleep(pause)

    async def record_changes(self) -> None:
        """See that changes of users are stored that snapshots written now would not show again."""

    # -- the log ---------------------------------------------------------------------------------------------------

    async def _take_checkpoints(self) -> None:
        with suppress(TimeoutError):
            # not wait_for(), which before Python 3.12 may miss that the task is cancelled
            async with asyncio.timeout(self.settings.checkpoint_seconds):
                await self._checkpoint_due.wait()
        self._checkpoint_due.clear()
        if self._new:
            await self.checkpoint()
        await self._drop_outdated()
        await self._forget_old()

    async def checkpoint(self, *, hurry: bool = False) -> None:
        """Let a start begin here instead of at the last checkpoint. In a ``hurry``, do not pause for requests."""
        async with self._checkpointing:
            state = self._state
            checkpoint, models = state.checkpoint(), state.changed_models()
            deleted, needed = list(state.queries.deleted), state.needed
            new, self._new, state.needed = self._new, 0, state.oldest
            began, written = perf_counter(), self._metrics.count("snapshots_written")
            try:
                await self._write(checkpoint, models, deleted, hurry)
            except BaseException:  # a replay begins where it did before
                state.needed = min(needed, state.needed)
                state.changes_stored = False
                self._new += new
                raise
            self._checkpoint_at = checkpoint.seq
            took, written = perf_counter() - began, self._metrics.count("snapshots_written") - written
            self._metrics.observe("checkpoint_duration_seconds", (), took)
            _log.info("checkpoint at record %d: %d queries in %.2f s", checkpoint.seq, written, took)

    async def _write(
        self, checkpoint: CheckpointCopy, models: list[ModelCopy], deleted: list[QueryKey], hurry: bool
    ) -> None:
        """Write a checkpoint with the shared models that belong to it, after all its queries."""
        queries = self._state.queries
        packed = [await asyncio.to_thread(checkpoint.snapshot)]
        packed += [await asyncio.to_thread(copy.snapshot) for copy in models]
        await self.snapshot(await self.dirty(), *((_SLICE, 0.0) if hurry else (_SMALL_SLICE, _PAUSE)))
        async with self._snapshotting:  # nothing else may be written until these are known to be dropped
            # the snapshot of a query that was created again is a new one, or still that of an earlier generation
            deleted = [key for key in deleted if key in queries.deleted]
            # with counts: queries deleted meanwhile may have no snapshot, so that a replay could not subtract them
            snapshots = [*packed, *self._state.snapshots(())]
            await self._committer.put_snapshots(snapshots, [snapshot_name(*key) for key in deleted])
            queries.deleted.difference_update(deleted)
        for copy in models:
            if copy.arm.shared_seq >= copy.seq:  # not emptied meanwhile
                copy.arm.shared_stored = copy.seq

    async def _drop_outdated(self) -> None:
        """Drop the snapshots of earlier generations of rankers."""
        state = self._state
        for name in list(state.outdated):
            since, last = state.since(name), ""
            if name in state.rankers and since > self._checkpoint_at:  # the checkpoint is that of the generation before
                continue
            while names := await self._committer.read(
                self._store.snapshot_names, snapshot_name(name, ""), last, _SLICE
            ):
                last = names[-1]
                await self._committer.put_snapshots([], names, since)
            await self._committer.put_snapshots([], [shared_name(name)], since)
            if state.since(name) == since:  # not restarted again meanwhile
                state.outdated.discard(name)

    async def _retry_store(self) -> None:
        """Try a store that failed: a service that is not ready may get no request that would do so."""
        await asyncio.sleep(_RETRY)
        if self._committer.problem is not None:
            with suppress(StoreError):
                await self._committer.probe()

    async def _forget_old(self) -> None:
        """Retention: drop records that are old, covered by snapshots, and not needed any more."""
        until = self._now() - self.settings.retention_seconds
        checkpoint = await self._committer.run(self._store.get_snapshot, CHECKPOINT)
        while True:
            # every time: an old impression may be activated meanwhile
            bound = min(
                self._state.oldest, self._state.needed, checkpoint.seq if checkpoint else 0, await self._covered()
            )
            before = await self._committer.run(self._first_kept, bound, until)
            if not before:
                return
            self._metrics.add("records_forgotten", (), await self._committer.run(self._store.forget, before))
            self._state.impressions.forget_before(before)

    async def _covered(self) -> int:
        """The first record that no snapshot covers, apart from the checkpoint."""
        return LAST

    def _first_kept(self, bound: int, until: float) -> int:
        """The number below which the first entries of the log may be dropped; 0: there are none."""
        before = 0
        for entry in self._store.read(0, 1000):
            if entry.seq >= bound or decode(entry.body).time >= until:
                break
            before = entry.seq + 1
        return before


def _end(ranker: Ranker, impression: Impression, now: float) -> NewRecord:
    """The end of an impression whose feedback window is over: with the clicks collected, or by silence."""
    name, event_id = ranker.name, impression.ranked.event_id
    collected = ranker.collected.get(impression.opened_by or 0)
    if collected is not None:
        values = sorted(ranker.values.get(impression.opened_by or 0, {}).items())
        final = Final(name, event_id, now, "feedback", *collected, values=values, window_over=True)
    elif ranker.has_withdrawn(event_id, impression.ranked.time):  # the service was killed before it could say so
        return withdrawal(ranker, impression, now)
    else:
        how = "silence" if ranker.settings.silence == "no_click" else "dropped"
        final = Final(name, event_id, now, how, window_over=True)
    return NewRecord(final_id(name, event_id, impression.seq), final, about=impression)
