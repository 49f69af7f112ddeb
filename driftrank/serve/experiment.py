"""Experiments as answers and gauges: what the arms of a ranker have earned, from the sums that the fold keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

from driftrank.serve.state.experiment import DayPair, Estimate, Experiment, Pair, Sums
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.wire import ArmCounts, Comparison, Day, ExperimentState, Interval

#: standard errors by which the shares of lost lists may differ
_CHANCE = 3.0


def experiment_of(ranker: Ranker) -> ExperimentState:
    """The experiment of a ranker."""
    sums = ranker.experiment
    days = [
        Day(
            datetime.fromtimestamp(number * 86_400, UTC).date().isoformat(),
            _counts(day.arms),
            [_compared_on(number, its, pair) for its in day.pairs if (pair := _pair(sums, its)) is not None],
        )
        for number, day in sorted(sums.days.items(), reverse=True)
    ]
    comparisons = [compared(sums, pair) for pair in sums.pairs if pair.lists]
    shares = ranker.split.shares if ranker.split else {}
    return ExperimentState(ranker.name, shares, _counts(sums.arms), comparisons, days, _by(sums))


def compared(sums: Experiment, pair: Pair) -> Comparison:
    """A comparison with its intervals, unless these are refused."""
    since, running = _iso(pair.since), not pair.until
    if pair.few:
        return Comparison(pair.arm, pair.baseline, since, pair.lists, refused="few", running=running)
    if _differently_lost(sums.arms[pair.arm], sums.arms[pair.baseline]):
        return Comparison(pair.arm, pair.baseline, since, pair.lists, refused="lost-feedback", running=running)
    return Comparison(
        pair.arm, pair.baseline, since, pair.lists, _interval(pair.estimate(pair.clicks)),
        _interval(pair.estimate(pair.value)) if pair.value != pair.clicks else None,
        _iso(pair.certain) if pair.side else None, pair.needed(), running=running,
    )  # fmt: skip


def _compared_on(number: int, day: DayPair, pair: Pair) -> Comparison:
    since = _iso(max(pair.since, 86_400.0 * number))
    if day.few or pair.few:
        return Comparison(day.arm, day.baseline, since, day.lists, refused="few", running=not pair.until)
    return Comparison(day.arm, day.baseline, since, day.lists, _interval(day.estimate(pair)), running=not pair.until)


def _pair(sums: Experiment, day: DayPair) -> Pair | None:
    for pair in sums.pairs:
        if (pair.arm, pair.baseline) == (day.arm, day.baseline):
            return pair
    return None


def _differently_lost(one: Sums, other: Sums) -> bool:
    """True if lists of the arms were lost with different probabilities: then the others do not compare."""
    n, m = one.lists + one.lost, other.lists + other.lost
    every = (one.lost + other.lost) / (n + m)
    error = math.sqrt(every * (1 - every) * (1 / n + 1 / m))
    return abs(one.lost / n - other.lost / m) > _CHANCE * error


def _counts(arms: Mapping[str, Sums]) -> list[ArmCounts]:
    return [
        ArmCounts(name, its.lists, its.clicks, its.value, its.lost, its.clicks / its.lists if its.lists else None)
        for name, its in sorted(arms.items())
    ]


def _interval(estimate: Estimate) -> Interval:
    difference, half, _ = estimate
    return Interval(difference, difference - half, difference + half)


def _by(sums: Experiment) -> Literal["subject", "event", "both"] | None:
    if not sums.every.lists:
        return None
    return "event" if not sums.by_subject else "subject" if sums.by_subject == sums.every.lists else "both"


def _iso(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


Reading = dict[tuple[str | int, ...], float]


def gauges(state: State) -> dict[str, Callable[[], Reading]]:
    """The gauges of all experiments, by their names."""

    def of_arms(name: str) -> Callable[[], Reading]:
        return lambda: {
            (ranker.name, arm): getattr(its, name)
            for ranker in state.rankers.values()
            for arm, its in ranker.experiment.arms.items()
        }

    def of_comparisons(name: str) -> Callable[[], Reading]:
        return lambda: {
            (ranker.name, pair.arm, pair.baseline): getattr(found.clicks, name)
            for ranker in state.rankers.values()
            for pair in ranker.experiment.pairs
            if pair.lists and not pair.until and (found := compared(ranker.experiment, pair)).clicks is not None
        }

    return {
        **{f"experiment_{name}": of_arms(name) for name in ("lists", "clicks", "value", "lost")},
        "experiment_difference": of_comparisons("difference"),
        "experiment_difference_low": of_comparisons("low"),
        "experiment_difference_high": of_comparisons("high"),
    }
