"""Confidence sequences: oracle values, the plain mixture, and how often they miss."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from driftrank.evaluation.empirical_bernstein import empirical_bernstein_low, log_wealth
from driftrank.evaluation.sequences import mixture_width
from driftrank.evaluation.special import chi_square_p, log_lower_gamma, normal_quantile, t_quantile
from driftrank.evaluation.streaming import Sequence
from tests.reference.evaluation import log_mixture


@pytest.mark.parametrize("a", [0.5, 1.0, 3.3, 50.0, 999.0, 1001.0, 1e6])
@pytest.mark.parametrize("z", [-2.0, -0.5, 0.0, 0.5, 4.0])
def test_incomplete_gamma(a: float, z: float) -> None:
    x = max(a + z * math.sqrt(a), 0.1)
    exact = math.log(special.gammainc(a, x)) + special.gammaln(a)
    assert log_lower_gamma(a, x) == pytest.approx(exact, abs=3e-7 if a > 1000 else 1e-10, rel=1e-12)
    assert chi_square_p(2 * x, int(2 * a)) == pytest.approx(stats.chi2.sf(2 * x, int(2 * a)), rel=1e-6)


@pytest.mark.parametrize("freedom", [20, 50, 199, 10_000])
def test_quantiles(freedom: int) -> None:
    for level in (0.8, 0.95, 0.99):
        assert t_quantile(level, freedom) == pytest.approx(stats.t.ppf(0.5 + level / 2, freedom), rel=2e-6)
        assert normal_quantile(level) == pytest.approx(stats.norm.ppf(0.5 + level / 2))


@pytest.mark.parametrize(("s", "v", "expected"), [(4, 3.3, 0.792506540), (0, 1, -0.448505023), (50, 20, 23.278014188)])
def test_wealth(s: float, v: float, expected: float) -> None:
    assert log_wealth(s, v) == pytest.approx(expected, abs=5e-10)
    assert log_mixture(s, v) == pytest.approx(expected, abs=1e-4)


ROWS = np.array([0.0, 1, 1, 0, 2])


def test_guesses_come_from_earlier_rows() -> None:
    """Guesses .5, .25, .5, .625, .5: v = .25 + .5625 + .25 + .390625 + 2.25."""
    together = Sequence(kind="empirical-bernstein").add(ROWS)
    one_by_one = Sequence(kind="empirical-bernstein")
    for row in ROWS:
        one_by_one.add([row])
    assert together._rows.v == one_by_one._rows.v == 3.703125


def test_oracle_intervals() -> None:
    """The five rows forty times, as weight times reward where the weight of a list without a click is 1."""
    rewards = np.tile(ROWS, 40)
    sequence = Sequence(kind="empirical-bernstein").add(rewards, losses=np.where(rewards > 0, 0.0, 1.0))
    assert sequence.interval() == pytest.approx((0.599064947, 0.733403444), abs=5e-9)
    assert Sequence(planned=200).add(rewards).interval() == pytest.approx((0.639379274, 0.960620726), abs=5e-10)


def test_looks_do_not_change_the_plan() -> None:
    """A look at any time, also an early one, leaves later intervals as they are."""
    rewards = np.tile(ROWS, 40)
    watched = Sequence()
    for part in np.split(rewards, 20):
        watched.add(part).interval()
    assert watched.interval() == Sequence().add(rewards).interval()
    assert watched.planned == 20_000


def test_no_interval_before_the_hundredth_effective_row() -> None:
    """(sum |x|)^2 / sum x^2 of five such rows is 4^2 / 6; equal rows count one each, and zeros nothing."""
    assert Sequence().add([0.3]).interval() == (-math.inf, math.inf)
    assert Sequence().add(np.zeros(1000)).interval() == (-math.inf, math.inf)
    assert Sequence().add(np.tile(ROWS, 37)).interval() == (-math.inf, math.inf)
    assert math.isfinite(Sequence().add(np.tile(ROWS, 38)).interval()[0])
    assert Sequence().add(np.full(100, -0.3)).interval() == pytest.approx((-0.3, -0.3))


def test_nothing_yet_and_wrong_rows() -> None:
    assert Sequence().interval() == (-math.inf, math.inf)
    assert empirical_bernstein_low(0.0, 0.0, 0, 0.05) == 0.0
    assert Sequence(kind="empirical-bernstein").add([1.0]).interval() == (0.0, math.inf)
    with pytest.raises(ValueError, match="rows=-1: must not be negative"):
        Sequence(kind="empirical-bernstein").add([-1.0])
    for wrong in ({"alpha": 0}, {"kind": "betting"}, {"planned": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Sequence(**wrong)  # type: ignore[arg-type]


TIMES = np.arange(4000)
MEANS = {
    "constant": np.full(4000, 0.3),
    "changes": np.repeat([0.1, 0.5], 2000),
    "every 500": np.tile(np.repeat([0.1, 0.5], 500), 4),
    "sine": 0.3 + 0.25 * np.sin(TIMES * 2 * np.pi / 2000),
}


@pytest.mark.parametrize("mean", MEANS)
def test_misses_over_all_looks(mean: str) -> None:
    """100 runs of 4,000 rows, looked at 30 times from the 100th on; a mean that changes is no problem.

    At the same looks the normal interval for one look misses in a quarter of the runs and more.
    """
    rng = np.random.default_rng(3)
    means = MEANS[mean]
    looks = np.unique(np.geomspace(100, 4000, 30).astype(int))
    running = (np.cumsum(means) / np.arange(1, 4001))[looks - 1]
    missed = {"normal-mixture": 0, "empirical-bernstein": 0, "normal": 0}
    for _ in range(100):
        rows = (rng.random(4000) < means).astype(float)
        sums, v = np.cumsum(rows), _distances(rows)
        for kind in missed:
            for t, truth in zip(looks, running, strict=True):
                total, at = sums[t - 1], v[t - 1]
                error = math.sqrt(total / t * (1 - total / t))
                if kind == "empirical-bernstein":
                    # two tests instead of the ends, which need a search
                    wrong = log_wealth(total - t * truth, at) > math.log(40)
                    wrong |= log_wealth(t * truth - total, at) > math.log(40)
                else:
                    width = 1.96 / math.sqrt(t) if kind == "normal" else mixture_width(t, 4000)
                    wrong = abs(total / t - truth) > error * width
                if wrong:
                    missed[kind] += 1
                    break
    assert missed["normal-mixture"] <= 5
    assert missed["empirical-bernstein"] <= 5
    assert missed["normal"] >= 25


def _distances(rows: np.ndarray) -> np.ndarray:
    before = np.cumsum(rows) - rows
    return np.cumsum((rows - np.minimum((0.5 + before) / np.arange(1, len(rows) + 1), 1)) ** 2)
