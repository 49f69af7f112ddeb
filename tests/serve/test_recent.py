"""Requests of the last minutes: an outage after a long run shows at once, and a burst is over after five minutes."""

from __future__ import annotations

import pytest

from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.monitoring.recent import Recent
from tests.serve.harness import Clock


class Traffic:
    """Requests, a second at a time."""

    def __init__(self) -> None:
        self.clock, self.metrics = Clock(), Metrics()
        self.recent = Recent(self.metrics, self.clock)

    def run(self, seconds: int, status: int = 200, took: float = 0.002, label: str = "rank") -> None:
        for _ in range(seconds):
            self.metrics.add("http_requests", (label, status), 10)
            for _ in range(10):
                self.metrics.observe("http_request_duration_seconds", (label,), took)
            self.clock.now += 1
            self.recent.take()

    @property
    def failed(self) -> float:
        found = self.recent.requests()
        return found.errors / found.requests


def test_an_outage_after_a_long_run_shows_at_once() -> None:
    traffic = Traffic()
    traffic.run(10_000)
    assert traffic.failed == 0
    traffic.run(20, status=503)
    assert traffic.failed > 0.05


def test_a_burst_of_errors_is_over_after_five_minutes() -> None:
    traffic = Traffic()
    traffic.run(30, status=500, took=2.0)
    assert traffic.failed == 1
    slow = traffic.recent.requests()
    assert slow.rank_p50 is not None
    assert slow.rank_p50 > 1
    traffic.run(330)
    found = traffic.recent.requests()
    assert (found.errors, found.seconds) == (0, pytest.approx(300, abs=16))
    assert found.rank_p99 is not None
    assert found.rank_p99 < 0.003


def test_updates_of_pages_that_are_refused_are_no_failed_requests() -> None:
    traffic = Traffic()
    traffic.run(30, status=503, label="stream")
    found = traffic.recent.requests()
    assert (found.requests, found.errors, found.rank_p50) == (0, 0, None)
