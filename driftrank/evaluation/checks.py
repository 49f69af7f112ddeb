"""Checks of a log: does it say what lists were shown with which probability, and do users read from the top?

Each has a code, a verdict and a sentence. A failed one refuses the estimates whose assumption it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.base import added
from driftrank.evaluation.labels import Labels
from driftrank.evaluation.special import chi_square_p, normal_quantile

if TYPE_CHECKING:
    from driftrank.evaluation.rows import LogRows

#: tests reject below this probability; there are few, and each costs an answer if it is wrong
LEVEL = 0.01
#: lists for tests that need no more
_SAMPLE = 1_000_000
_CALIBRATION = 200_000


@dataclass(frozen=True)
class Check:
    """The result of a check."""

    code: str
    passed: bool | None  #: None if it cannot be decided
    text: str
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        known = {name: None if value != value else value for name, value in self.numbers.items()}
        return {"code": self.code, "passed": self.passed, "text": self.text, **known}


@dataclass(frozen=True)
class Refusal:
    """A reason to give no number."""

    code: str
    text: str
    needs: int | None = None  #: lists that would be needed, if more lists would help

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "text": self.text, "needs": self.needs}


@dataclass(frozen=True)
class LogChecks:
    """The checks of a log."""

    checks: tuple[Check, ...]

    def __getitem__(self, code: str) -> Check:
        return next(check for check in self.checks if check.code == code)

    def refusals(self, assumes: str) -> list[Refusal]:
        """Reasons to refuse every estimate with this assumption."""
        codes = {
            "A0": ("no-propensities", "marginal-propensities", "fixed-logging", "wrong-propensities"),
            "A1": (
                "no-propensities", "marginal-propensities", "list-propensities", "fixed-logging",
                "wrong-propensities", "not-top-down",
            ),
            "A2": ("no-propensities", "list-propensities", "fixed-logging", "wrong-propensities", "not-by-position"),
            "A3": ("model-misfit", "uncalibrated"),
        }[assumes]  # fmt: skip
        # a model that cannot be tested is as good as a wrong one
        bad = [c for c in self.checks if c.code in codes and (c.passed is False or (assumes == "A3" and not c.passed))]
        return [Refusal(check.code, check.text) for check in bad]


def check_log(rows: LogRows, apart: Mapping[str, int] | None = None) -> LogChecks:
    """Run all checks of a log; ``apart`` are lists that were left out, by reason."""
    labels = rows.labels
    shown = _shown(rows)
    found = [_propensities(rows, shown), *_kind(rows.kind), _fixed(rows, shown)]
    if rows.weighs and rows.kind != "list":
        found.append(_wrong_propensities(labels, rows))
    if rows.places:
        found.append(_by_position(rows))
    found += [_top_down(rows), _misfit(labels), _calibration(rows), _users(rows), _candidates(rows)]
    if apart:
        parts = ", ".join(f"{reason}: {count:,}" for reason, count in apart.items())
        found.append(Check("left-out", None, f"Left out, and not part of any value: {parts}.", {"lists": dict(apart)}))
    return LogChecks(tuple(found))


# -- the lists that were shown -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shown:
    single: float  #: share of lists in cells that hold one ranking, of those that could hold several
    decided: int  #: lists in these cells
    invalid: int  #: lists without valid propensities


def _shown(rows: LogRows) -> _Shown:
    """Rankings by query and slice of time; a cell has fifty lists on average, and a query at most a hundred cells."""
    slices = int(np.clip(rows.lists / len(rows.queries) / 50, 1, 100))
    bad = (
        "propensities IS NULL OR len(propensities) < shown OR NOT coalesce(list_min(propensities[1:shown]) > 0"
        " AND list_max(propensities[1:shown]) <= 1 + 1e-9, false)"
    )
    lists = (
        f"SELECT code, {rows.slice_of_time(slices)} AS slice, hash(ranking[1:{rows.k}]) AS h,"
        " CASE WHEN list_max(clicks) > len(ranking) OR list_min(clicks) < 1 THEN 1 ELSE 0 END AS wrong,"
        f" CASE WHEN {bad} THEN 1 ELSE 0 END AS invalid FROM ({rows.rows()})"
    )
    counts = {
        "n": "count(*)", "low": "min(h)", "high": "max(h)", "invalid": "sum(invalid)", "wrong": "sum(wrong)",
    }  # fmt: skip
    with rows.scan.grouped(lists, ("code", "slice"), counts) as groups:
        got = rows.connection.execute(f"SELECT n, low = high AS single, invalid, wrong FROM {groups}").fetchnumpy()
    if np.asarray(got["wrong"]).sum():
        raise ValueError(f"{rows.log.source}: a click beyond the end of its list; see driftrank log check")
    n, single = np.asarray(got["n"], float), np.asarray(got["single"], bool)
    several = n > 1
    decided = n[several].sum()
    share = float(n[several & single].sum() / decided) if decided else math.nan
    return _Shown(share, int(decided), int(np.asarray(got["invalid"]).sum()))


def _propensities(rows: LogRows, shown: _Shown) -> Check:
    if not rows.weighs or shown.invalid == rows.lists:
        text = (
            "This log does not say with what probability lists were shown, so nobody can tell from it alone what other"
            " lists would have earned."
        )
        return Check("no-propensities", False, text, {"missing": 1.0})
    share = shown.invalid / rows.lists
    if share > 0.01:
        text = f"{share:.1%} of the lists have no valid propensities; at most 1% may be left out."
        return Check("no-propensities", False, text, {"missing": share})
    left = f"; {shown.invalid:,} lists without are left out" if shown.invalid else ""
    return Check("no-propensities", True, f"Lists have propensities{left}.", {"missing": share})


def _kind(kind: str) -> list[Check]:
    """The kind of propensities, if it is not conditional."""
    if kind == "marginal":
        text = (
            "The propensities are those of an item at its position, whatever stands above it; weights of lists need"
            " those given the items above. If clicks depend on the item and its position only, the estimator"
            " 'item-position' needs no more."
        )
        return [Check("marginal-propensities", False, text)]
    if kind == "list":
        text = "The propensities are those of whole lists: prefixes have none. Whole lists can be compared."
        return [Check("list-propensities", False, text)]
    return []


def _fixed(rows: LogRows, shown: _Shown) -> Check:
    labels = rows.labels
    certain = rows.weighs and bool(np.nansum(labels.inverse) <= labels.shown.sum() * (1 + 1e-9))
    same = math.isfinite(shown.single) and shown.single >= 0.95
    numbers = {"single": shown.single}
    if not same and not certain:
        text = f"{1 - shown.single:.0%} of the lists are of queries whose list varied at the time."
        return Check("fixed-logging", None if math.isnan(shown.single) else True, text, numbers)
    if same:
        code = int(np.argmax(rows.lists_of))
        text = (
            f"Every visitor for {rows.queries[code]!r} saw the same list: clicks on it tell nothing of lists that were"
            " not shown."
        )
        if shown.single < 1:
            text = (
                f"{shown.single:.0%} of the visitors saw the same list as the others for their query at the time:"
                " clicks on it tell nothing of lists that were not shown."
            )
    else:
        text = (
            "All propensities are 1, as of lists that were not drawn: what differs between them was chosen for another"
            " reason, so one list's users say nothing of another's."
        )
    return Check("fixed-logging", False, text, numbers)


def _wrong_propensities(labels: Labels, rows: LogRows) -> Check:
    """By segment, position and item: lists with the item there, weighted by 1 / propensity, against the lists in which
    it could have stood there. The ratio is 1; an item that is not always a candidate has a smaller one, and wrong
    propensities give some item a larger one.
    """
    begin, segments = labels.start[:-1], len(labels.start) - 1
    lists = np.add.reduceat(labels.shown, begin, axis=0) if segments else np.zeros((0, rows.k))
    above = 0.0 if rows.places else np.cumsum(labels.shown, axis=1) - labels.shown
    expected = lists[labels.segment_of] - above
    whole = (lists == lists[:, :1]).all(axis=1)[labels.segment_of]  # otherwise lists above k may be too short for k
    usable = (labels.shown >= 50) & (expected > 0)
    usable[:, 1:] &= whole[:, None]
    count = int(usable.sum())
    if not count:
        return Check("wrong-propensities", None, "No item stands at a position often enough to test propensities.")
    inverse, wanted = labels.inverse[usable], expected[usable]
    error = np.sqrt(np.maximum(labels.squares[usable] - inverse**2 / wanted, 1e-12))
    z, ratio = (inverse - wanted) / error, inverse / wanted
    bad = (z > normal_quantile(1 - 2 * 0.001 / count)) & (ratio > 1.1)
    numbers = {"largest_ratio": float(ratio.max()), "tested": count}
    if not bad.any():
        return Check("wrong-propensities", True, "Items stand as often at each position as propensities say.", numbers)
    worst = float(ratio[bad].max())
    position = int(np.nonzero(usable)[1][bad][ratio[bad].argmax()]) + 1
    text = (
        f"An item stands at position {position} {worst:.1f} times as often as the log says it should. Are these the"
        " propensities of another policy, or marginal ones?"
    )
    return Check("wrong-propensities", False, text, numbers)


# -- users ---------------------------------------------------------------------------------------------------------


def _top_down(rows: LogRows) -> Check:
    """Given an item and no click above: does its click depend on the item below it?"""
    code = "not-top-down"
    if rows.k == 1:
        return Check(code, None, "Lists of one item cannot show whether users read from the top.")
    parts = [
        f"SELECT {k} AS k, segment, ranking[{k}] AS item, ranking[{k + 1}] AS other, CAST(first = {k} AS INTEGER) AS c"
        f" FROM sampled WHERE shown > {k} AND first >= {k}"
        for k in range(1, min(rows.k, 4))
    ]
    p = _dependence(rows, parts)
    if math.isnan(p):
        return Check(code, None, "Lists vary too little to show whether users read from the top.")
    if p >= LEVEL:
        return Check(code, True, "Clicks do not depend on the item below.", {"p": p})
    text = (
        "Clicks depend on what stands below: users do not read from the top. Methods by prefix are off; whole lists are"
        " compared instead, and the interval is wide."
    )
    return Check(code, False, text, {"p": p})


def _by_position(rows: LogRows) -> Check:
    """Given an item at a position: does its click depend on the item above it?"""
    code = "not-by-position"
    if rows.k == 1:
        return Check(code, None, "Lists of one item cannot show whether clicks depend on the items above.")
    click = "list_contains(clicks, {k})" if rows.objective == "clicks" else "first = {k}"
    parts = [
        f"SELECT {k} AS k, segment, ranking[{k}] AS item, ranking[{k - 1}] AS other,"
        f" CAST({click.format(k=k)} AS INTEGER) AS c FROM sampled WHERE shown >= {k}"
        for k in range(2, min(rows.k, 4) + 1)
    ]
    p = _dependence(rows, parts)
    if math.isnan(p):
        return Check(code, None, "Lists vary too little to show whether clicks depend on the items above.")
    if p >= LEVEL:
        return Check(code, True, "Clicks do not depend on the item above.", {"p": p})
    text = "Clicks depend on what stands above, and not on the item and its position only."
    return Check(code, False, text, {"p": p})


def _dependence(rows: LogRows, parts: Sequence[str]) -> float:
    """The p-value of clicks that do not depend on another item of the list; NaN if lists vary too little.

    ``parts`` select, for a position each: k, segment, item, other, c (1 for a click).
    """
    kept = max(1, min(rows.cells.buckets, round(rows.cells.buckets * _SAMPLE / rows.lists)))
    pairs = (
        f"WITH sampled AS MATERIALIZED (SELECT segment, ranking, clicks, shown, first FROM ({rows.rows()})"
        f" WHERE bucket < {kept}) {' UNION ALL '.join(parts)}"
    )
    with rows.scan.grouped(pairs, ("k", "segment", "item", "other"), {"n": "count(*)", "clicks": "sum(c)"}) as groups:
        got = rows.connection.execute(
            f"SELECT k, dense_rank() OVER (ORDER BY k, segment, item) AS stratum, n, clicks FROM {groups}"
        ).fetchnumpy()
    k, stratum, n, clicks = (np.asarray(got[name]) for name in ("k", "stratum", "n", "clicks"))
    tests = [homogeneity(stratum[k == at], n[k == at], clicks[k == at]) for at in np.unique(k)]
    p = [test for test in tests if not math.isnan(test)]
    return min(1.0, min(p) * len(p)) if p else math.nan  # the first step of Holm's


def _misfit(labels: Labels) -> Check:
    """Given that it is read, is an item as attractive further down?"""
    looks, clicks = labels.looks.sum(axis=0), labels.clicks.sum(axis=0)
    stratum = np.broadcast_to(np.arange(len(looks))[:, None], looks.shape)
    some = looks > 0
    p = homogeneity(stratum[some], looks[some], clicks[some])
    if math.isnan(p):
        return Check("model-misfit", None, "Items stand at one position each: the click model cannot be tested.")
    if p >= LEVEL:
        return Check("model-misfit", True, "Items are as attractive at every position (cascade model).", {"p": p})
    text = "An item that is read is clicked more at some positions than at others: the cascade model does not hold."
    return Check("model-misfit", False, text, {"p": p})


def _calibration(rows: LogRows) -> Check:
    """The model's value of the logged lists against their clicks."""
    kept = max(1, min(rows.cells.buckets, round(rows.cells.buckets * _CALIBRATION / rows.lists)))
    known = "SELECT segment, item, sum(clicks) / sum(looks) AS alpha FROM labels GROUP BY ALL HAVING sum(looks) > 0"
    rows.scan.add("known", rows.connection.sql(known).to_arrow_table())
    apart = (
        "WITH sampled AS MATERIALIZED (SELECT row_number() OVER () AS row, segment, shown, first,"
        f" ranking[1:{rows.k}] AS ranking FROM ({rows.rows()}) WHERE bucket < {kept}), valued AS"
        " (SELECT row, product(1 - alpha) AS keep, count(*) = any_value(shown) AS complete, any_value(first) AS first"
        " FROM (SELECT row, segment, shown, first, unnest(ranking) AS item FROM sampled) JOIN known"
        " USING (segment, item) GROUP BY row)"
        f" SELECT 1 - keep - CAST(first <= {rows.k} AS INTEGER) AS d FROM valued WHERE complete"
    )
    with rows.scan.grouped(apart, (), {"n": "count(d)", "total": "sum(d)", "squares": "sum(d * d)"}) as groups:
        [(n, total, squares)] = rows.connection.execute(f"SELECT * FROM {groups}").fetchall()
    if n < 2:
        return Check("uncalibrated", None, "The click model knows no logged list whole.")
    n = int(n)
    mean = total / n
    spread = math.sqrt(max(squares - n * mean**2, 0.0) / (n - 1))
    error = spread / math.sqrt(n)
    numbers = {"off": mean, "error": error}
    if abs(mean) > 3 * error and abs(mean) > 0.002:
        text = f"The click model is off by {mean:+.4f} clicks per list on the logged lists themselves."
        return Check("uncalibrated", False, text, numbers)
    return Check("uncalibrated", True, "The click model gives the logged lists what they earned.", numbers)


def _users(rows: LogRows) -> Check:
    missing = 1 - rows.with_user / rows.lists
    numbers = {"without_user": missing}
    if missing == 0:
        text = f"Users are the unit of intervals, in {rows.cells.buckets} buckets."
        return Check("clusters", True, text, numbers)
    which = "No list names its user" if missing == 1 else f"{missing:.1%} of the lists do not name their user"
    text = f"{which}: these are taken as independent. Users who return make errors larger."
    return Check("clusters", None, text, numbers)


def _candidates(rows: LogRows) -> Check:
    if rows.with_candidates >= 0.99 * rows.lists:
        return Check("candidates", True, "Lists have their candidates.")
    which = f"{1 - rows.with_candidates / rows.lists:.1%} of the lists do" if rows.with_candidates else "The log does"
    text = f"{which} not name candidates: all items that were shown for the query are taken as theirs."
    return Check("candidates", None, text)


def homogeneity(stratum: NDArray[Any], n: NDArray[Any], clicks: NDArray[Any]) -> float:
    """The p-value of equal click rates within strata, by chi-square; NaN if nothing can be compared.

    Groups with fewer than five expected clicks, or fewer than five expected lists without, are pooled.
    """
    if not len(stratum):
        return math.nan
    _, code = np.unique(stratum, return_inverse=True)
    n, clicks = n.astype(float), clicks.astype(float)
    count = int(code.max()) + 1
    rate = added(code, clicks, count) / added(code, n, count)
    small = n * np.minimum(rate, 1 - rate)[code] < 5
    pooled_n, pooled_clicks = (added(code[small], x[small], count) for x in (n, clicks))
    code = np.concatenate([code[~small], np.arange(count)])
    n, clicks = np.concatenate([n[~small], pooled_n]), np.concatenate([clicks[~small], pooled_clicks])
    large = n * np.minimum(rate, 1 - rate)[code] >= 5
    code, n, clicks = code[large], n[large], clicks[large]
    groups = np.bincount(code, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = added(code, clicks, count) / added(code, n, count)
        terms = n * (clicks / n - rate[code]) ** 2 / (rate * (1 - rate))[code]
    usable = (groups > 1) & (rate > 0) & (rate < 1)
    return chi_square_p(float(terms[usable[code]].sum()), int((groups[usable] - 1).sum()))
