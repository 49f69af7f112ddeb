"""What must be done whether or not anybody asks: silence becomes final, memory stays in bounds, the log short."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from driftrank.serve.committer import Committer, Named
from driftrank.serve.config import ServerSettings
from driftrank.serve.events import Event
from driftrank.serve.fold import CHECKPOINT, Fold, Ranker, snapshot_name
from driftrank.serve.metrics import Metrics
from driftrank.serve.records import Final, Lost, decode, final_id
from driftrank.serve.store.base import Snapshot, Store, StoreError

_log = logging.getLogger("driftrank.serve")
#: queries written in one go; the loop answers requests in between
_SLICE = 64
#: at a checkpoint there is no hurry: so many, then seconds for records that wait to be written
_SMALL_SLICE, _PAUSE = 8, 0.002
#: lists finalised in one go
_DUE = 1000
#: seconds until a store that failed is tried again
_TRY_AGAIN = 1.0


class Upkeep:
    """Looks after the state of a service while it runs."""

    def __init__(
        self, fold: Fold, store: Store, committer: Committer, settings: ServerSettings, metrics: Metrics,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._fold = fold
        self._store = store
        self._committer = committer
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._tasks: list[asyncio.Task[None]] = []
        self._new = 0  # records since the last checkpoint
        self._memory = settings.memory_bytes
        self._full = asyncio.Event()
        self._checkpoint_due = asyncio.Event()
        self._checkpointing = asyncio.Lock()
        # a query whose snapshot is on its way is neither dirty nor durable: nobody else may judge it meanwhile
        self._snapshotting = asyncio.Lock()
        self.room = asyncio.Event()  #: whether there is memory for more
        self.room.set()

    def start(self) -> None:
        for work in (self._finalise_silence, self._write_out, self._take_checkpoints, self._try_store_again):
            self._tasks.append(asyncio.create_task(self._forever(work)))

    async def stop(self) -> None:
        """Write what must be written, so that the next start is quick."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._new:
            try:
                await self.checkpoint(hurry=True)
            except StoreError as error:  # the log has it all
                _log.warning("no checkpoint at the end: %s", error)

    def folded(self, records: int) -> None:
        """So many records more are in the state."""
        self._new += records
        if self._new >= self._settings.checkpoint_every:
            self._checkpoint_due.set()
        self._look_at_memory()

    def _look_at_memory(self) -> None:
        if self._fold.nbytes > self._memory:
            self._full.set()
            if self._fold.nbytes > 1.25 * self._memory:
                self.room.clear()

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        what = work.__name__.strip("_").replace("_", " ")
        while True:
            await asyncio.sleep(0)  # whatever the work is: requests come first
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

    async def _finalise_silence(self) -> None:
        more = await self.finalise()
        self._look_at_memory()  # queries that are only looked at come into it, too
        shortest = min((ranker.wait for ranker in self._fold.rankers.values()), default=10.0)
        await asyncio.sleep(0 if more else min(1.0, shortest / 10))

    async def finalise(self) -> bool:
        """A list whose wait is over is done. Whether there may be more of them."""
        more = False
        for ranker in list(self._fold.rankers.values()):
            if self._fold.rankers.get(ranker.name) is not ranker:  # deleted meanwhile; another may use its event ids
                continue
            now = self._now()
            due = ranker.pending.due(now - ranker.wait, _DUE)
            events = self._fold.events.started(due, ranker.born)
            records: list[Named] = [
                (final_id(ranker.name, event.ranked.event, event.seq), _overdue(ranker, event, now)) for event in events
            ]
            for start in sorted({*due} - {event.start for event in events}):
                _log.error("record %d, of a list that waited, cannot be read: nothing is learnt of it", start)
                records.append((f"l/{ranker.name}/{start}", Lost(ranker.name, now, start)))
            if records:
                await self._committer.append(records, urgent=True)
            more = more or len(due) == _DUE
        return more

    # -- memory ----------------------------------------------------------------------------------------------------

    async def _write_out(self) -> None:
        await self._full.wait()
        try:
            await self.shrink()
        finally:  # if nothing can be written, better use more memory than answer nothing
            self.room.set()

    async def shrink(self) -> None:
        """Write out the least recently used queries until there is room."""
        fold = self._fold
        while fold.nbytes > 0.9 * self._memory and fold.queries:
            oldest = [at for at, _ in zip(fold.queries, range(_SLICE), strict=False)]
            await self.snapshot(oldest)
            # the others changed again while they were written, or are no more
            written = [at for at in oldest if at in fold.queries and at not in fold.dirty]
            for at in written:
                fold.drop(at)
            self._metrics.add("evictions", (), len(written))
            if fold.nbytes < 1.25 * self._memory:
                self.room.set()
        self._full.clear()

    async def dirty(self) -> list[tuple[str, str]]:
        """Queries that differ from their snapshots, once those that are being written are so or are dirty again."""
        async with self._snapshotting:
            return list(self._fold.dirty)

    async def snapshot(self, which: Sequence[tuple[str, str]], slice_: int = _SLICE, pause: float = 0.0) -> None:
        """Write queries, some at a time; what cannot be written is dirty as before."""
        for n in range(0, len(which), slice_):
            async with self._snapshotting:
                dirty = [at for at in which[n : n + slice_] if at in self._fold.dirty]
                if not dirty:
                    continue
                gone = [at for at in dirty if at in self._fold.gone]
                try:
                    await self._committer.put_snapshots(self._fold.snapshots(dirty))
                except BaseException:
                    self._fold.dirty.update(at for at in dirty if at in self._fold.queries)
                    self._fold.gone.update(gone)  # what is there is still of the life before
                    raise
            self._metrics.add("snapshots_written", (), len(dirty))
            if pause:
                await asyncio.sleep(pause)

    # -- the log ---------------------------------------------------------------------------------------------------

    async def _take_checkpoints(self) -> None:
        with suppress(TimeoutError):
            # not wait_for(), which before Python 3.12 may overlook that the task is cancelled
            async with asyncio.timeout(self._settings.checkpoint_seconds):
                await self._checkpoint_due.wait()
        self._checkpoint_due.clear()
        if self._new:
            await self.checkpoint()
        await self._clean_up()
        await self._forget_old()

    async def checkpoint(self, *, hurry: bool = False) -> None:
        """From here on a start needs only what comes after. In a ``hurry``, nobody else is waited for."""
        async with self._checkpointing:
            fold = self._fold
            checkpoint, gone, needed = fold.checkpoint(), list(fold.gone), fold.needed
            new, self._new, fold.needed = self._new, 0, fold.oldest
            try:
                await self._write(checkpoint, gone, hurry)
            except BaseException:  # a replay begins where it did
                fold.needed = min(needed, fold.needed)
                self._new += new
                raise

    async def _write(self, checkpoint: Snapshot, gone: list[tuple[str, str]], hurry: bool) -> None:
        """A checkpoint, after all queries that it counts on."""
        fold = self._fold
        await self.snapshot(await self.dirty(), *((_SLICE, 0.0) if hurry else (_SMALL_SLICE, _PAUSE)))
        async with self._snapshotting:  # what is dropped here stays so until that is known
            # the snapshot of a query that came back is a new one, or still that of the life before
            gone = [at for at in gone if at in fold.gone]
            # counts: of those deleted meanwhile there may be no snapshot, so that a replay cannot count them out
            snapshots = [checkpoint, *fold.snapshots(())]
            await self._committer.put_snapshots(snapshots, [snapshot_name(*at) for at in gone])
            fold.gone.difference_update(gone)

    async def _clean_up(self) -> None:
        """Drop the snapshots of rankers that were deleted or started anew."""
        fold = self._fold
        for name in list(fold.outdated):
            since, last = fold.since(name), ""
            while names := self._store.snapshot_names(snapshot_name(name, ""), last, _SLICE):
                last = names[-1]
                async with self._snapshotting:  # or one that is written just now would be dropped with those before it
                    found = [self._store.get_snapshot(n) for n in names]
                    gone = [snapshot.name for snapshot in found if snapshot is not None and snapshot.seq < since]
                    if gone:
                        await self._committer.put_snapshots([], gone)
            if fold.since(name) == since:  # not once more meanwhile
                fold.outdated.discard(name)

    async def _try_store_again(self) -> None:
        """See when a store that failed can be written again: who is not ready may get no request that would show it."""
        await asyncio.sleep(_TRY_AGAIN)
        if self._committer.problem is not None:
            with suppress(StoreError):
                await self._committer.probe()

    async def _forget_old(self) -> None:
        """Retention: drop records that are old, in snapshots, and that nobody waits for."""
        until = self._now() - self._settings.retention_seconds
        checkpoint = self._store.get_snapshot(CHECKPOINT)
        while True:
            # every time: an old list may begin to wait meanwhile
            bound = min(self._fold.oldest, self._fold.needed, checkpoint.seq if checkpoint else 0)
            before = 0
            for entry in self._store.read(0, 1000):
                if entry.seq >= bound or decode(entry.body).time >= until:
                    break
                before = entry.seq + 1
            if not before:
                return
            self._metrics.add("records_forgotten", (), await self._committer.run(self._store.forget, before))
            self._fold.events.forget_before(before)


def _overdue(ranker: Ranker, event: Event, now: float) -> Final:
    collected = ranker.collected.get(event.start or 0)
    if collected is not None:
        return Final(ranker.name, event.ranked.event, now, "feedback", *collected)
    how = "silence" if ranker.settings.silence == "no_click" else "dropped"
    return Final(ranker.name, event.ranked.event, now, how)
