"""Coverage of confidence intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from driftrank.clickmodels import CCM, DBN, DCM, PBM, SDBN, UBM, ClickModel, click_models
from driftrank.clickmodels.fitting import cascade_em as reading_module
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs
from driftrank.clickmodels.fitting.intervals import parabola_interval, pseudo_count_interval, quantile, wilson
from tests.clickmodels.generated import World, position_counts
from tests.quick import others_are_slow

MODELS = list(click_models().values())


def test_wilson_is_that_of_scipy() -> None:
    for successes, trials in [(0, 1), (4, 10), (10, 10), (1, 1000)]:
        theirs = stats.binomtest(successes, trials).proportion_ci(0.9, method="wilson")
        assert wilson(successes, trials, 0.9) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert wilson(0, 0) == (0, 1)


def test_the_interval_of_a_variance_is_that_of_the_counts_behind_it() -> None:
    """A ratio (x + a)/(n + b) has the information (n + b) p (1 - p) on the logit scale."""
    x, n = np.array([0.0, 3, 50]), np.array([20.0, 20, 60])
    p = (x + 1) / (n + 2)
    low, high = pseudo_count_interval(p, 1 / ((n + 2) * p * (1 - p)), (1, 2), 0.95)
    assert low == pytest.approx(wilson(x, n)[0])
    assert high == pytest.approx(wilson(x, n)[1])
    assert pseudo_count_interval(np.array([0.5]), np.array([np.inf]), (1, 2), 0.95) == (0, 1)


def test_parabola() -> None:
    half, z = np.array([0.5]), quantile(0.95)
    low, high = parabola_interval(half, np.array([0.04]), np.zeros(1), 0.95)  # 0.2 on the logit scale is 0.05 here
    assert (low[0], high[0]) == pytest.approx((0.5 - 0.05 * z, 0.5 + 0.05 * z))
    assert parabola_interval(half, np.array([np.inf]), np.zeros(1), 0.95) == (0, 1)
    # none of n: the log-likelihood is n ln(1 - p), which falls by z^2/2 at about z^2/(2 n)
    n, p = 1000, np.array([1e-6])
    low, high = parabola_interval(p, 1 / (n * p * (1 - p)), -n * p, 0.95)
    assert low[0] == 0
    assert high[0] == pytest.approx(z**2 / (2 * n), rel=0.01)
    low, high = parabola_interval(1 - p, 1 / (n * p * (1 - p)), n * p, 0.95)
    assert high[0] == 1
    assert 1 - low[0] == pytest.approx(z**2 / (2 * n), rel=0.01)


@pytest.mark.parametrize("cls", others_are_slow(MODELS, MODELS[:2]))
@pytest.mark.parametrize("per_query", [True, False])
def test_coverage_of_the_intervals(cls: type[ClickModel], per_query: bool) -> None:
    """Of hundreds of parameters, about 95%. Errors within a query are correlated, hence a larger tolerance."""
    shared = not per_query and "item" not in cls.shape.values()
    world = World(cls, queries=30, L=8, K=5, lists=3000, seed=7, one_model=shared)
    if not per_query and not shared and cls is DBN:
        world.models = [
            DBN(satisfaction=model.satisfaction, continuation=0.8)  # type: ignore[attr-defined]
            for model in world.models
        ]
        world.counts = world.generate(3000, 7)
    fit = cls.fit(world.fitted_to(), per_query=per_query)
    assert fit.converged
    assert np.abs(fit.attraction - world.truth("attraction")).mean() < 0.02
    held = {}
    for name in ("attraction", *cls.shape):
        truth = world.truth(name)
        own = cls.shape.get(name, "item") == "item"
        if not own and not per_query:
            truth = truth[:1]
        known = np.ones(truth.shape, bool)
        if cls is DCM and name == "stop_after_click":
            known[:, -1] = False  # nothing comes after the last rank
        if name == "examination":  # some cells cannot be, and that of the first rank is certain
            if cls is UBM:
                rank, column = np.indices((5, 5))
                known[:] = (column < rank) | (column == 4)
                known[:, 0, 4] = False
            else:
                known[:, 0] = False
        held[name] = ((fit.low[name] <= truth) & (truth <= fit.high[name]))[known]
        # it says something, too
        assert (fit.high[name] - fit.low[name])[known].mean() < (0.1 if own and name == "attraction" else 0.5), name
        if len(held[name]) >= 100:
            assert 0.90 <= held[name].mean() <= 0.995, name
    everything = np.concatenate(list(held.values()))
    assert 0.91 <= everything.mean() <= 0.99


@pytest.mark.parametrize("cls", [PBM, UBM])
def test_variances_of_examination_are_those_of_the_whole_information(cls: type[ClickModel]) -> None:
    """Against the inverse of the whole matrix, made by differences of the expected score."""
    world = World(cls, queries=2, L=4, K=3, lists=500, seed=5, one_model=True)
    counts = position_counts(world.counts)
    fit = cls.fit(counts, prior=(0, 0), tolerance=1e-10)
    kappa = fit.parameters["examination"][0]
    cells = [(k,) for k in range(3)] if cls is PBM else [(0, -1), (1, -1), (1, 0), (2, -1), (2, 0), (2, 1)]
    theta = np.concatenate([fit.attraction, [kappa[cell] for cell in cells[1:]]])

    def chances(logits: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-logits))
        table = dict(zip(cells, [1.0, *p[8:]], strict=True))
        keys = [
            (r - 1,) if cls is PBM else (r - 1, before - 1)
            for r, before in zip(counts.rank.tolist(), counts.previous.tolist(), strict=True)
        ]
        return p[counts.pair] * np.array([table[key] for key in keys])

    logits = np.log(theta / (1 - theta))
    p = chances(logits)
    slopes = np.array([(chances(logits + step) - chances(logits - step)) / 2e-5 for step in 1e-5 * np.eye(len(logits))])
    information = (slopes * (counts.views / (p * (1 - p)))) @ slopes.T
    variance = np.diag(np.linalg.inv(information))
    low, high = pseudo_count_interval(fit.attraction, variance[:8], (0, 0), 0.95)
    assert fit.low["attraction"] == pytest.approx(low, abs=1e-5)
    assert fit.high["attraction"] == pytest.approx(high, abs=1e-5)
    low, high = parabola_interval(theta[8:], variance[8:], np.zeros(len(theta) - 8), 0.95)
    assert [fit.low["examination"][0][cell] for cell in cells[1:]] == pytest.approx(low, abs=1e-5)
    assert [fit.high["examination"][0][cell] for cell in cells[1:]] == pytest.approx(high, abs=1e-5)


@pytest.mark.parametrize("cls", [DBN, CCM, DCM, SDBN])
def test_variances_of_reading_are_those_of_the_whole_information(cls: type[ClickModel]) -> None:
    """Against the inverse of the matrix of second derivatives, which the products of scores estimate."""
    world = World(cls, queries=1, L=3, K=3, lists=60_000, seed=4)
    counts = world.counts
    fit = cls.fit(counts, prior=(0, 0), tolerance=1e-11)
    names = list(cls.shape)
    sizes = [np.size(fit.parameters[name]) for name in names]
    theta = np.concatenate([fit.attraction, *(np.ravel(fit.parameters[name]) for name in names)])
    free = np.flatnonzero((theta > 1e-4) & (theta < 1 - 1e-4))
    if cls is DCM:
        free = free[free != len(theta) - 1]  # what comes after the last rank is never seen

    def likelihood(logits: np.ndarray) -> float:
        p = theta.copy()
        p[free] = 1 / (1 + np.exp(-logits))
        parts = np.split(p[3:], np.cumsum(sizes)[:-1])
        values = {n: part.tolist() if cls.shape[n] != "one" else part[0] for n, part in zip(names, parts, strict=True)}
        model = cls(**values)
        total = 0.0
        for items, mask, n in zip(counts.slots, counts.mask, counts.lists, strict=True):
            total += n * np.log(model.probability(p[:3], items, [int(mask) >> k & 1 for k in range(3)]))
        return total

    at = np.log(theta / (1 - theta))[free]
    h = 1e-2
    steps = h * np.eye(len(free))
    signs = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
    hessian = np.array([[sum(s * likelihood(at + x * a + y * b) for x, y, s in signs) for b in steps] for a in steps])
    hessian /= 4 * h * h
    deviation = np.sqrt(np.diag(np.linalg.inv(-hessian)))
    z = quantile(0.95)
    high = np.concatenate([fit.high["attraction"], *(np.ravel(fit.high[name]) for name in names)])[free]
    expected = deviation * (theta * (1 - theta))[free] * z
    inside = high < 1
    assert (high - theta[free])[inside] == pytest.approx(expected[inside], rel=0.1)


def test_a_query_of_very_many_items_counts_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(DBN, queries=2, L=6, K=4, lists=3000)
    whole = DBN.fit(world.counts)
    monkeypatch.setattr(reading_module, "_LARGEST", 5)
    alone = DBN.fit(world.counts)
    width = (alone.high["attraction"] - alone.low["attraction"]) / (whole.high["attraction"] - whole.low["attraction"])
    assert ((width > 0.8) & (width < 1.001)).all()
    assert (width != 1).any()


def test_what_says_nothing_has_an_open_interval() -> None:
    """With no prior, and no click, satisfaction may be anything."""
    pairs = Pairs(np.array(["q"]), np.zeros(2, np.int32), np.array([1, 2]))
    lists = ListCounts(pairs, np.array([[0, 1]], np.int32), np.array([0]), np.array([100]))
    fit = DBN.fit(lists, prior=(0, 0))
    assert fit.low["satisfaction"].tolist() == [0, 0]
    assert fit.high["satisfaction"].tolist() == [1, 1]
    assert fit.low["attraction"].tolist() == [0, 0]
    assert fit.high["attraction"][0] < 0.1
