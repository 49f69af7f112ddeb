"""Group commit: one write for all records that wait, made in a thread of its own while the next ones gather."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from driftrank.serve.records import Record, encode
from driftrank.serve.store.base import Snapshot, Store

#: a record and the id under which it may be in the log only once
Named = tuple[str, Record]
#: the sequence number of a record, and whether it is new
Settled = tuple[int, bool]

#: entries of one commit at most, so that nobody waits long behind a large import
_MOST = 5_000
#: bytes that a store which was full must have room for
_PROBE = 32_768


class QueueFull(Exception):
    """More records wait than should."""


class Committer:
    """Appends records in the order in which they come; hands them to ``fold`` once they are durable, in that order."""

    def __init__(
        self,
        store: Store,
        fold: Callable[[int, Record], None],
        *,
        limit: int,
        committed: Callable[[int, float], None] = lambda records, seconds: None,
    ) -> None:
        self._store = store
        self._fold = fold
        self._limit = limit
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1, "driftrank-writer")
        self._waiting: deque[tuple[Sequence[Named], asyncio.Future[list[Settled]]]] = deque()
        self._busy = self._scheduled = False
        self.queued = 0  #: records that wait
        self.problem: str | None = None  #: why the last commit failed

    def append(self, records: Sequence[Named], *, urgent: bool = False) -> asyncio.Future[list[Settled]]:
        """Will be durable and folded. ``urgent`` ones are taken when the queue is full, too."""
        if self.queued + len(records) > self._limit and not urgent:
            raise QueueFull
        settled: asyncio.Future[list[Settled]] = self._loop.create_future()
        self._waiting.append((records, settled))
        self.queued += len(records)
        if not (self._busy or self._scheduled):  # at the end of this turn of the loop, with all that came in it
            self._scheduled = True
            self._loop.call_soon(self._commit)
        return settled

    def run(self, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Something else that must be done by the thread that writes."""
        return self._loop.run_in_executor(self._writer, work, *args)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = ()) -> asyncio.Future[None]:
        return self.run(self._store.put_snapshots, snapshots, gone)

    async def probe(self) -> None:
        """Write something that means nothing; if that is possible, there is no problem any more."""
        await self.put_snapshots([Snapshot("probe", 0, bytes(_PROBE))])
        self.problem = None

    async def close(self) -> None:
        """Wait for what waits, then end the thread."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.001)
        self._writer.shutdown()

    def _commit(self) -> None:
        self._scheduled = False
        if self._busy or not self._waiting:
            return
        batch: list[tuple[Sequence[Named], asyncio.Future[list[Settled]]]] = []
        entries: list[tuple[str, bytes]] = []
        while self._waiting and (not batch or len(entries) + len(self._waiting[0][0]) <= _MOST):
            batch.append(self._waiting.popleft())
            entries += [(name, encode(record)) for name, record in batch[-1][0]]
        self._busy = True
        began = perf_counter()

        def done(work: asyncio.Future[list[Settled]]) -> None:
            self._busy = False
            self.queued -= len(entries)
            error = work.exception()
            if error is None:
                self.problem = None
                self._committed(len(entries), perf_counter() - began)
                self._settle(batch, work.result())
            else:
                self.problem = str(error)
                for _, settled in batch:
                    if not settled.cancelled():
                        settled.set_exception(error)
            self._commit()

        self.run(self._store.append, entries).add_done_callback(done)

    def _settle(
        self, batch: list[tuple[Sequence[Named], asyncio.Future[list[Settled]]]], results: list[Settled]
    ) -> None:
        at = 0
        for records, settled in batch:
            its = results[at : at + len(records)]
            at += len(records)
            for (_, record), (seq, new) in zip(records, its, strict=True):
                if new:
                    self._fold(seq, record)
            if not settled.cancelled():
                settled.set_result(its)
