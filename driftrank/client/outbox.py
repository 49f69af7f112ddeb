"""The queue of feedback that is sent in the background. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from ..validation import check_integer, check_number
from ..wire import FeedbackResult
from .errors import InvalidRequest, ServiceError
from .retrying import backoff
from .tally import Tally, logger


class Outbox:
    """A bounded queue: everything is kept while the service is unreachable; when it is full, the oldest is dropped.

    One sender takes a batch at a time, and reports its outcome before it takes the next.
    """

    def __init__(self, batch: int = 100, flush_seconds: float = 1.0, queue: int = 10_000) -> None:
        check_integer("batch", batch, 1)
        check_number("flush_seconds", flush_seconds, 0.0)
        check_integer("queue", queue, batch)
        self.batch = batch
        self.flush_seconds = flush_seconds
        self.capacity = queue
        self.dropped = Tally("feedback was dropped")  #: the queue was full, or the service refused them
        self.outcomes: Counter[str] = Counter()  #: of the others
        self._refused = Tally("feedback was sent, but not counted")
        self.abandoned = False  #: the client was closed before everything was sent
        self._waiting: deque[bytes] = deque()
        self._taken: list[bytes] = []
        self._failures = 0
        self._singly = 0  # so many are sent one by one, since one of them makes its batch invalid

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    @property
    def full(self) -> bool:
        """True if there is enough for a batch."""
        return len(self) >= self.batch

    def put(self, body: bytes) -> None:
        self._waiting.append(body)
        self._shorten()

    def take(self) -> list[bytes]:
        """The next batch. One that was taken before without an outcome comes first."""
        self._put_back()
        size = 1 if self._singly else self.batch
        self._taken = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
        return self._taken

    def sent(self, results: Sequence[FeedbackResult]) -> None:
        """The batch was counted."""
        self.outcomes.update(result.outcome for result in results)
        for result in results:
            if result.outcome in ("refused", "inactive", "orphan"):  # an error of the caller; sent alone, it is one
                self._refused.add(1, f"event_id={result.event_id!r}: {result.detail}")
        self._finish()

    def failed(self, error: ServiceError) -> float:
        """The batch was not counted; return the seconds to wait before the next."""
        if isinstance(error, InvalidRequest):
            if len(self._taken) > 1:
                self._singly = len(self._taken)
                self._put_back()
            else:
                self.dropped.add(1, error)
                self._finish()
            return 0.0
        self._put_back()
        wait = max(backoff(self._failures, 30.0), getattr(error, "retry_after", None) or 0.0)
        if not self._failures:
            logger.warning("feedback waits until the service is back: %s", error)
        self._failures += 1
        return wait

    def impatient(self) -> None:
        """Somebody waits: try again soon, however long the service has been unreachable."""
        self._failures = min(self._failures, 1)

    def abandon(self) -> None:
        """Drop the rest."""
        if len(self):
            self.abandoned = True
            self.dropped.add(len(self), "the client was closed before it could be sent")
            self._waiting.clear()
            self._taken = []

    def _finish(self) -> None:
        self._singly = max(0, self._singly - len(self._taken))
        self._taken = []
        self._failures = 0

    def _put_back(self) -> None:
        self._waiting.extendleft(reversed(self._taken))
        self._taken = []
        self._shorten()

    def _shorten(self) -> None:
        while len(self) > self.capacity and self._waiting:
            self._waiting.popleft()
            self._singly = max(0, self._singly - 1)
            self.dropped.add(1, "the service is unreachable and the queue is full")
