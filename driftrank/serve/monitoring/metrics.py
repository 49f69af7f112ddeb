"""Metrics, for Prometheus.

Counting happens with every request, so it is an addition in a dictionary; Prometheus' own objects are made from it at a
scrape. All counting is done in the event loop's thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

import driftrank

#: the values of labels, such as ("default", "live")
Labels = tuple[str | int, ...]
#: the value of a gauge: a number, or one for each combination of its labels
Reading = float | Mapping[Labels, float]

#: seconds; requests take tenths of a millisecond, or seconds if something is wrong
_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


#: seconds from a ranking to its click
DELAYS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 300.0, 600.0, 1800.0, 3600.0, 10800.0, 43200.0, 86400.0, 259200.0)
#: positions with labels of their own
POSITIONS = 20


class Family(NamedTuple):
    """The description and the labels of a metric, and the upper bounds of a histogram."""

    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = _BUCKETS


def position_label(position: int) -> str:
    """The label of a position: rankings may have hundreds of them, and every label costs memory.

    >>> position_label(3), position_label(300)
    ('3', '21+')
    """
    return str(position) if position <= POSITIONS else f"{POSITIONS + 1}+"


#: labels of a comparison
_COMPARED = ("ranker", "arm", "baseline")
#: by their names in Prometheus without driftrank_ and _total
COUNTERS = {
    "http_requests": Family("Requests answered, by route (rank, feedback, other) and status.", ("route", "status")),
    "lists": Family("Rankings made, by arm: live, shadow, safe, holdout, or an arm of the settings.",
                    ("ranker", "arm")),
    "ignored": Family("Requests that sent something which is not used, by what: features, context, score. The notes "
                      "of the answer say why.", ("ranker", "what")),
    "lists_degraded": Family("Baselines answered instead of rankings, as the service was starting or its store could "
                             "not be written.", ("ranker", "why")),
    "feedback": Family("Feedbacks, by outcome; malformed ones were rejected with 422.", ("ranker", "outcome")),
    "lists_finalised": Family("Rankings closed by feedback, by silence (no click), or dropped without learning.",
                              ("ranker", "arm", "how")),
    "clicks": Family("Clicks of closed rankings; divided by driftrank_lists_finalised_total, clicks per ranking.",
                     ("ranker", "arm")),
    "value": Family("Values of the clicks of closed rankings; a click without a value counts as 1.",
                    ("ranker", "arm")),
    "items_shown": Family("Items in rankings, by reason: learnt, prior, explore, pinned, baseline. The share of "
                          "explore is the cost of exploration.", ("ranker", "why")),
    "clicks_by_position": Family("Clicks of closed rankings, by position.", ("ranker", "position")),
    "explored_by_position": Family("Items shown to learn more about them, by position.", ("ranker", "position")),
    "changes_detected": Family("Changes of users' preferences that policies detected.", ("ranker",)),
    "records_appended": Family("Records appended to the log; divided by driftrank_commit_duration_seconds_count, "
                               "records per commit."),
    "records_followed": Family("Records of other services that were taken in."),
    "begun_again": Family("Times that the log was cut behind this service, which began again."),
    "store_errors": Family("Commits, reads or snapshots that failed, by kind of error.", ("kind",)),
    "replayed_records": Family("Records replayed at start-up, after the snapshots."),
    "snapshots_written": Family("Snapshots of queries written to the store."),
    "evictions": Family("Queries written to the store because the memory for learners was full."),
    "loads": Family("Queries loaded from the store."),
    "records_forgotten": Family("Records dropped from the log after their retention."),
    "connections_closed": Family("Connections closed by the server: headers too long, request too slow, answers "
                                 "unread, too many requests pipelined, too many connections.", ("why",)),
    "requests_refused": Family("Requests refused, by reason: overload, or the rate of a key.", ("why",)),
}  # fmt: skip
HISTOGRAMS = {
    "http_request_duration_seconds": Family("Time to answer a request, by route.", ("route",)),
    "click_delay_seconds": Family(
        "Time from a ranking to a click; wait should be longer than most of them.", ("ranker",), DELAYS
    ),
    "checkpoint_duration_seconds": Family("Time to write a checkpoint."),
    "event_loop_lag_seconds": Family("Time by which the event loop was late, as every request is then."),
    "commit_duration_seconds": Family("Time to store a batch of records; its count is the number of batches."),
}
GAUGES = {
    "ready": Family("1 if requests are answered, 0 during replay and while the store fails."),
    "lists_pending": Family("Rankings whose feedback window is open.", ("ranker",)),
    "state_bytes": Family("Memory of learners."),
    "shared_model_bytes": Family("Memory of shared models.", ("ranker",)),
    "resident_queries": Family("Queries whose learners are in memory."),
    "store_bytes": Family("Size of the store on disk, a few seconds ago."),
    "commit_queue_length": Family("Records waiting to be stored."),
    "connections": Family("Open connections."),
    "follow_age_seconds": Family("Time since the log was last read, if other services write to it, too."),
    "appends_in_doubt": Family("Appends whose connection was lost, so that ids had to settle their outcome."),
    "last_record": Family("The last record of the log that was taken in."),
    "keeper": Family("1 if this service ends feedback windows, takes checkpoints and forgets old records."),
    "keeper_age_seconds": Family("Time since any service was known to do so; a few seconds at most."),
    "holdout_difference": Family(
        "Clicks per ranking of the ranker's own arm less those of the holdout, after the items that both would show.",
        ("ranker",),
    ),
    "holdout_difference_low": Family("Lower end of its interval, which holds at all times.", ("ranker",)),
    "holdout_difference_high": Family("Upper end of its interval, which holds at all times.", ("ranker",)),
    "experiment_lists": Family("Rankings of an experiment that have ended, since it began.", ("ranker", "arm")),
    "experiment_clicks": Family("Clicks on these.", ("ranker", "arm")),
    "experiment_value": Family("Values of these clicks.", ("ranker", "arm")),
    "experiment_lost": Family("Rankings of an experiment that were taken back or dropped.", ("ranker", "arm")),
    "experiment_difference": Family("Clicks per ranking of an arm less those of the baseline.", _COMPARED),
    "experiment_difference_low": Family("Lower end of its interval, which holds at all times.", _COMPARED),
    "experiment_difference_high": Family("Upper end of its interval, which holds at all times.", _COMPARED),
    "replay_seconds": Family("Duration of the replay at start-up."),
}


class Metrics:
    """The counts of one server.

    >>> metrics = Metrics()
    >>> metrics.add("lists", ("default", "live"), 3)
    >>> metrics.count("lists", ("default", "live"))
    3
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {name: {} for name in COUNTERS}
        # per histogram and labels: the counts of the buckets, then the sum
        self._times: dict[str, dict[Labels, list[float]]] = {name: {} for name in HISTOGRAMS}
        self._gauges: dict[str, Callable[[], Reading]] = {}
        for name, family in COUNTERS.items():  # metrics without labels start at 0
            if not family.labels:
                self._counts[name][()] = 0
        for name, family in HISTOGRAMS.items():
            if not family.labels:
                self._times[name][()] = _empty(family.bounds)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.content_type = CONTENT_TYPE_LATEST

    def add(self, name: str, labels: Labels = (), n: float = 1) -> None:
        """Count. Labels must come from a small set, never from a client."""
        counts = self._counts[name]
        counts[labels] = counts.get(labels, 0) + n

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        """Count a duration."""
        times = self._times[name]
        cells = times.get(labels)
        if cells is None:
            cells = times[labels] = _empty(HISTOGRAMS[name].bounds)
        cells[bisect_left(HISTOGRAMS[name].bounds, seconds)] += 1
        cells[-1] += seconds

    def gauge(self, name: str, read: Callable[[], Reading]) -> None:
        """Set the function that reads a gauge at every scrape."""
        if name not in GAUGES:
            raise KeyError(name)
        self._gauges[name] = read

    def count(self, name: str, labels: Labels = ()) -> float:
        """The count so far."""
        return self._counts[name].get(labels, 0)

    def total(self, name: str, counts: Callable[[Labels], bool]) -> float:
        """The sum of the counts with these labels."""
        return sum(n for labels, n in self._counts[name].items() if counts(labels))

    def durations(self, name: str, labels: Labels) -> list[float]:
        """The counts of the buckets of a histogram, so far."""
        return (self._times[name].get(labels) or _empty(HISTOGRAMS[name].bounds))[:-1]

    def forget(self, ranker: str) -> None:
        """Drop the counts of a deleted ranker."""
        for name, family in COUNTERS.items():
            if "ranker" in family.labels:
                place = family.labels.index("ranker")
                self._counts[name] = {k: n for k, n in self._counts[name].items() if k[place] != ranker}
        self._times["click_delay_seconds"].pop((ranker,), None)

    def render(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    # -- the collector interface of the registry ---------------------------------------------------------------------

    def describe(self) -> list[Metric]:
        """Nothing: otherwise the registry would read every gauge when it is created."""
        return []

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("driftrank_info", "The running version.", labels=("version",))
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
                histogram.add_metric([*map(str, labels)], _cumulated(cells, family.bounds), cells[-1])
            yield histogram
        for name, family in GAUGES.items():
            if name in self._gauges:
                yield _read(name, family, self._gauges[name]())


def quantile(counts: Sequence[float], share: float, bounds: tuple[float, ...] = _BUCKETS) -> float | None:
    """The duration within which a share of all was, between the bounds of its bucket; None without any.

    >>> metrics = Metrics()
    >>> for seconds in (0.0002, 0.0002, 0.0002, 0.007):
    ...     metrics.observe("http_request_duration_seconds", ("rank",), seconds)
    >>> quantile(metrics.durations("http_request_duration_seconds", ("rank",)), 0.5)
    0.0002
    """
    if not (n := sum(counts)):
        return None
    so_far = 0.0
    for at, count in enumerate(counts[:-1]):
        if count and so_far + count >= share * n:
            low = bounds[at - 1] if at else 0.0
            return low + (bounds[at] - low) * (share * n - so_far) / count
        so_far += count
    return bounds[-1]


def _empty(bounds: tuple[float, ...]) -> list[float]:
    return [0] * (len(bounds) + 1) + [0.0]


def _cumulated(cells: list[float], bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    """Cumulative counts per upper bound, as Prometheus expects."""
    so_far, out = 0.0, []
    for bound, n in zip([*map(str, bounds), "+Inf"], cells[:-1], strict=True):
        so_far += n
        out.append((bound, so_far))
    return out


def _read(name: str, family: Family, reading: Reading) -> Metric:
    gauge = GaugeMetricFamily(f"driftrank_{name}", family.text, labels=family.labels)
    for labels, value in reading.items() if isinstance(reading, Mapping) else [((), reading)]:
        gauge.add_metric([*map(str, labels)], value)
    return gauge
