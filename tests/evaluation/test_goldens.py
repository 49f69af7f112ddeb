"""Bias, root mean square error and cover of the 95% intervals over many logs of the world of six items, next to those
of an independent program.

The figures are of 400 logs of 5,000 lists; 80 logs here, so errors have an error of 8%, and cover one of .024.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from driftrank.evaluation.base import Batch, known_estimators, prefix_weights, target_rest
from driftrank.evaluation.cells import Cells
from driftrank.evaluation.checks import homogeneity
from driftrank.evaluation.estimate import How, interval
from driftrank.evaluation.labels import PRIOR
from driftrank.evaluation.sequences import BUCKETS
from driftrank.evaluation.slope import CANDIDATES, slope
from driftrank.evaluation.streaming import Sequence
from driftrank.evaluation.sums import Scope, Sums
from tests.evaluation.worlds import (
    ALPHA,
    BEST,
    CHANGED,
    LISTS,
    QUERIES,
    SHARES,
    Drawn,
    K,
    L,
    Users,
    cascade,
    choice,
    conditional,
    draw,
    fixed,
    marginal,
    mixed,
    softmax,
    tenth,
    uniform,
    value,
)

LOGS, N = 80, 5000
#: cover and half-width of 2,000 logs of uniform lists, by their number; of 20,000 lists 500 logs
BY_LISTS = {
    250: {"list": (0.749, 0.913), "prefix": (0.832, 0.432), "dr": (0.952, 0.358)},
    1000: {"list": (0.906, 0.530), "prefix": (0.883, 0.246), "dr": (0.940, 0.199)},
    2000: {"list": (0.947, 0.379), "prefix": (0.908, 0.178), "product-limit": (0.876, 0.140), "dr": (0.939, 0.143)},
    5000: {"list": (0.945, 0.242), "prefix": (0.928, 0.114), "product-limit": (0.923, 0.092), "dr": (0.943, 0.092)},
    20_000: {"list": (0.948, 0.121), "prefix": (0.926, 0.058), "product-limit": (0.934, 0.046), "dr": (0.942, 0.046)},
}  # fmt: skip
#: effective lists of the first one, two, three items and down to the first click, and the half-width of the empirical
#: Bernstein mixture, which held in all logs
BY_ROWS = {
    250: (42, 8, 2, 8, 0.496), 1000: (167, 34, 8, 18, 0.428), 2000: (333, 67, 17, 34, 0.365),
    5000: (833, 167, 42, 83, 0.299), 20_000: (3328, 665, 166, 332, 0.170),
}  # fmt: skip
#: the value .6195 of a softmax target of temperature .08, by the doubly robust estimator: error, cover
SOFTMAX = [(uniform, 0.018, 0.958), (softmax, 0.008, 0.950), (tenth, 0.057, 0.940)]
#: shares of logs in which a test rejects at 5%: the click at 1 by the item at 2, the label by the position, and the
#: contrasts list = prefix, prefix = direct, mean weight of whole lists = 1
REJECTED = [
    (cascade, uniform, 5000, (0.043, 0.052, 0.070, 0.052, 0.048)),
    (cascade, uniform, 20_000, (0.043, 0.060, 0.050, 0.058, 0.052)),
    (cascade, softmax, 5000, (0.102, 0.072, 0.037, 0.037, 0.058)),
    (cascade, softmax, 20_000, (0.068, 0.035, 0.062, 0.045, 0.045)),
    (mixed, uniform, 5000, (0.043, 0.460, 0.080, 0.182, 0.048)),
    (mixed, uniform, 20_000, (0.043, 1.0, 0.050, 0.323, 0.052)),
    (mixed, softmax, 5000, (0.102, 0.985, 0.050, 0.225, 0.058)),
    (mixed, softmax, 20_000, (0.068, 1.0, 0.058, 0.665, 0.045)),
    (choice, uniform, 5000, (0.140, 0.990, 0.128, 0.058, 0.048)),
    (choice, uniform, 20_000, (0.560, 1.0, 0.205, 0.080, 0.052)),
    (choice, softmax, 5000, (0.155, 1.0, 0.160, 0.212, 0.058)),
    (choice, softmax, 20_000, (0.385, 1.0, 0.502, 0.660, 0.045)),
]
TARGET = np.array([BEST[query] for query in QUERIES])


def batch(drawn: Drawn, logging: Callable[[int], np.ndarray] | None = None) -> Batch:
    """The rows of the best lists, with hazards from every other row; with ``logging`` also for those by position."""
    items, N = LISTS[drawn.number], len(drawn.first)
    read = drawn.first[:, None] >= np.arange(1, K + 1)
    clicked = drawn.first[:, None] == np.arange(1, K + 1)
    cell = (np.arange(N) % 2)[:, None] * 2 * L + drawn.query[:, None] * L + items
    looks, clicks = (np.bincount(cell[read], x[read], 4 * L).reshape(2, 2, L) for x in (np.ones((N, K)), clicked))
    alpha = (clicks[::-1] + PRIOR[0]) / (looks[::-1] + PRIOR[1])  # of the other half
    wanted = TARGET[drawn.query]
    hazard = alpha[(np.arange(N) % 2)[:, None], drawn.query[:, None], wanted]
    matched = np.cumprod(items == wanted, axis=1).sum(axis=1)
    weight = prefix_weights(matched, np.full(N, K), drawn.propensities)
    pooled = clicks.sum(axis=0) / np.maximum(looks.sum(axis=0), 1)
    model = 1 - np.prod(1 - pooled[drawn.query[:, None], wanted], axis=1)
    cell = BUCKETS + np.arange(N) % BUCKETS  # since the last change, one window
    rest = target_rest(hazard)
    place = None if logging is None else (items == wanted) / marginal(drawn, logging)
    return Batch(drawn.first, weight, hazard, rest, model, clicked, cell=cell, query=np.zeros(N, np.int64), place=place)


def replayed(drawn: Drawn) -> tuple[float, float, float]:
    """List replay of the best lists, of all lists that are the same: not thinned to equal chances, as in the table."""
    same = (LISTS[drawn.number] == TARGET[drawn.query]).all(axis=1)
    m = int(same.sum())
    if m < 2:
        return np.nan, np.nan, np.nan
    mean = float((drawn.first[same] <= K).mean())
    half = 1.96 * np.sqrt(mean * (1 - mean) / m)
    return mean, mean - half, mean + half


def fit_error(drawn: Drawn) -> float:
    """The standard error of the click model's value that comes from its labels, by the delta method."""
    read = drawn.first[:, None] >= np.arange(1, K + 1)
    clicked = drawn.first[:, None] == np.arange(1, K + 1)
    items, total = LISTS[drawn.number], 0.0
    for q, wanted in enumerate(TARGET):
        own = drawn.query == q
        looks = np.array([(read & (items == a))[own].sum() for a in wanted])
        alpha = np.array([(clicked & (items == a))[own].sum() for a in wanted]) / looks
        slopes = own.mean() * np.array([np.prod(np.delete(1 - alpha, j)) for j in range(K)])
        total += float((slopes**2 * alpha * (1 - alpha) / looks).sum())
    return float(np.sqrt(total))


def chosen(scope: Scope, of_fit: float) -> float:
    """The value of the automatic choice."""
    found = [scope.replicates(each) for each in CANDIDATES]
    pairs = [(one.value, one.error) for one in found[:-1]] + [(found[-1].value, np.hypot(found[-1].error, of_fit))]
    return pairs[slope(pairs)][0]


#: by estimator: bias, root mean square error, cover; "auto" has no interval
Expected = dict[str, tuple[float, float, float | None]]

GOLDEN: list[tuple[Users, Callable[[int], np.ndarray], int | None, Expected]] = [
    (cascade, uniform, None, {
        "list": (0.016, 0.138, 0.938), "self-normalised": (0.005, 0.077, 0.935), "prefix": (0.002, 0.061, 0.927),
        "product-limit": (0.003, 0.048, 0.927), "published": (0.002, 0.052, 0.935), "dr": (0.003, 0.047, 0.940),
        "direct": (0.0, 0.009, 0.953), "auto": (0.0, 0.009, None),
        "item-position": (0.104, 0.107, 0.030), "replay": (0.005, 0.077, 0.935)}),
    (cascade, softmax, None, {
        "list": (-0.003, 0.036, 0.953), "self-normalised": (-0.001, 0.021, 0.960), "prefix": (-0.002, 0.020, 0.958),
        "product-limit": (0.0, 0.016, 0.960), "published": (0.0, 0.017, 0.963), "dr": (-0.001, 0.016, 0.953),
        "direct": (0.0, 0.007, 0.948), "auto": (0.0, 0.007, None),
        "item-position": (0.026, 0.031, 0.665), "replay": (-0.008, 0.022, 0.963)}),
    (cascade, tenth, None, {
        "list": (0.026, 0.418, 0.917), "prefix": (-0.001, 0.201, 0.838), "published": (-0.009, 0.169, 0.882),
        "dr": (-0.005, 0.154, 0.955), "direct": (0.0, 0.012, 0.945), "auto": (0.0, 0.014, None),
        "item-position": (0.095, 0.131, 0.865), "replay": (0.001, 0.238, 0.778)}),
    (cascade, fixed, None, {
        "list": (-0.646, 0.646, 0.0), "prefix": (-0.646, 0.646, 0.0), "published": (0.009, 0.011, 0.058),
        "dr": (0.009, 0.011, 0.058), "item-position": (-0.625, 0.625, 0.0)}),
    (cascade, uniform, N // 2, {
        "list": (-0.008, 0.111, 0.922), "prefix": (-0.008, 0.057, 0.920), "dr": (-0.005, 0.051, 0.935),
        "direct": (0.016, 0.018, 0.635), "auto": (0.016, 0.018, None)}),
    (cascade, softmax, N // 2, {
        "list": (-0.003, 0.035, 0.917), "prefix": (-0.001, 0.022, 0.927), "dr": (-0.001, 0.018, 0.940),
        "direct": (0.005, 0.009, 0.900), "auto": (0.005, 0.009, None)}),
    (mixed, uniform, None, {
        "list": (0.016, 0.131, 0.930), "prefix": (0.0, 0.051, 0.940), "dr": (0.001, 0.041, 0.970),
        "direct": (0.035, 0.036, 0.022), "auto": (0.035, 0.037, None)}),
    (mixed, softmax, None, {
        "list": (-0.003, 0.035, 0.943), "prefix": (-0.001, 0.019, 0.948), "dr": (0.0, 0.016, 0.953),
        "direct": (0.021, 0.022, 0.212), "auto": (0.020, 0.021, None)}),
    (choice, uniform, None, {
        "list": (0.015, 0.130, 0.922), "prefix": (0.053, 0.082, 0.925), "dr": (0.039, 0.063, 0.925),
        "direct": (0.029, 0.031, 0.110), "auto": (0.026, 0.029, None)}),
    (choice, softmax, None, {
        "list": (-0.003, 0.034, 0.948), "prefix": (0.025, 0.033, 0.797), "dr": (0.020, 0.027, 0.790),
        "direct": (0.002, 0.008, 0.958), "auto": (0.002, 0.008, None)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("users", "logging", "change", "expected"), GOLDEN, ids=lambda x: getattr(x, "__name__", str(x)[:4])
)
def test_bias_error_and_cover(
    users: Users, logging: Callable[[int], np.ndarray], change: int | None, expected: Expected
) -> None:
    rng = np.random.default_rng(12)
    truth = value(users) if change is None else (value(users) + value(users, CHANGED)) / 2
    estimators = known_estimators() | {each.name: each for each in CANDIDATES}
    errors: dict[str, list[float]] = {key: [] for key in expected}
    covered: dict[str, list[bool]] = {key: [] for key in expected}
    for _ in range(LOGS):
        drawn = draw(rng, N, logging, users, change)
        scope = Sums.of([batch(drawn, logging)], estimators, Cells(1), 1).scope(now=True)
        of_fit = fit_error(drawn) if "direct" in expected else np.nan
        for key in expected:
            if key == "auto":
                errors[key].append(chosen(scope, of_fit) - truth)
                continue
            if key == "replay":
                mean, low, high = replayed(drawn)
                if not np.isnan(mean):
                    errors[key].append(mean - truth)
                    covered[key].append(low < truth < high)
                continue
            found = scope.replicates(estimators[key])
            low, high = interval(found, N, "normal", How())
            if key == "direct":
                half = 1.96 * np.hypot(found.error, of_fit)
                low, high = found.value - half, found.value + half
            errors[key].append(found.value - truth)
            covered[key].append(low < truth < high)
    for key, (bias, rmse, cover) in expected.items():
        off = np.array(errors[key])
        noise = max(off.std(), 0.002)
        rounded = 0.0005
        assert off.mean() == pytest.approx(bias, abs=4 * noise * np.sqrt(1 / LOGS + 1 / 400) + rounded), key
        assert np.sqrt((off**2).mean()) == pytest.approx(rmse, rel=0.25, abs=0.002), key
        if cover is not None:
            spread = np.sqrt(max(cover * (1 - cover), 0.03) / LOGS)
            assert np.mean(covered[key]) == pytest.approx(cover, abs=0.03 + 2.5 * spread), key


def softmax_batch(drawn: Drawn, temperature: float) -> Batch:
    """The rows of a target that shows softmax lists, with hazards from every other row."""
    fixed = batch(drawn)
    items, N = LISTS[drawn.number], len(drawn.first)
    read = drawn.first[:, None] >= np.arange(1, K + 1)
    label = (np.arange(N) % 2)[:, None] * 2 * L + drawn.query[:, None] * L + items
    looks, clicks = (
        np.bincount(label[read], x[read], 4 * L).reshape(2, 2, L) for x in (np.ones((N, K)), fixed.clicked)
    )
    alpha = (clicks[::-1] + PRIOR[0]) / (looks[::-1] + PRIOR[1])
    weight, rest, hazard = np.ones((N, K + 1)), np.ones((N, K + 1)), np.zeros((N, K))
    for q in range(2):
        shown = conditional(np.exp(ALPHA[q] / temperature))
        for fold in range(2):
            own = (drawn.query == q) & (np.arange(N) % 2 == fold)
            number, h = drawn.number[own], alpha[fold, q][LISTS]
            ratio = shown[number] / drawn.propensities[own]
            weight[own, 1:] = np.cumprod(ratio, axis=1)
            hazard[own] = h[number]
            for k in range(K):  # over all ways to go on after the first k items
                same = (LISTS[:, None, :k] == LISTS[None, :, :k]).all(axis=2)
                rest[own, k] = (same @ (shown * (1 - h))[:, k:].prod(axis=1))[number]
    return dataclasses.replace(fixed, weight=weight, rest=rest, hazard=hazard)


@pytest.mark.parametrize(("logging", "rmse", "cover"), SOFTMAX, ids=lambda x: getattr(x, "__name__", ""))
def test_a_target_that_draws_its_lists(logging: Callable[[int], np.ndarray], rmse: float, cover: float) -> None:
    rng, dr = np.random.default_rng(15), known_estimators()["dr"]
    targets = [conditional(np.exp(alpha / 0.08)).prod(axis=1) for alpha in ALPHA]
    truth = sum(s * p @ cascade(a).sum(axis=1) for s, p, a in zip(SHARES, targets, ALPHA, strict=True))
    assert truth == pytest.approx(0.6195, abs=5e-5)
    off, held = [], []
    for _ in range(LOGS):
        scope = Sums.of([softmax_batch(draw(rng, N, logging), 0.08)], {"dr": dr}, Cells(1), 1).scope(now=True)
        found = scope.replicates(dr)
        low, high = interval(found, N, "normal", How())
        off.append(found.value - truth)
        held.append(low < truth < high)
    assert np.mean(off) == pytest.approx(0, abs=4 * np.std(off) / np.sqrt(LOGS))
    assert np.sqrt(np.mean(np.square(off))) == pytest.approx(rmse, rel=0.25)
    assert np.mean(held) == pytest.approx(cover, abs=0.03 + 2.5 * np.sqrt(0.05 / LOGS))


@pytest.mark.parametrize("lists", BY_LISTS)
def test_cover_by_evidence(lists: int) -> None:
    """200 logs, 60 of the largest. Intervals from few lists are too narrow, but for those of the doubly robust
    estimator. Those of this program are by buckets, so with 250 lists as by rows.
    """
    rng, truth, logs = np.random.default_rng(13), value(), 200 if lists <= 5000 else 60
    found: dict[str, list[tuple[bool, float]]] = {key: [] for key in BY_LISTS[lists]}
    for _ in range(logs):
        scope = Sums.of([batch(draw(rng, lists, uniform))], known_estimators(), Cells(1), 1).scope(now=True)
        for key, its in found.items():
            one = scope.replicates(known_estimators()[key])
            low, high = interval(one, lists, "normal", How())
            its.append((low < truth < high, (high - low) / 2))
    for key, (cover, half) in BY_LISTS[lists].items():
        held, halves = np.mean(found[key], axis=0)
        assert held == pytest.approx(cover, abs=4 * np.sqrt(cover * (1 - cover) / logs) + 0.02), key
        assert halves == pytest.approx(half, rel=0.15), key


@pytest.mark.parametrize("lists", BY_ROWS)
def test_evidence_and_the_empirical_bernstein_mixture(lists: int) -> None:
    rng, truth, logs = np.random.default_rng(16), value(), 20
    sizes, halves = [], []
    for _ in range(logs):
        one = batch(draw(rng, lists, uniform))
        weight = np.column_stack([one.weight[:, 1:], one.stopped]) + 1e-12  # no list may be the target's
        sizes.append(weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0))
        clicked = one.first <= K
        sequence = Sequence(kind="empirical-bernstein").add(one.stopped * clicked, one.stopped * ~clicked)
        low, high = sequence.interval()
        assert low < truth < high
        halves.append((high - low) / 2)
    *wanted, half = BY_ROWS[lists]
    noise = 4 * np.std(sizes, axis=0) / np.sqrt(logs) + 0.5
    assert (np.abs(np.mean(sizes, axis=0) - wanted) < noise).all()
    assert np.mean(halves) == pytest.approx(half, abs=4 * np.std(halves) / np.sqrt(logs) + 0.001)


@pytest.mark.parametrize(("users", "logging", "lists", "shares"), REJECTED, ids=lambda x: getattr(x, "__name__", ""))
def test_shares_rejected(
    users: Users, logging: Callable[[int], np.ndarray], lists: int, shares: tuple[float, ...]
) -> None:
    """60 logs, 30 of the larger ones: the size of the tests of reading from the top and of the click model, and their
    power; and of contrasts between estimators, whose power is small.
    """
    rng, positions, logs = np.random.default_rng(14), np.arange(K), 60 if lists == N else 30
    known, rejected = known_estimators(), []
    for _ in range(logs):
        drawn = draw(rng, lists, logging, users)
        items = LISTS[drawn.number]
        top = drawn.query * L + items[:, 0]
        label = (drawn.query[:, None] * L + items) * K + positions
        read = drawn.first[:, None] > positions
        p = (
            grouped(top * L + items[:, 1], drawn.first == 1, L),
            grouped(label[read], (drawn.first[:, None] == positions + 1)[read], K),
        )
        scope = Sums.of([batch(drawn)], known, Cells(1), 1).scope(now=True)
        whole, prefix, weights = scope.replicates(known["list"]), scope.replicates(known["prefix"]), scope.weights(True)
        of_lists, of_fit = whole.minus(prefix), fit_error(drawn)
        of_model = prefix.value - scope.replicates(known["direct"]).value
        errors = np.sqrt(max(prefix.error**2 - of_fit**2, 1e-12))
        z = (of_lists.value / of_lists.error, of_model / errors, (weights.value - 1) / weights.error)
        rejected.append([each < 0.05 for each in p] + [abs(each) > 1.96 for each in z])
    for got, wanted in zip(np.mean(rejected, axis=0), shares, strict=True):
        assert got == pytest.approx(wanted, abs=4 * np.sqrt(max(wanted * (1 - wanted), 0.02) / logs) + 0.02)


def grouped(group: np.ndarray, clicks: np.ndarray, of: int) -> float:
    """The p-value of equal click rates of groups; so many of them are a stratum."""
    n, clicked = np.bincount(group), np.bincount(group, clicks)
    some = n > 0
    return homogeneity((np.arange(len(n)) // of)[some], n[some], clicked[some])
