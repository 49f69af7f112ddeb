"""Which breakpoints results record and figures show."""

from __future__ import annotations

import pytest

from driftrank.environments import Abrupt, Churn, Drift, PiecewiseRandom, Stationary
from driftrank.environments.base import Environment
from driftrank.experiments.simulation.breakpoints import (
    MANY,
    breakpoints_to_detect,
    common_breakpoints,
    marked_breakpoints,
)
from driftrank.experiments.simulation.simulate import checkpoint_steps
from driftrank.queries import yandex_like

QUERIES = yandex_like(6)


def test_at_fixed_steps() -> None:
    assert marked_breakpoints(Abrupt(QUERIES, period=700), 5000, 10, 0) == [700 * n for n in range(1, 8)]
    assert marked_breakpoints(Abrupt(QUERIES, period=700), 700, 10, 0) == []


def test_items_that_take_the_place_of_their_like() -> None:
    """In a single run some arrivals change nothing; together the runs show them all."""
    environment = Churn(QUERIES, period=100)
    one, all_ = (marked_breakpoints(environment, 3000, runs, 0) for runs in (1, 5))
    assert set(one) <= set(all_) == {100 * n for n in range(1, 30)}
    assert len(environment.breakpoints(3000)) < 29


def test_every_run_has_its_own() -> None:
    environment = PiecewiseRandom(QUERIES.first(1), n_breakpoints=6, horizon=10_000, spacing=100)
    assert marked_breakpoints(environment, 10_000, 1, 0) == environment.breakpoints(10_000)
    two = {step for run in (0, 1) for step in environment.breakpoints(10_000, 0, run)}
    assert marked_breakpoints(environment, 10_000, 2, 0) == sorted(two)
    many = PiecewiseRandom(QUERIES, n_breakpoints=6, horizon=10_000, spacing=100)
    assert marked_breakpoints(many, 10_000, 4, 0) == []


@pytest.mark.parametrize(
    "environment",
    [
        Stationary(QUERIES),
        Drift(QUERIES),
        Drift(QUERIES, shape="budget", period=1000),
        Abrupt(QUERIES, period=1),
        Abrupt(QUERIES, period=90),
    ],
    ids=lambda e: f"{type(e).__name__}",
)
def test_none_or_too_many(environment: Environment) -> None:
    assert marked_breakpoints(environment, 5000, 3, 0) == []
    assert checkpoint_steps(5000, 5, marked_breakpoints(environment, 5000, 3, 0)) == (1000, 2000, 3000, 4000, 5000)


def test_a_long_run_is_not_looked_at_to_its_end() -> None:
    assert marked_breakpoints(Abrupt(QUERIES, period=1), 10**15, 3, 0) == []
    assert len(marked_breakpoints(Abrupt(QUERIES, period=100), 100 * (MANY + 1), 3, 0)) == MANY


def test_what_can_be_detected() -> None:
    queries = {"q": [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]}
    assert breakpoints_to_detect(Abrupt(queries, k=2, period=100), 450, "q", 0, 0) == [100, 200, 300, 400]
    hidden = Churn(queries, k=2, period=100, announced=False)
    assert breakpoints_to_detect(hidden, 1000, "q", 3, 0) == hidden.breakpoints(1000, "q", 3)
    assert breakpoints_to_detect(Churn(queries, k=2, period=100), 1000, "q", 0, 0) == []
    assert breakpoints_to_detect(Drift(queries, k=2), 1000, "q", 0, 0) == []
    assert breakpoints_to_detect(Stationary(queries, k=2), 1000, "q", 0, 0) == []


def test_common_breakpoints_are_those_of_most_runs() -> None:
    assert common_breakpoints([[10, 20], [10, 21], [10, 20, 30]]) == [10, 20]
    assert common_breakpoints([[10], [20]]) == []
    assert common_breakpoints([]) == []
    assert common_breakpoints([list(range(1000))]) == []
