"""Group commit: one write for all records that wait, made in a thread of its own while the next ones gather."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple

from driftrank.serve.records import Record, encode
from driftrank.serve.store.base import Snapshot, Store, StoreError

_log = logging.getLogger("driftrank.serve")
#: a record and the id under which it may be in the log only once
Named = tuple[str, Record]
#: the sequence number of a record, and whether it is new
Settled = tuple[int, bool]

#: entries of one commit at most, so that nobody waits long behind a large import
_MOST = 5_000
#: bytes that a store which was full must have room for
_PROBE = 32_768


class _Batch(NamedTuple):
    """The records of one request."""

    records: list[Record]
    entries: list[tuple[str, bytes]]
    settled: asyncio.Future[list[Settled]]


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
        self._waiting: deque[_Batch] = deque()
        self._busy = self._scheduled = False
        self.queued = 0  #: records that wait
        self.problem: str | None = None  #: why the last commit failed
        self._broken: StoreError | None = None  # the state is no longer that of the log

    def append(self, records: Sequence[Named], *, urgent: bool = False) -> asyncio.Future[list[Settled]]:
        """Will be durable and folded. ``urgent`` ones are taken when the queue is full, too."""
        if self.queued and self.queued + len(records) > self._limit and not urgent:
            raise QueueFull
        if self._broken is not None:
            raise self._broken
        entries = [(name, encode(record)) for name, record in records]
        settled: asyncio.Future[list[Settled]] = self._loop.create_future()
        self._waiting.append(_Batch([record for _, record in records], entries, settled))
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
        if self._broken is None:
            self._well()

    async def close(self) -> None:
        """Wait for what waits, then end the thread."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.001)
        self._writer.shutdown()

    def _commit(self) -> None:
        self._scheduled = False
        if self._busy or not self._waiting:
            return
        together: list[_Batch] = []
        entries: list[tuple[str, bytes]] = []
        while self._waiting and (not together or len(entries) + len(self._waiting[0].entries) <= _MOST):
            together.append(self._waiting.popleft())
            entries += together[-1].entries
        self._busy = True
        began = perf_counter()

        def done(work: asyncio.Future[list[Settled]]) -> None:
            self._busy = False
            self.queued -= len(entries)
            error = work.exception()
            if error is None:
                took = perf_counter() - began
                self._well()
                self._settle(together, work.result())
                self._committed(len(entries), took)
            else:
                if self.problem is None:  # once, not with every request that fails of it
                    _log.error("the store cannot be written: %s", error)
                self.problem = str(error)
                _fail(together, error)
            self._commit()

        self.run(self._store.append, entries).add_done_callback(done)

    def _well(self) -> None:
        if self.problem is not None:
            _log.info("the store can be written again")
        self.problem = None

    def _settle(self, together: list[_Batch], results: list[Settled]) -> None:
        at = 0
        for batch in together:
            its = results[at : at + len(batch.records)]
            at += len(batch.records)
            for record, (seq, new) in zip(batch.records, its, strict=True):
                if new and self._broken is None:
                    self._take(seq, record)
            if self._broken is not None:
                _fail([batch], self._broken)
            elif not batch.settled.cancelled():
                batch.settled.set_result(its)

    def _take(self, seq: int, record: Record) -> None:
        try:
            self._fold(seq, record)
        except Exception:
            _log.exception("record %d is in the log but not in the state", seq)
            self._broken = StoreError(f"record {seq} could not be taken in; start the service again")
            self.problem = str(self._broken)


def _fail(batches: Iterable[_Batch], error: BaseException) -> None:
    for batch in batches:
        if not batch.settled.cancelled():
            batch.settled.set_exception(error)
