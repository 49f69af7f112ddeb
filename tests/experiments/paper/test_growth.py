from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from driftrank.cli.bounds import ENVIRONMENTS
from driftrank.environments import BLB, Abrupt, LowerBound, Stationary
from driftrank.experiments.paper.bounds import (
    environment_for,
    lower_bound,
    measure_bounds,
    theorem_policies,
)
from driftrank.experiments.paper.growth import HORIZONS, Growth, figure3, measure_growth
from driftrank.queries import yandex_like
from driftrank.reporting.plot_style import save_figure
from driftrank.theory import gaps, theorem1, theorem2, theorem3

INSTANCE = LowerBound(L=4, p=0.6, delta=0.5, period=334)


@pytest.fixture(scope="module")
def growth() -> Growth:
    return measure_growth("B_L", INSTANCE, at=1000, horizons=(1000, 3162, 10_000), runs=8, progress=False)


def power(exponent: float) -> Growth:
    horizons = np.array(HORIZONS)
    mean = np.stack([3.0 * horizons**exponent, np.where(horizons < 90_000, horizons, np.sqrt(horizons * 1e5))])
    return Growth("made up", 2, horizons, ["CascadeSWUCB", "CascadeDUCB"], mean, np.zeros_like(mean), None)


# -- growth ------------------------------------------------------------------------------------------------------------


def test_horizons_are_geometric() -> None:
    assert HORIZONS[0] == 10**3
    assert HORIZONS[-1] == 10**6
    assert np.diff(np.log10(HORIZONS)) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("exponent", [0.5, 0.73, 1.0])
def test_slope_of_a_power_is_its_exponent(exponent: float) -> None:
    assert power(exponent).slope("CascadeSWUCB") == pytest.approx(exponent)
    assert power(exponent).slope("CascadeSWUCB", 1) == pytest.approx(exponent)


def test_slope_of_the_last_decade() -> None:
    bent = power(0.5)
    assert bent.slope("CascadeDUCB", 1) == pytest.approx(0.5)
    assert 0.6 < bent.slope("CascadeDUCB") < 1


def test_orders_in_the_table() -> None:
    rows = {row[0]: row[1:] for row in power(0.5).table().rows}
    assert rows["sqrt(n)"] == pytest.approx((0.5, 0.5))
    assert 0.5 < rows["sqrt(n ln n)"][0] < rows["sqrt(n) ln n"][0] < 0.65


def test_breakpoints_stay_while_the_horizon_grows(growth: Growth) -> None:
    assert growth.n_breakpoints == 2
    abrupt = Abrupt(yandex_like(1), k=3, period=20)
    grown = measure_growth("Abrupt", abrupt, at=200, horizons=(200, 600), runs=1, progress=False)
    assert grown.n_breakpoints == 9
    assert grown.lower is None


def test_regret_grows_as_a_root(growth: Growth) -> None:
    sw, d = (growth.slope(label) for label in growth.labels)
    assert 0.4 < sw < 0.7
    assert sw < d < 1
    assert (growth.mean[0] < growth.mean[1]).all()
    assert growth.lower is not None
    assert (growth.lower < growth.mean).all()


def test_same_seed_same_growth(growth: Growth) -> None:
    again = measure_growth("B_L", INSTANCE, at=1000, horizons=(1000, 3162), runs=8, threads=1, progress=False)
    assert (again.mean == growth.mean[:, :2]).all()


def test_figure_3(growth: Growth, tmp_path: Path) -> None:
    figure = figure3([growth, power(0.6)])
    left, right = figure.axes
    assert left.get_xscale() == left.get_yscale() == "log"
    texts = [text.get_text() for text in left.get_legend().get_texts()]
    assert len(texts) == 6  # two policies, three orders, the lower bound
    assert "lower bound of theorem 3" in texts
    assert len(right.get_legend().get_texts()) == 5
    # every thin line goes through the last point of a policy
    thin = [line for line in left.get_lines() if str(line.get_label()).startswith("$")]
    assert len(thin) == 6
    ends = {round(float(line.get_ydata()[-1]), 6) for line in thin}
    assert ends == {round(float(mean), 6) for mean in growth.mean[:, -1]}
    png, svg = save_figure(figure, tmp_path, "figure3")
    assert png.read_bytes()[:4] == b"\x89PNG"
    assert svg.stat().st_size > 10_000


def test_growth_as_json(growth: Growth) -> None:
    told = growth.to_json()
    assert told["horizons"] == [1000, 3162, 10_000]
    assert told["exponents"]["CascadeSWUCB"]["all"] == growth.slope("CascadeSWUCB")
    assert len(told["regret"]["CascadeDUCB"]) == len(told["lower_bound"]) == 3


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_period_fits_the_horizon_unless_given() -> None:
    abrupt, lower = (environment_for(spec, "yandex-like:2", 3, 5000, 0) for spec in ENVIRONMENTS)
    assert len(abrupt.breakpoints(5000)) == 9
    assert len(lower.breakpoints(5000)) == 2
    given = environment_for("Abrupt: period=2500", "yandex-like:2", 3, 5000, 0)
    assert given.breakpoints(5000) == [2500]


def test_policies_are_those_of_the_theorems() -> None:
    for policy in theorem_policies(0.6, 9):
        assert policy.epsilon == 0.6
        assert policy.n_breakpoints == 9
        assert policy.unseen == "paper"
    assert theorem_policies(0.6, 0)[0].n_breakpoints == 1


def test_bounds_are_those_of_the_theorems() -> None:
    found = measure_bounds("B_L", INSTANCE, horizon=1000, runs=3, progress=False)
    every = gaps(INSTANCE, 1000).tolist()
    assert found.n_breakpoints == 2
    assert found.smallest_gap == pytest.approx(0.5)
    assert found.upper["CascadeDUCB"] == pytest.approx(theorem1(1000, 4, 2, every, 0.6))
    assert found.upper["CascadeSWUCB"] == pytest.approx(theorem2(1000, 4, 2, every, 0.6))
    assert found.lower == theorem3(1000, 4, 2, 0.6, 0.5)
    assert found.vacuous("CascadeDUCB")
    for mean, error in found.regret.values():
        assert 0 < mean < 1000
        assert error > 0


def test_bounds_are_averaged_over_queries_and_runs() -> None:
    environment = Abrupt(yandex_like(2), k=3, period=100)
    found = measure_bounds("Abrupt", environment, horizon=1000, runs=2, progress=False)
    each = [theorem2(1000, 10, 9, gaps(environment, 1000, q, r).tolist(), 0.6) for q in (0, 1) for r in (0, 1)]
    assert found.upper["CascadeSWUCB"] == pytest.approx(np.mean(each))
    assert found.lower is None
    assert "theorem 3" not in str(found.table())
    assert str(found.table()).count("vacuous") == 2


def test_bound_that_says_something_is_not_called_vacuous() -> None:
    found = measure_bounds("BLB", BLB(L=2, K=1, p=0.9, delta=0.9), horizon=20_000, runs=1, progress=False)
    assert found.n_breakpoints == 0
    assert not found.vacuous("CascadeSWUCB")
    assert "holds" in str(found.table())


def test_equal_items_make_the_bounds_infinite() -> None:
    found = measure_bounds("Stationary", Stationary([[0.5, 0.5, 0.1]], k=1), horizon=1000, runs=1, progress=False)
    assert math.isinf(found.upper["CascadeDUCB"])
    told = found.to_json()
    assert told["policies"]["CascadeDUCB"]["bound"] is None
    assert told["policies"]["CascadeDUCB"]["vacuous"] is True
    assert told["smallest_gap"] == 0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 0.0])
def test_epsilon_must_be_one_of_the_theorems(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        measure_bounds("B_L", INSTANCE, horizon=1000, epsilon=epsilon, progress=False)


def test_lower_bound_is_for_its_instance_only() -> None:
    assert lower_bound(Stationary([[0.5, 0.1]], k=1), 1000) is None
    assert lower_bound(LowerBound(), 100_000) == pytest.approx(552.13, abs=0.01)
