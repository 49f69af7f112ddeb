"""The traffic of rankers over time, and at a glance, from the series and the sums that the fold keeps."""

from __future__ import annotations

from typing import Literal

import numpy as np

import driftrank
from driftrank.evaluation.sequences import mixture_width
from driftrank.serve.answers.experiment import compared
from driftrank.serve.core import ServiceCore
from driftrank.serve.monitoring.metrics import DELAYS, quantile
from driftrank.serve.slices import Slices
from driftrank.serve.state.experiment import Experiment, Pair
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.series import COUNTS, DAY, HOUR, HOURS, MINUTE, MINUTES, SUMS, Periods, of_days
from driftrank.serve.state.series import ArmSeries as Folded
from driftrank.serve.times import moment
from driftrank.wire import (
    ArmOverview,
    ArmSeries,
    Clickedness,
    Delays,
    Gain,
    NodeOverview,
    Overview,
    Positions,
    RankerOverview,
    SeriesState,
    ServiceOverview,
)

#: the lengths of periods
STEPS = ("minute", "hour")
Step = Literal["minute", "hour"]
#: lists from which on a band is given, as for an experiment
_FEW = 100
_PERIODS = {"minute": (MINUTE, MINUTES), "hour": (HOUR, HOURS)}


def series_of(ranker: Ranker, step: Step, since: float | None, now: float) -> SeriesState:
    """The periods of a ranker from ``since`` on, as far as they are kept and there were any, up to the current one."""
    seconds, kept = _PERIODS[step]
    last = int(now // seconds)
    rings = {name: getattr(its, f"{step}s") for name, its in sorted(ranker.series.arms.items())}
    begun = min((ring.first for ring in rings.values()), default=last)
    first = max(last - kept + 1, begun)
    if since is not None:
        first = max(first, int(since // seconds))
    first = min(first, last)
    days = of_days(ranker.series, first * seconds // DAY, int(now // DAY))
    changes = np.zeros(last - first + 1, np.int64)
    for change in ranker.changes:
        if first <= change.time // seconds <= last:
            changes[int(change.time // seconds) - first] += 1
    return SeriesState(
        ranker.name, step, [seconds * period for period in range(first, last + 1)],
        [_of_arm(name, ring.between(first, last), ranker.planned) for name, ring in rings.items()], changes.tolist(),
        Positions(days.shown, days.explored, days.clicked), _delays(days.delays, ranker.feedback_window),
        [_gain(ranker.experiment, pair, first * seconds) for pair in ranker.experiment.pairs if pair.lists],
    )  # fmt: skip


def _of_arm(name: str, periods: Periods, planned: int) -> ArmSeries:
    counts = {column: periods.counts[:, n].tolist() for n, column in enumerate(COUNTS)}
    value = np.round(periods.sums[:, SUMS.index("value")], 6).tolist()
    mean, low, high = _bands(periods, planned)
    return ArmSeries(name, **counts, value=value, mean=mean, low=low, high=high)


def _bands(periods: Periods, planned: int) -> tuple[list[float | None], ...]:
    """Clicks per list up to the end of each period, and the ends of its confidence sequence."""
    before = dict(zip(COUNTS, periods.counts_before.tolist(), strict=True))
    so_far = {
        name: np.cumsum(periods.counts[:, COUNTS.index(name)], dtype=np.int64) + before[name]
        for name in ("feedback", "silence", "clicks")
    }
    at = SUMS.index("squares")
    squares = np.cumsum(periods.sums[:, at]) + periods.sums_before[at]
    ended = so_far["feedback"] + so_far["silence"]
    few = int(np.searchsorted(ended, _FEW))
    ended = ended[few:]
    mean = so_far["clicks"][few:] / ended
    width = np.array([mixture_width(t, planned) for t in ended.tolist()])
    half = np.sqrt(np.maximum(0.0, squares[few:] / ended - mean * mean)) * width
    ends = mean, np.maximum(0.0, mean - half), mean + half
    return tuple([None] * few + np.round(end, 6).tolist() for end in ends)


def _delays(clicks: list[int], wait: float) -> Delays:
    total = sum(clicks)
    later = total - np.cumsum(clicks)[:-1]
    cut = [round(n / total, 6) if total else None for n in later.tolist()]
    return Delays([*DELAYS], clicks, cut, wait)


def _gain(sums: Experiment, pair: Pair, since: float) -> Gain:
    found = compared(sums, pair)
    hours = [] if found.refused else [hour for hour in pair.hours if (hour.hour + 1) * HOUR > since]
    return Gain(
        pair.arm, pair.baseline, found.since, [HOUR * it.hour for it in hours], [it.lists for it in hours],
        [round(it.difference, 6) for it in hours], [round(it.difference - it.half, 6) for it in hours],
        [round(it.difference + it.half, 6) for it in hours], found.certain_since, found.refused,
        not pair.until,
    )  # fmt: skip


async def overview(
    service: ServiceCore, visible: frozenset[str] | None, known: dict[str, RankerOverview] | None = None
) -> Overview:
    """The rankers that a key has access to; None: all, and the service itself. ``known``: computed a moment ago; gets
    the others.
    """
    names = [name for name in service.ranker_names() if visible is None or name in visible]
    now, known, slices = service.now(), {} if known is None else known, Slices()
    for name in names:
        ranker = service.state.rankers.get(name)
        if name not in known and ranker is not None:  # it may have been deleted in a pause
            known[name] = _glance(ranker, now)
            if slices.over:
                await slices.pause()
    rankers = [known[name] for name in names if name in known]
    return Overview(moment(now), rankers, await _service(service) if visible is None else None)


def _glance(ranker: Ranker, now: float) -> RankerOverview:
    minute = int(now // MINUTE)
    lists_hour = lists_day = explored = 0
    arms = []
    for name, its in sorted(ranker.series.arms.items()):
        hour, day = _of_late(its, minute, 60), _of_late(its, minute, MINUTES)
        lists_hour, lists_day = lists_hour + hour["lists"], lists_day + day["lists"]
        explored += day["explored"]
        if any(day.values()):
            arms.append(ArmOverview(name, _clickedness(hour), _clickedness(day)))
    experiment = ranker.experiment
    return RankerOverview(
        ranker.name, ranker.spec, lists_hour, lists_day, arms,
        [compared(experiment, pair) for pair in experiment.pairs if pair.lists and not pair.until],
        sum(change.time > now - DAY for change in ranker.changes), len(ranker.waiting),
        round(explored / lists_day, 6) if lists_day else None,
    )  # fmt: skip


def _of_late(its: Folded, minute: int, periods: int) -> dict[str, int]:
    total = its.minutes.between(minute - periods + 1, minute).counts.sum(0, dtype=np.int64)
    return dict(zip(COUNTS, total.tolist(), strict=True))


def _clickedness(counts: dict[str, int]) -> Clickedness:
    lists, clicked = counts["feedback"] + counts["silence"], counts["clicked"]
    if not lists:
        return Clickedness(0, 0, 0)
    return Clickedness(lists, clicked, counts["clicks"], round(clicked / lists, 6))


async def _service(service: ServiceCore) -> ServiceOverview:
    metrics, (size, nodes) = service.metrics, await service.store_use()
    rank = metrics.durations("http_request_duration_seconds", ("rank",))
    return ServiceOverview(
        driftrank.__version__, int(metrics.total("http_requests", lambda labels: True)),
        int(metrics.total("http_requests", lambda labels: int(labels[1]) >= 500)), size,
        service.state.queries.nbytes, _resident(), quantile(rank, 0.5), quantile(rank, 0.99), service.problem,
        [NodeOverview(*node) for node in nodes], service.maintenance.recent.requests(),
    )  # fmt: skip


def _resident() -> int | None:
    """The memory of this process; None where it cannot be read."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next((1024 * int(line.split()[1]) for line in file if line.startswith("VmRSS:")), None)
    except OSError:
        return None
