"""Requests of the last minutes, from samples of the counts since the start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from driftrank.serve.monitoring.metrics import Metrics, quantile
from driftrank.wire import RecentRequests

#: seconds between two samples, and their number
_STEP, _SAMPLES = 15.0, 20
#: updates of pages last for minutes, and those that are one too many are refused
_NOT_COUNTED = "stream"


class _Sample(NamedTuple):
    """The counts at a time."""

    time: float
    requests: int
    errors: int
    rank: list[float]  #: rank requests by the buckets of their durations


class Recent:
    """Takes samples of the counts, for five minutes."""

    def __init__(self, metrics: Metrics, now: Callable[[], float] = monotonic) -> None:
        self._metrics, self._now = metrics, now
        self._samples = deque([self._sample()], maxlen=_SAMPLES + 1)

    def take(self) -> None:
        """Take a sample if it is time; to be called more often."""
        if self._now() - self._samples[-1].time >= _STEP:
            self._samples.append(self._sample())

    def requests(self) -> RecentRequests:
        """Requests since the oldest sample."""
        first, last = self._samples[0], self._sample()
        rank = [n - before for n, before in zip(last.rank, first.rank, strict=True)]
        return RecentRequests(
            round(last.time - first.time, 3), last.requests - first.requests, last.errors - first.errors,
            quantile(rank, 0.5), quantile(rank, 0.99),
        )  # fmt: skip

    def _sample(self) -> _Sample:
        total = self._metrics.total
        return _Sample(
            self._now(),
            int(total("http_requests", lambda labels: labels[0] != _NOT_COUNTED)),
            int(total("http_requests", lambda labels: labels[0] != _NOT_COUNTED and int(labels[1]) >= 500)),
            self._metrics.durations("http_request_duration_seconds", ("rank",)),
        )
