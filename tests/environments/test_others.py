"""Environments that have their own queries, and the registry."""

from __future__ import annotations

import pytest

from driftrank.environments import BLB, Abrupt, LowerBound
from driftrank.environments.registry import environments, parse_environment, takes_queries


def test_lower_bound_changes_twice():
    environment = LowerBound(L=6, p=0.4, delta=0.3, period=100, exchanged=2)
    low = 0.4 - 0.3
    assert environment.k == 3
    assert environment.breakpoints(100_000) == [100, 200]
    before, between, after = environment.stretches(100_000)[1].tolist()
    assert before == after == [0.4, 0.4, 0.4, low, low, low]
    assert between == [low, low, 0.4, 0.4, 0.4, low]
    for t in (1, 100, 101, 200, 201, 10**6):
        assert sorted(environment.attraction(t)) == sorted(before)  # K items are optimal at any time
        assert environment.optimal_value(t) == pytest.approx(1 - 0.6**3)
    assert environment.best(150) == [2, 3, 4]
    assert environment.kind == "abrupt"


def test_lower_bound_exchanges_all():
    environment = LowerBound(L=4, period=10, exchanged=2)
    assert environment.best(1) == [0, 1]
    assert environment.best(11) == [2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"L": 5}, "L=5: must be even"),
        ({"L": 0}, "L=0"),
        ({"p": 0.0}, "p=0.0"),
        ({"p": 1.5}, "p=1.5"),
        ({"delta": 0.3}, r"delta=0.3: must be a number in \(0, 0.2\]"),
        ({"delta": 0.0}, "delta=0.0"),
        ({"period": 0}, "period=0"),
        ({"exchanged": 6}, "exchanged=6: must be an integer from 1 to 5"),
    ],
)
def test_bad_lower_bounds(change, message):
    with pytest.raises(ValueError, match=message):
        LowerBound(**change)


def test_blb():
    environment = BLB(L=16, K=4, p=0.2, delta=0.075)
    assert environment.k == 4
    assert environment.attraction(1).tolist() == [0.2] * 4 + [0.2 - 0.075] * 12
    assert environment.breakpoints(10**6) == []
    assert environment.optimal_value(1) == pytest.approx(1 - 0.8**4)
    assert environment.best(1) == [0, 1, 2, 3]
    assert environment.kind == "stationary"
    assert BLB(L=3, K=3, p=1.0, delta=1.0).optimal_value(1) == 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"K": 17}, "K=17: must be an integer from 1 to 16"),
        ({"K": 0}, "K=0"),
        ({"L": 0}, "L=0"),
        ({"p": -0.1}, "p=-0.1"),
        ({"delta": 0.25}, "delta=0.25"),
    ],
)
def test_bad_blbs(change, message):
    with pytest.raises(ValueError, match=message):
        BLB(**change)


def test_registry():
    known = environments()
    assert {"Abrupt", "BLB", "LowerBound", "Stationary"} <= set(known)
    assert "QueryEnvironment" not in known
    assert known["Abrupt"] is Abrupt
    assert takes_queries("Abrupt")
    assert not takes_queries("BLB")


def test_parse():
    environment = parse_environment("Abrupt:period=50,boost=0.8", queries=[[0.5, 0.4, 0.3, 0.2, 0.1]], k=2)
    assert environment == Abrupt([[0.5, 0.4, 0.3, 0.2, 0.1]], k=2, period=50, boost=0.8)
    assert parse_environment("LowerBound:L=4,delta=5e-2") == LowerBound(L=4, delta=0.05)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("Abrubt", "unknown environment 'Abrubt'; did you mean Abrupt?"),
        ("BLB:P=0.3", "unknown parameter of BLB 'P'; did you mean p?"),
        ("BLB:L=x", "L='x': must be int"),
        ("Abrupt:period=50", "environment Abrupt: the parameter queries is missing"),
    ],
)
def test_bad_specs(spec, message):
    with pytest.raises(ValueError, match=message):
        parse_environment(spec)
