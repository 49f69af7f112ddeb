"""Planning: oracle values of variances and numbers of lists; propensities of mixtures and of a softmax by rank."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

import driftrank as dr
from driftrank.evaluation.labels import bounds
from driftrank.evaluation.planning import (
    lists_for,
    mixture_propensities,
    prefix_variance,
    robust_variance,
    softmax_propensities,
)
from driftrank.evaluation.rows import LogRows
from tests.evaluation.worlds import BEST, draw, softmax, write
from tests.reference import evaluation as reference

ALPHA = (0.45, 0.30, 0.25, 0.20, 0.15, 0.10, 0.08, 0.05, 0.04, 0.02)


@pytest.mark.parametrize(
    ("temperature", "chances"),
    [
        (1.0, (0.486330108, 0.178910848, 0.215556122, 0.029172349, 0.065817623, 0.024212950)),
        (0.5, (0.763486650, 0.103326682, 0.115200458, 0.002109970, 0.013983746, 0.001892494)),
    ],
)
def test_softmax_by_rank(temperature: float, chances: tuple[float, ...]) -> None:
    lists = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    found = [float(np.prod(softmax_propensities((0, 1, 2), ranking, temperature))) for ranking in lists]
    assert found == pytest.approx(chances, abs=5e-10)
    assert sum(found) == pytest.approx(1)
    if temperature == 1.0:
        first = [softmax_propensities((0, 1, 2), (item,), temperature)[0] for item in range(3)]
        assert first == pytest.approx([0.665240956, 0.244728471, 0.090030573], abs=5e-10)
    assert softmax_propensities((0, 1, 2), (9,), temperature) == [0.0]


@pytest.mark.parametrize(
    ("shown", "temperature", "by_prefix", "robust"),
    [((0, 1, 3), 1.0, 15_886, 10_055), ((0, 1, 3), 0.5, 12_825, 9_516), ((1, 0, 3), 1.0, None, 21_632),
     ((1, 0, 3), 0.5, None, 62_743)],
)  # fmt: skip
def test_lists_needed(shown: tuple[int, ...], temperature: float, by_prefix: int | None, robust: int) -> None:
    """For +-.02 on the list (0, 1, 2) of ten items."""
    order = [*shown, *(a for a in range(10) if a not in shown)]
    p = softmax_propensities(order, (0, 1, 2), temperature)
    assert lists_for(robust_variance(ALPHA[:3], p), 0.02) == pytest.approx(robust, abs=1)
    if by_prefix is not None:
        assert lists_for(prefix_variance(ALPHA[:3], p), 0.02) == pytest.approx(by_prefix, abs=1)


def test_uniform_lists_need_many() -> None:
    p = (1 / 10, 1 / 9, 1 / 8)
    assert lists_for(prefix_variance(ALPHA[:3], p), 0.02) == pytest.approx(846_505, abs=1)
    assert lists_for(robust_variance(ALPHA[:3], p), 0.02) == pytest.approx(561_855, abs=1)


#: a tenth of the lists differs from (0, 1, 3) in this way: probabilities of (0, 1, 2) in it, and lists needed
TENTHS = {
    "uniform": ((1 / 10, 1 / 9, 1 / 8), 6_656_977, 4_992_908),
    "one place to a random other item": ((2 / 3, 1 / 2, 1 / 7), 195_424, 146_932),
    "one neighbouring pair exchanged": ((2 / 3, 1 / 2, 1.0), 29_041, 22_144),
}


@pytest.mark.parametrize("how", TENTHS)
def test_a_tenth_of_the_lists(how: str) -> None:
    chances, by_prefix, robust = TENTHS[how]
    p = mixture_propensities([0.9, 0.1], [[1.0, 1.0, 0.0], list(chances)])
    assert lists_for(prefix_variance(ALPHA[:3], p), 0.02) == pytest.approx(by_prefix, abs=1)
    assert lists_for(robust_variance(ALPHA[:3], p), 0.02) == pytest.approx(robust, abs=1)


@pytest.mark.parametrize(("ranking", "value", "variance"), [((0, 1), 0.65, 11.5775), ((1, 2), 0.37, 2.309253846)])
def test_several_logging_policies(ranking: tuple[int, ...], value: float, variance: float) -> None:
    """80% one list (1, 0) and 20% uniform ones: weights by the mixture, exactly, for all lists and clicks."""
    world = reference.World(3, 2, reference.cascade((0.5, 0.3, 0.1)))
    policies = [reference.fixed((1, 0)), reference.plackett_luce((1, 1, 1))]
    shares = (0.8, 0.2)
    mean = square = 0.0
    for share, policy in zip(shares, policies, strict=True):
        for chance, row in world.outcomes(policy):
            own = [[each(row.items[:k], a) for k, a in enumerate(row.items)] for each in policies]
            mixed = row._replace(propensities=tuple(mixture_propensities(shares, own)))
            psi = reference.prefix_ips(mixed, reference.fixed(ranking))
            mean += share * chance * psi
            square += share * chance * psi**2
    assert (mean, square - mean**2) == pytest.approx((value, variance), abs=5e-10)
    with pytest.raises(ValueError, match="shares"):
        mixture_propensities([0.8], [[1.0]])


def test_bounds(tmp_path: Path) -> None:
    """Everyone saw (1, 0) of items that attract .5, .3: of the list (0, 2) little is known."""
    path = tmp_path / "log.parquet"
    rows = "SELECT 'q' AS query, i AS time, [1, 0] AS ranking, CASE WHEN i % 10 < 3 THEN [1]"
    rows += " WHEN i % 20 >= 10 THEN [2] ELSE [] END AS clicks"
    duckdb.sql(f"COPY ({rows} FROM range(2000) t(i)) TO '{path}'")
    with LogRows(dr.logs.open_log(path), 2) as log:
        alpha = log.labels.attraction()
        assert alpha.tolist() == pytest.approx([0.5, 0.3], abs=0.03)
        low, high = bounds(log.labels, log.shown_lists(log.fixed_target([{"q": [0, 2]}])))
        assert low == pytest.approx(alpha[0])
        assert high == pytest.approx(1 - (1 - alpha[0]) * (1 - np.quantile(alpha, 0.95)))
        same = bounds(log.labels, log.shown_lists(log.fixed_target([{"q": [0, 1]}])))
        assert same == pytest.approx((1 - np.prod(1 - alpha),) * 2)


def test_needed(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", draw(np.random.default_rng(1), 4000, softmax))
    mild, strong = (dr.evaluation.needed(path, BEST, within=0.02, explore=T) for T in (0.5, 4.0))
    assert mild is not None
    assert strong is not None
    assert 2000 < mild < strong
    wider = dr.evaluation.needed(path, BEST, within=0.04)
    assert wider == pytest.approx(mild / 4, rel=0.01)
    assert dr.evaluation.needed(path, {"lamps": [0, 99]}) is None


def test_lists_that_would_never_be_shown(tmp_path: Path) -> None:
    """Far down among 900 items: at low temperatures the probability is 0 in floating point."""
    path = tmp_path / "log.parquet"
    rows = "SELECT 'q' AS query, i AS time, [i % 900, (i + 7) % 900] AS ranking, [1, 1] AS clicks"
    duckdb.sql(f"COPY ({rows} FROM range(4000) t(i)) TO '{path}'")
    assert dr.evaluation.needed(path, {"q": [850, 899]}) is None
    assert dr.evaluate(path, {"q": [850, 899]}, changes=0)["rankings"].exploring is None
