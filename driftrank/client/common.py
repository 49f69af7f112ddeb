"""What both clients are made of."""

from __future__ import annotations

import os
import weakref
from collections import Counter

from driftrank.client.connection import http_options
from driftrank.client.outbox import Outbox
from driftrank.client.retrying import Rules
from driftrank.client.tally import Tally


class Common:
    """A connection to a ranking service.

    Parameters
    ----------
    url, key
        Where the service listens, and the key that opens it where it wants one.
    ranker
        The ranker that ranks.
    timeout, retries, deadline
        Seconds for one attempt, attempts after the first, and seconds for a call with all its attempts. What cannot be
        sent, is not answered in time, or is answered by 429, 502, 503 or 504 is tried again, after a wait that doubles
        (or as long as the service says). A call may be repeated without harm: it carries an event id.
    batch, flush_seconds, queue
        Feedback is sent in the background, ``batch`` at a time or after ``flush_seconds``. While the service is away up
        to ``queue`` feedbacks wait; then the oldest are dropped, counted (``dropped``) and logged. Closing the client
        sends what is left, and so does the end of the program.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        key: str | None = None,
        ranker: str = "default",
        timeout: float = 2.0,
        retries: int = 3,
        deadline: float = 10.0,
        batch: int = 100,
        flush_seconds: float = 1.0,
        queue: int = 10_000,
    ) -> None:
        self.name = ranker
        self._rules = Rules(timeout, retries, deadline)
        self._outbox = Outbox(batch, flush_seconds, queue)
        self._fallbacks = Tally("the baseline was shown for want of an answer")
        self._url, self._key = url, key
        self._options = http_options(url, key)
        self._flushing = 0  # so many wait until all is sent
        self._flushes = 0  # so many did so far
        self._closed = False
        self._connect()
        _clients.add(self)

    def _connect(self) -> None:
        """Make new connections."""
        raise NotImplementedError

    def _forked(self) -> None:
        """A forked process has no threads, its connections are the other's, and so is what waits to be sent."""
        if not self._closed:
            self._outbox = Outbox(self._outbox.batch, self._outbox.flush_seconds, self._outbox.room)
            self._flushing = 0
            self._connect()

    @property
    def dropped(self) -> int:
        """Feedbacks that were never counted: there was no more room for them, or the service refused them."""
        return self._outbox.dropped.count

    @property
    def waiting(self) -> int:
        """Feedbacks that are still to be sent."""
        return len(self._outbox)

    @property
    def outcomes(self) -> Counter[str]:
        """What became of feedback that was sent in the background."""
        return Counter(self._outbox.outcomes)

    @property
    def fallbacks(self) -> int:
        """Lists that the service did not give, and that were the baseline instead."""
        return self._fallbacks.count


_clients: weakref.WeakSet[Common] = weakref.WeakSet()


def _renew() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
