"""Experiments as answers and gauges: what the arms of a ranker have earned, from the sums that the fold keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Literal

from driftrank.serve.settings.ranker import OWN_MODES
from driftrank.serve.state.after_prefix import Estimate
from driftrank.serve.state.experiment import DayPair, Experiment, Pair, Sums
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state import State
from driftrank.serve.times import moment
from driftrank.wire import AfterPrefix, ArmCounts, Comparison, Day, ExperimentState, Interval

#: standard errors by which the shares of lost lists may differ
_CHANCE = 3.0
#: the probability with which users who read from the top are taken for others, at any time
_ABOVE = 0.001


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
    since, running = moment(pair.since), not pair.until
    if pair.few:
        return Comparison(pair.arm, pair.baseline, since, pair.lists, refused="few", running=running)
    arm, baseline = sums.arms[pair.arm], sums.arms[pair.baseline]
    found = pair.estimate(pair.clicks)
    if _differ((arm.lost, arm.lists), (baseline.lost, baseline.lists)):
        return Comparison(pair.arm, pair.baseline, since, pair.lists, refused="lost-feedback", running=running)
    if _differ((arm.pending, arm.lists), (baseline.pending, baseline.lists), found.half):
        return Comparison(pair.arm, pair.baseline, since, pair.lists, refused="pending", running=running)
    return Comparison(
        pair.arm, pair.baseline, since, pair.lists, _interval(found),
        _interval(pair.estimate(pair.value)) if pair.value != pair.clicks else None,
        moment(pair.certain) if pair.side else None, pair.needed(found), running=running,
        after_prefix=_after_prefix(pair),
    )  # fmt: skip


def _after_prefix(pair: Pair) -> AfterPrefix | None:
    after = pair.after
    if after is None or not after.of_own + after.of_holdout:
        return None
    differing = after.differing / (after.of_own + after.of_holdout)
    found, above = pair.after_prefix(after.below), pair.after_prefix(after.above, _ABOVE)
    if found is None or above is None:
        return AfterPrefix(differing, refused="few")
    if above.side:
        return AfterPrefix(differing, refused="not-top-down")
    return AfterPrefix(differing, _interval(found), pair.needed(found))


def _compared_on(number: int, day: DayPair, pair: Pair) -> Comparison:
    since = moment(max(pair.since, 86_400.0 * number))
    if day.few or pair.few:
        return Comparison(day.arm, day.baseline, since, day.lists, refused="few", running=not pair.until)
    return Comparison(day.arm, day.baseline, since, day.lists, _interval(day.estimate(pair)), running=not pair.until)


def _pair(sums: Experiment, day: DayPair) -> Pair | None:
    for pair in sums.pairs:
        if (pair.arm, pair.baseline) == (day.arm, day.baseline):
            return pair
    return None


def _differ(one: tuple[int, int], other: tuple[int, int], least: float = 0.0) -> bool:
    """True if lists of the arms are missing with different probabilities: then the others do not compare.

    The numbers of each are those missing and those counted; ``least`` is a difference that does not matter.
    """
    n, m = sum(one), sum(other)
    every = (one[0] + other[0]) / (n + m)
    error = math.sqrt(every * (1 - every) * (1 / n + 1 / m))
    return abs(one[0] / n - other[0] / m) > max(_CHANCE * error, least)


def _counts(arms: Mapping[str, Sums]) -> list[ArmCounts]:
    return [
        ArmCounts(
            name, its.lists, its.clicks, its.value, its.lost, its.clicks / its.lists if its.lists else None, its.pending
        )
        for name, its in sorted(arms.items())
    ]


def _interval(estimate: Estimate) -> Interval:
    difference, half, _ = estimate
    return Interval(difference, difference - half, difference + half)


def _by(sums: Experiment) -> Literal["subject", "event", "both"] | None:
    if not sums.every.lists:
        return None
    return "event" if not sums.by_subject else "subject" if sums.by_subject == sums.every.lists else "both"


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

    def of_holdout(name: str) -> Callable[[], Reading]:
        return lambda: {
            (ranker.name,): getattr(found, name)
            for ranker in state.rankers.values()
            for pair in ranker.experiment.pairs
            if pair.baseline == "holdout" and pair.arm in OWN_MODES and pair.lists and not pair.until
            if (found := compared(ranker.experiment, pair).best_known) is not None
        }

    return {
        "holdout_difference": of_holdout("difference"),
        "holdout_difference_low": of_holdout("low"),
        "holdout_difference_high": of_holdout("high"),
        **{f"experiment_{name}": of_arms(name) for name in ("lists", "clicks", "value", "lost")},
        "experiment_difference": of_comparisons("difference"),
        "experiment_difference_low": of_comparisons("low"),
        "experiment_difference_high": of_comparisons("high"),
    }
