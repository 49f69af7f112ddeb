"""The queue of feedback that is sent in the background. Nothing here does I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..validation import check_integer, check_number
from ..wire import FeedbackResult
from .errors import InvalidRequest, ServiceError
from .retrying import backoff
from .tally import Tally, logger


class Queued(NamedTuple):
    """A feedback to be sent, and the route of its query."""

    body: bytes
    route: str


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
        self._waiting: deque[Queued] = deque()
        self._taken: list[Queued] = []
        self._due = 0  # so many of those waiting are the rest of a batch that was taken in part
        self._failures = 0
        self._singly = 0  # so many are sent one by one, since one of them makes its batch invalid

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    @property
    def full(self) -> bool:
        """True if there is enough for a batch, or the rest of one."""
        return len(self) >= self.batch or self._due > 0

    def put(self, body: bytes, route: str = "") -> None:
        self._waiting.append(Queued(body, route))
        self._shorten()

    def take(self, node: Callable[[str], str] = str) -> list[Queued]:
        """The part of the next batch that goes to the node of its first one, by their routes.

        What was taken before without an outcome comes first.
        """
        self._put_back()
        if not self._due:
            self._due = min(self.batch, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(self._due)]
        most = 1 if self._singly else self.batch
        rest: list[Queued] = []
        for one in batch:
            same = not self._taken or node(one.route) == node(self._taken[0].route)
            (self._taken if same and len(self._taken) < most else rest).append(one)
        self._waiting.extendleft(reversed(rest))
        self._due = len(rest)
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
            self._taken, self._due = [], 0

    def _finish(self) -> None:
        self._singly = max(0, self._singly - len(self._taken))
        self._taken = []
        self._failures = 0

    def _put_back(self) -> None:
        self._waiting.extendleft(reversed(self._taken))
        self._due += len(self._taken)
        self._taken = []
        self._shorten()

    def _shorten(self) -> None:
        while len(self) > self.capacity and self._waiting:
            self._waiting.popleft()
            self._due = max(0, self._due - 1)
            self._singly = max(0, self._singly - 1)
            self.dropped.add(1, "the service is unreachable and the queue is full")
