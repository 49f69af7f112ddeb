"""From sums to estimates: intervals, reasons to refuse, grades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftrank.evaluation.base import Estimator, Floats
from driftrank.evaluation.checks import LogChecks, Refusal
from driftrank.evaluation.empirical_bernstein import empirical_bernstein_low
from driftrank.evaluation.sequences import BUCKETS, CLICKS, LEAST_BUCKETS, PLANNED, mixture_width
from driftrank.evaluation.special import t_quantile
from driftrank.evaluation.sums import Replicates, Scope

#: kinds of intervals: for one look, for looks at any time, and for one look without assumptions about sizes
INTERVALS = ("normal", "always-valid", "empirical-bernstein")

#: effective lists below which there is no normal interval, and none at all
ENOUGH, LEAST = 100, 30
#: the largest share of all weights that one list may have
_LARGEST = 0.05
#: limits of the mean weight, which is 1
_LOW, _HIGH = 0.8, 1.25


@dataclass(frozen=True)
class Estimate:
    """An estimate of the value of a target, or the reasons for which there is none."""

    estimator: str
    assumes: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    interval: str | None = None  #: the kind of the interval; after "model, ", if it holds only if the model does
    error: float | None = None  #: the standard error
    grade: str | None = None  #: B: by lists that were shown; C: by a click model that passed its checks
    lists: int = 0
    effective: float = 0.0  #: lists, by their weights
    mean_weight: float | None = None
    refused: tuple[Refusal, ...] = ()
    bounds: tuple[float, float] | None = None  #: by the click model, if items are hardly known
    chosen: str | None = None  #: the estimator that was chosen, of "auto": there is no interval
    left_to_model: float | None = None  #: mean weight that was left out, if weights are clipped: there is no interval
    #: for intervals of differences; None if there is too little evidence for them
    replicates: Replicates | None = field(default=None, repr=False, compare=False)

    @property
    def condition(self) -> str:
        """Beside the interval: the condition under which it holds, if that is not what the grade B means."""
        return " if the model holds" if self.assumes == "A3" and self.low is not None else ""

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "estimator": self.estimator, "assumes": self.assumes, "value": self.value, "low": self.low,
            "high": self.high, "interval": self.interval, "grade": self.grade, "lists": self.lists,
            "effective_lists": round(self.effective, 1), "mean_weight": self.mean_weight,
            "refused": [refusal.to_dict() for refusal in self.refused],
        }  # fmt: skip
        if self.bounds is not None:
            out["bounds"] = list(self.bounds)
        if self.chosen is not None:
            out["chosen"] = self.chosen
        if self.left_to_model is not None:
            out["left_to_model"] = self.left_to_model
        return out


@dataclass(frozen=True)
class Model:
    """The fit of the click model, as far as a target depends on it."""

    variance: float  #: of the value
    rare: float  #: share of lists with an item that has fewer than 100 looks
    bounds: tuple[float, float]


@dataclass(frozen=True)
class How:
    """The interval to give, its level, and the range of values."""

    level: float = 0.95
    interval: str = "normal"
    objective: str = "any"
    decays: bool = False  #: True if old lists count less
    planned: int = PLANNED  #: lists at which sequences are narrowest


def estimate(
    scope: Scope, estimator: Estimator, checks: LogChecks, how: How, model: Model, queries: Sequence[str] = ()
) -> Estimate:
    """The estimate over a scope; ``queries`` are those with the worst overlap, for the message."""
    about: dict[str, Any] = {"estimator": estimator.key, "assumes": estimator.assumes, "lists": round(scope.lists)}
    refused = checks.refusals(estimator.assumes)
    if not scope.lists:
        return Estimate(**about, refused=(*refused, few(0, 0.0, 0.0)))
    if scope.buckets() < LEAST_BUCKETS:
        refused.append(few_users(scope))
    if not estimator.weighs:
        return _by_model(scope, estimator, refused, how, model, about)
    if any(refusal.code in ("no-propensities", "marginal-propensities", "list-propensities") for refusal in refused):
        return Estimate(**about, refused=tuple(refused))  # nothing else can be computed
    whole = _by_whole_lists(estimator)
    weights, effective, largest = scope.weights(whole), scope.effective(whole), scope.dominance(whole)
    about |= {"effective": effective, "mean_weight": weights.value}
    refused += overlap(weights, queries)
    found = scope.replicates(estimator)
    clicks = effective * _rarer(found.value, how)
    thin = effective < ENOUGH or largest > _LARGEST or not clicks >= CLICKS
    # rewards times weights that are added up
    bounded = not whole and how.objective == "any" and not how.decays
    if thin and not (bounded and effective >= LEAST and how.interval != "always-valid"):
        refused.append(few(scope.lists, effective, largest, clicks))
    if refused:
        return Estimate(**about, refused=tuple(refused))
    if not math.isfinite(found.error):  # no list is left that tells of the last positions
        return Estimate(**about, refused=(few(scope.lists, effective, largest),))
    if estimator.clipped:
        left = float(scope.columns[estimator.name][..., 1].sum() / scope.lists)
        return Estimate(**about, value=float(np.clip(found.value, 0, 1)), error=found.error, left_to_model=left)
    kind = "empirical-bernstein" if thin else how.interval
    if kind == "empirical-bernstein" and not bounded:
        kind = "always-valid"
    if kind == "empirical-bernstein":
        low, high = _bernstein(scope, 1 - how.level)
    else:
        low, high = interval(found, scope.lists, kind, how)
    ends = _clipped((found.value, low, high), how)
    trusted = None if thin else found
    return Estimate(**about, **ends, interval=kind, error=found.error, grade="B", replicates=trusted)


def _by_whole_lists(estimator: Estimator) -> bool:
    """True if its weights are those of whole lists, and not down to the first click."""
    return estimator.places or estimator.assumes == "A0"


def interval(found: Replicates, lists: float, kind: str, how: How) -> tuple[float, float]:
    """The interval from values that leave out one bucket of users each."""
    half = found.error * _errors(found, lists, kind, how)
    return found.value - half, found.value + half


def _errors(found: Replicates, lists: float, kind: str, how: How) -> float:
    """The half-width of an interval, or of a confidence sequence, in standard errors."""
    if kind == "normal":
        return t_quantile(how.level, max(found.freedom, 1))
    # rows of the standard deviation error * sqrt(lists) would have the same error
    return math.sqrt(lists) * mixture_width(round(lists), how.planned, 1 - how.level)


def overlap(weights: Replicates, queries: Sequence[str] = ()) -> list[Refusal]:
    """Reasons to refuse by the mean weight, which is 1 if the target's lists were shown as often as stated."""
    off = weights.value - 1
    far = not _LOW <= weights.value <= _HIGH
    if not far and not abs(off) > 3 * weights.error:
        return []
    named = f" Most off: {', '.join(queries)}." if queries else ""
    text = (
        f"The weights of the target's lists have the mean {weights.value:.3f} instead of 1: lists that it shows were"
        f" not shown, or not with the probability that the log states.{named}"
    )
    return [Refusal("no-overlap", text)]


def _rarer(value: float, how: How) -> float:
    """The share of lists with a click, or of those without if they are fewer: normal intervals need some of both."""
    return min(value, 1 - value) if how.objective == "any" else value


def few(lists: float, effective: float, largest: float, clicks: float = math.nan) -> Refusal:
    """The refusal for too little evidence, with the number of lists that would do.

    ``clicks``: the effective number of lists with a click, or without if these are fewer; NaN if nothing is known.
    """
    if clicks < CLICKS and effective >= ENOUGH and largest <= _LARGEST:
        needs = math.ceil(lists * CLICKS / clicks) if clicks > 0 else None
        more = f" About {needs - round(lists):,} more lists like these would do." if needs else ""
        text = (
            f"Only {max(clicks, 0):.0f} clicks' worth of evidence ({CLICKS} are needed, and as many lists without"
            f" clicks): nearly all lists end in the same way.{more}"
        )
        return Refusal("few", text, needs)
    wanted = lists * max(ENOUGH / effective, largest / _LARGEST) if effective else None
    needs = None if wanted is None or not math.isfinite(wanted) else math.ceil(wanted)
    most = f", and one list has {largest:.0%} of all weight" if largest > _LARGEST else ""
    more = f" About {needs - round(lists):,} more lists like these would do." if needs else ""
    text = (
        f"Only {effective:.0f} lists' worth of evidence ({ENOUGH} are needed{most}): the target's lists were shown too"
        f" seldom.{more}"
    )
    return Refusal("few", text, needs)


def few_users(scope: Scope) -> Refusal:
    """The refusal for lists of too few users: they may be alike, and there is no error from so few."""
    text = (
        f"The lists are of too few users: they fill {scope.buckets()} of {BUCKETS} buckets, and {LEAST_BUCKETS} are"
        " needed for an interval."
    )
    return Refusal("few-users", text)


def _bernstein(scope: Scope, alpha: float) -> tuple[float, float]:
    low, loss = (empirical_bernstein_low(*scope.bernstein(kind), alpha / 2) for kind in ("gains", "losses"))
    return low, 1 - loss


def _clipped(values: tuple[float, float, float], how: How) -> dict[str, Any]:
    """Value and ends; a probability stays within 0 and 1, and the value within its interval."""
    value, low, high = (float(x) for x in (np.clip(values, 0, 1) if how.objective == "any" else values))
    return {"value": min(max(value, low), high), "low": low, "high": high}


def _by_model(
    scope: Scope, estimator: Estimator, refused: list[Refusal], how: How, model: Model, about: dict[str, Any]
) -> Estimate:
    if model.rare > 0.05:
        text = (
            f"{model.rare:.0%} of the target's lists hold an item with fewer than 100 looks since the last change: the"
            f" click model says {model.bounds[0]:.3f} to {model.bounds[1]:.3f}."
        )
        refused = [*refused, Refusal("unseen-items", text)]
    if refused:
        bounds = model.bounds if model.rare > 0.05 else None
        return Estimate(**about, refused=tuple(refused), grade="D", bounds=bounds)
    found = scope.replicates(estimator)
    error = math.sqrt(found.error**2 + model.variance)
    clicks = (_rarer(found.value, how) / error) ** 2 if error else 0.0  # as if counted: their error is their root
    if not clicks >= CLICKS:
        return Estimate(**about, refused=(few(scope.lists, math.inf, 0.0, clicks),), grade="D")
    kind = "normal" if how.interval == "normal" else "always-valid"
    half = error * _errors(found, scope.lists, kind, how)
    ends = _clipped((found.value, found.value - half, found.value + half), how)
    return Estimate(**about, **ends, interval=f"model, {kind}", error=error, grade="C", replicates=found)


def _enough(scope: Scope, estimator: Estimator, window: slice, how: How) -> bool:
    """True if a normal interval may be given in some windows."""
    if scope.buckets(window) < LEAST_BUCKETS or not estimator.weighs:
        return scope.buckets(window) >= LEAST_BUCKETS
    effective = scope.effective(_by_whole_lists(estimator), window)
    return effective >= ENOUGH and effective * _rarer(scope.replicates(estimator, window).value, how) >= CLICKS


def window_values(scope: Scope, estimator: Estimator, how: How) -> Floats:
    """(window, 3) value and ends of each window by itself; NaN for windows with fewer than 100 effective lists, or of
    too few users.
    """
    rows = np.full((len(scope.common["lists"]), 3), np.nan)
    for n in range(len(rows)):
        window = slice(n, n + 1)
        if _enough(scope, estimator, window, how):
            found = scope.replicates(estimator, window)
            rows[n] = found.value, *interval(found, float(scope.common["lists"][n].sum()), "normal", how)
    return rows


def running_values(scope: Scope, estimator: Estimator, how: How) -> Floats:
    """(looks, 4) after each window with lists: their number, the value so far, and the ends of the confidence sequence.

    Looks before an effective size of 100 are left out.
    """
    rows = []
    for window in scope.running():
        if not _enough(scope, estimator, window, how):
            continue
        lists = float(scope.common["lists"][window].sum())
        found = scope.replicates(estimator, window)
        rows.append((lists, found.value, *interval(found, lists, "always-valid", how)))
    return np.array(rows).reshape(-1, 4)
