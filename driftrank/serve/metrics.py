"""What there is to measure, for Prometheus.

Counting happens with every request, so it is an addition in a dictionary; what Prometheus reads is made of it when it
asks. All counting is done in the event loop's thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

import driftrank

#: what tells counts apart, such as ("default", "live")
Labels = tuple[str | int, ...]
#: what a gauge shows: a number, or one for each combination of its labels
Reading = float | Mapping[Labels, float]

#: seconds; requests take from tenths of a millisecond to, where something is wrong, seconds
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Family(NamedTuple):
    """What is counted, and what tells the counts apart."""

    text: str
    labels: tuple[str, ...] = ()


#: their names here are those in Prometheus without driftrank_ and _total
COUNTERS = {
    "http_requests": Family("Requests answered, by route (rank, feedback, other) and status.", ("route", "status")),
    "lists": Family("Lists ranked, by what they showed: live, shadow, safe or holdout.", ("ranker", "arm")),
    "feedback": Family("Feedbacks, by what became of them; malformed ones were no feedback at all.",
                       ("ranker", "outcome")),
    "lists_finalised": Family("Lists done with: by feedback, by silence (no click), or dropped without learning.",
                              ("ranker", "arm", "how")),
    "clicks": Family("Clicks of lists done with; divided by driftrank_lists_finalised_total, clicks per list.",
                     ("ranker", "arm")),
    "items_shown": Family("Items in ranked lists, by why: learnt, explore, pinned, baseline. The share of explore is "
                          "what exploration takes.", ("ranker", "why")),
    "changes_detected": Family("Changes of users' minds that policies found.", ("ranker",)),
    "records_appended": Family("Records appended to the log; divided by driftrank_commit_duration_seconds_count, "
                               "records per commit."),
    "store_errors": Family("Commits, reads or snapshots that failed, by kind of error.", ("kind",)),
    "replayed_records": Family("Records folded again at start-up, after the snapshots."),
    "snapshots_written": Family("Snapshots of queries written to the store."),
    "evictions": Family("Queries written out because the memory for learners was full."),
    "loads": Family("Queries read back from the store."),
    "records_forgotten": Family("Records dropped from the log as their retention was over."),
}  # fmt: skip
HISTOGRAMS = {
    "http_request_duration_seconds": Family("Time to answer a request, by route.", ("route",)),
    "commit_duration_seconds": Family("Time to store a batch of records; its count is the number of batches."),
}
GAUGES = {
    "ready": Family("1 when requests are answered, 0 during replay and while the store fails."),
    "lists_pending": Family("Lists that wait for clicks.", ("ranker",)),
    "state_bytes": Family("Memory taken by learners."),
    "resident_queries": Family("Queries whose learners are in memory."),
    "store_bytes": Family("Size of the store on disk."),
    "commit_queue_length": Family("Records that wait to be stored."),
    "replay_seconds": Family("How long the replay at start-up took."),
}


class Metrics:
    """The counts of one server.

    >>> metrics = Metrics()
    >>> metrics.add("lists", ("default", "live"), 3)
    >>> metrics.count("lists", ("default", "live"))
    3
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, int]] = {name: {} for name in COUNTERS}
        # per histogram and labels: how many fell into each bucket, and their sum
        self._times: dict[str, dict[Labels, list[float]]] = {name: {} for name in HISTOGRAMS}
        self._gauges: dict[str, Callable[[], Reading]] = {}
        for name, family in COUNTERS.items():  # what has no labels is there from the start, as 0
            if not family.labels:
                self._counts[name][()] = 0
        for name, family in HISTOGRAMS.items():
            if not family.labels:
                self._times[name][()] = _empty()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.content_type = CONTENT_TYPE_LATEST

    def add(self, name: str, labels: Labels = (), n: int = 1) -> None:
        """Count. Labels must come from a small set: never from what a client writes."""
        counts = self._counts[name]
        counts[labels] = counts.get(labels, 0) + n

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Count a duration."""
        times = self._times[name]
        cells = times.get(labels)
        if cells is None:
            cells = times[labels] = _empty()
        cells[bisect_left(_BUCKETS, seconds)] += 1
        cells[-1] += seconds

    def gauge(self, name: str, read: Callable[[], Reading]) -> None:
        """Have a number read whenever Prometheus asks: one, or one per labels."""
        if name not in GAUGES:
            raise KeyError(name)
        self._gauges[name] = read

    def count(self, name: str, labels: Labels = ()) -> int:
        """What was counted so far."""
        return self._counts[name].get(labels, 0)

    def forget(self, ranker: str) -> None:
        """Drop the counts of a ranker that is no more."""
        for name, family in COUNTERS.items():
            if "ranker" in family.labels:
                place = family.labels.index("ranker")
                self._counts[name] = {k: n for k, n in self._counts[name].items() if k[place] != ranker}

    def render(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self._registry)

    # -- what the registry asks ------------------------------------------------------------------------------------

    def describe(self) -> list[Metric]:
        """Nothing: or else the registry would read every gauge when it is made."""
        return []

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("driftrank_info", "The version that runs.", labels=("version",))
        info.add_metric((driftrank.__version__,), 1)
        yield info
        for name, family in COUNTERS.items():
            counter = CounterMetricFamily(f"driftrank_{name}", family.text, labels=family.labels)
            for labels, n in sorted(self._counts[name].items()):
                counter.add_metric([*map(str, labels)], n)
            yield counter
        for name, family in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"driftrank_{name}", family.text, labels=family.labels)
            for labels, cells in sorted(self._times[name].items()):
                histogram.add_metric([*map(str, labels)], _cumulated(cells), cells[-1])
            yield histogram
        for name, family in GAUGES.items():
            if name in self._gauges:
                yield _read(name, family, self._gauges[name]())


def _empty() -> list[float]:
    return [0] * (len(_BUCKETS) + 1) + [0.0]


def _cumulated(cells: list[float]) -> list[tuple[str, float]]:
    """How many took no longer than each bound, as Prometheus has it."""
    so_far, told = 0.0, []
    for bound, n in zip([*map(str, _BUCKETS), "+Inf"], cells[:-1], strict=True):
        so_far += n
        told.append((bound, so_far))
    return told


def _read(name: str, family: Family, reading: Reading) -> Metric:
    gauge = GaugeMetricFamily(f"driftrank_{name}", family.text, labels=family.labels)
    for labels, value in reading.items() if isinstance(reading, Mapping) else [((), reading)]:
        gauge.add_metric([*map(str, labels)], value)
    return gauge
