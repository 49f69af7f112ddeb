"""Group commit: one write for all queued records, in a thread of its own, while the next ones queue up."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, NamedTuple

from driftrank.serve.log.records import Record, encode
from driftrank.serve.log.store.base import LAST, Snapshot, Store, StoreError
from driftrank.serve.slices import Slices

_log = logging.getLogger("driftrank.serve")

#: entries of one commit at most, so that no request waits long behind a large import
_MAX_ENTRIES = 5_000
#: seconds from the beginning of a commit to that of the next one, at least. Each commit costs a thread's wake-up and a
#: write to disk; under load this makes half as many. A record that comes alone is written at once
_PACE = 0.002
#: bytes that must be free in a store that was full
_PROBE = 32_768


class NewRecord(NamedTuple):
    """A record to be appended."""

    id: str  #: the log accepts each only once
    record: Record
    prepared: Any = None  #: for folding it; in memory only, never stored
    about: Any = None  #: the impression that it is about, if it is; in memory only


class Settled(NamedTuple):
    """A record in the log."""

    seq: int
    new: bool  #: False: its id was in the log already
    outcome: Any = None  #: of ``apply``, if the record is new


class Batch(NamedTuple):
    """The records of one request."""

    records: Sequence[NewRecord]
    settled: asyncio.Future[list[Settled]]


class QueueFull(Exception):
    """The queue of records is at its limit."""


class Committer:
    """Appends records in the order of their arrival; once they are durable, calls ``apply(seq, record, prepared)`` for
    each new one, in the order of the log.
    """

    def __init__(
        self,
        store: Store,
        apply: Callable[[int, Record, Any], Any],
        *,
        limit: int,
        committed: Callable[[int, float], None] = lambda records, seconds: None,
    ) -> None:
        self._store = store
        self._apply = apply
        self._limit = limit
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(1, "driftrank-writer")
        self._waiting: deque[Batch] = deque()
        self._busy = self._scheduled = False
        self._next_at = 0.0  # the loop's time before which no commit begins
        self.queued = 0  #: records not durable yet
        self.problem: str | None = None  #: why the last commit failed
        self._broken: StoreError | None = None  # the state is not that of the log any more

    def append(self, records: Sequence[NewRecord], *, urgent: bool = False) -> asyncio.Future[list[Settled]]:
        """Settled once they are durable and folded. ``urgent`` ones are accepted even if the queue is full."""
        if self.queued and self.queued + len(records) > self._limit and not urgent:
            raise QueueFull
        if self._broken is not None:
            raise self._broken
        settled: asyncio.Future[list[Settled]] = self._loop.create_future()
        self._waiting.append(Batch(records, settled))
        self.queued += len(records)
        self._schedule()
        return settled

    def _schedule(self) -> None:
        """Commit at the end of this iteration of the loop, with all records of it, or when it is time for the next."""
        if self._busy or self._scheduled or not self._waiting:
            return
        self._scheduled = True
        if self._loop.time() < self._next_at:
            self._loop.call_at(self._next_at, self._commit)
        else:
            self._loop.call_soon(self._commit)

    def _entry(self, new: NewRecord) -> Any:
        """The entry of a record, as the store appends it."""
        return new.id, encode(new.record)

    def run(self, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run something else in the writer thread."""
        return self._loop.run_in_executor(self._writer, work, *args)

    async def read(self, work: Callable[..., Any], *args: Any) -> Any:
        """Read the store: here, as a file is read at once."""
        return work(*args)

    def put_snapshots(
        self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), before: int = LAST
    ) -> asyncio.Future[None]:
        return self.run(functools.partial(self._store.put_snapshots, snapshots, gone, before=before))

    async def probe(self) -> None:
        """Write a snapshot without meaning; clears the problem if that succeeds."""
        await self.put_snapshots([Snapshot("probe", 0, bytes(_PROBE))])
        if self._broken is None:
            self._recovered()

    async def close(self) -> None:
        """Commit what is queued, then end the thread."""
        while self._busy or self._waiting:
            await asyncio.sleep(0.001)
        self._writer.shutdown()

    def _commit(self) -> None:
        self._scheduled = False
        if self._busy or not self._waiting:
            return
        together = self._next(_MAX_ENTRIES)
        self._busy = True
        self._next_at = self._loop.time() + _PACE
        entries: list[Any] = []
        self._in_slices(self._encode(together, entries), lambda: self._write(together, entries))

    def _write(self, together: list[Batch], entries: list[Any]) -> None:
        began = perf_counter()

        def done(work: asyncio.Future[list[tuple[int, bool]]]) -> None:
            self.queued -= len(entries)
            error = work.exception()
            if error is None:
                took = perf_counter() - began
                self._recovered()
                self._in_slices(self._settle(together, work.result()), lambda: folded(took))
            else:
                if self.problem is None:  # once, not for every request that fails
                    _log.error("the store cannot be written: %s", error)
                self.problem = str(error)
                fail(together, error)
                go_on()

        def folded(took: float) -> None:
            self._committed(len(entries), took)
            go_on()

        def go_on() -> None:
            self._busy = False
            self._schedule()

        self.run(self._store.append, entries).add_done_callback(done)

    def _next(self, most: int) -> list[Batch]:
        """The batches of the next commit."""
        together: list[Batch] = []
        records = 0
        while self._waiting and (not together or records + len(self._waiting[0].records) <= most):
            together.append(self._waiting.popleft())
            records += len(together[-1].records)
        return together

    def _encode(self, together: list[Batch], entries: list[Any]) -> Iterator[None]:
        """Make the entries of batches, one in each step; a batch that cannot be stored fails, without the others."""
        for batch in together[:]:
            first = len(entries)
            try:
                for new in batch.records:
                    entries.append(self._entry(new))
                    yield
            except Exception as error:
                del entries[first:]
                together.remove(batch)
                self.queued -= len(batch.records)
                fail([batch], error)

    def _recovered(self) -> None:
        if self.problem is not None:
            _log.info("the store can be written again")
        self.problem = None

    def _in_slices(self, steps: Iterator[None], then: Callable[[], None]) -> None:
        """Do the steps, with other requests between them when they take long."""
        slices = Slices()
        for _ in steps:
            if slices.over:
                self._loop.call_soon(self._in_slices, steps, then)
                return
        then()

    def _settle(self, together: list[Batch], results: list[tuple[int, bool]]) -> Iterator[None]:
        """Fold the records, one in each step, in the order of the log."""
        result = iter(results)
        for batch in together:
            settled = []
            for new in batch.records:
                settled.append(self._fold(new, *next(result)))
                yield
            if self._broken is not None:
                fail([batch], self._broken)
            elif not batch.settled.cancelled():
                batch.settled.set_result(settled)

    def _fold(self, new: NewRecord, seq: int, is_new: bool) -> Settled:
        outcome = None
        if is_new and self._broken is None:
            try:
                outcome = self._apply(seq, new.record, new.prepared)
            except Exception:
                _log.exception("record %d is in the log but not in the state", seq)
                self._broken = StoreError(f"record {seq} could not be folded; restart the service")
                self.problem = str(self._broken)
        return Settled(seq, is_new, outcome)


def fail(batches: Iterable[Batch], error: BaseException) -> None:
    """Report that batches were not written."""
    for batch in batches:
        if not batch.settled.cancelled():
            batch.settled.set_exception(error)
