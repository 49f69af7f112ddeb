"""Properties of every environment."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.clickmodels import DCM
from driftrank.environments import (
    Abrupt,
    Churn,
    Drift,
    GarivierMoulines,
    LinearFeatures,
    LowCTR,
    LowerBound,
    OrderOnly,
    PiecewiseRandom,
    Recurring,
    Replay,
    Scaling,
    Silent,
    Traffic,
)
from driftrank.environments.registry import environments, takes_queries
from driftrank.queries import Queries

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes ten times as long

LEVELS = {"q": [0.05, 0.6, 0.3, 0.02, 0.5, 1.0, 0.2, 0.4, 0.0, 0.25], "r": [0.3, 0.3, 0.1, 0.2, 0.2, 0.1]}
CHANGES = {"q": ((20, (0.5,) * 10), (21, (0.1,) * 10), (90, (0.2,) * 9 + (0.9,)))}

WORLDS = {
    "abrupt": Abrupt(LEVELS, k=2, period=37),
    "lower bound": LowerBound(L=6, period=50),
    "piecewise": PiecewiseRandom(LEVELS, k=2, n_breakpoints=5, horizon=100, spacing=4),
    "geometric": PiecewiseRandom(LEVELS, k=2, n_breakpoints=5, horizon=100, spacing=4, times="geometric"),
    "uniform start": PiecewiseRandom(LEVELS, k=2, n_breakpoints=5, horizon=100, spacing=4, start="uniform"),
    "sinusoid": Drift(LEVELS, k=2, period=90, block=7),
    "walk": Drift(LEVELS, k=2, shape="walk", amplitude=0.4, period=90, block=7),
    "ramp": Drift(LEVELS, k=2, shape="ramp", period=90, block=7),
    "budget": Drift(LEVELS, k=2, shape="budget", period=11),
    "low CTR": LowCTR(horizon=100),
    "recurring": Recurring(LEVELS, k=2, regimes=3, period=23),
    "replay": Replay(Queries(Queries.of(LEVELS).attraction, changes=CHANGES), k=2),
    "replay, faster": Replay(Queries(Queries.of(LEVELS).attraction, changes=CHANGES), k=2, speed=7.3),
    "churn": Churn(LEVELS, k=2, period=10),
    "absent": Churn(LEVELS, k=2, period=10, absent=3),
    "unannounced": Churn(LEVELS, k=2, period=10, announced=False),
    "silent": Silent(LEVELS, k=2, period=20),
    "order": OrderOnly(LEVELS, k=2, period=20),
    "scaling": Scaling(LEVELS, k=2, period=20),
    "three arms": GarivierMoulines(horizon=100),
    "three arms, sinusoid": GarivierMoulines(shape="sinusoid", horizon=3000),
    "linear": LinearFeatures(L=12, n_queries=2),
    "linear, changing": LinearFeatures(L=12, n_queries=2, period=30),
    "traffic": Traffic(n_queries=9, candidates=10, catalogue=30, day=30, shift=0.3, shift_days=1, shuffle=77),
}

every = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)


@every
@settings(max_examples=15)
@given(st.integers(1, 400), st.integers(0, 3), st.integers(0, 1), st.randoms(use_true_random=False))
def test_any_step_at_any_time(world: Any, n: int, run: int, query: int, random: Any) -> None:
    """Levels are probabilities; a step on its own is the same as in its turn; V_n is the sum of what changes."""
    query = min(query, len(world.names) - 1)
    starts, alphas, _ = world.stretches(n, query, run)
    assert starts[0] == 1
    assert (np.diff(starts) > 0).all()
    unrolled = np.repeat(alphas, np.diff(np.append(starts, n + 1)), axis=0)
    assert unrolled.min() >= 0
    assert unrolled.max() <= 1
    for t in [n, *random.sample(range(1, n + 1), min(n, 5))]:
        alpha = world.attraction(t, query, run)
        assert alpha.tolist() == unrolled[t - 1].tolist()
        top = sorted(alpha, reverse=True)[: world.k]
        assert world.optimal_value(t, query, run) == pytest.approx(1 - np.prod(1 - np.array(top)))
        assert sorted(alpha[world.best(t, query, run)], reverse=True) == top
        assert set(np.flatnonzero(alpha)) <= set(world.present(t, query, run))
    assert world.variation(n, query, run) == pytest.approx(np.abs(np.diff(unrolled, axis=0)).max(axis=1).sum())
    changes = np.flatnonzero((np.diff(unrolled, axis=0) != 0).any(axis=1)) + 1
    assert world.breakpoints(n, query, run) == changes.tolist()


@every
def test_a_stationary_one_does_not_change_and_others_do(world: Any) -> None:
    assert world.kind in ("stationary", "abrupt", "drift")
    assert (world.variation(400) == 0) == (world.kind == "stationary")


@pytest.mark.parametrize(
    "world", {type(world): world for world in WORLDS.values()}.values(), ids=lambda w: type(w).__name__
)
def test_users_of_other_click_models(world: Any) -> None:
    """Every environment takes another click model, and its best list is that model's."""
    model = DCM(stop_after_click=(0.2, 0.6, *[0.4] * 6))
    other = dataclasses.replace(world, click_model=model)
    query = other.names[-1]
    for t in (1, 77):
        alpha = other.attraction(t, query, run=1)
        assert alpha.tolist() == world.attraction(t, query, run=1).tolist()
        assert other.optimal_value(t, query, run=1) == model.reward(alpha, other.best(t, query, run=1))
        assert other.optimal_value(t, query, run=1) == model.reward(alpha, model.best(alpha, other.k))
    assert other.users(query) is model


def test_all_are_here() -> None:
    # in LearningToRank, whose tests are its own, every step has other candidates
    kinds = {type(world).__name__ for world in WORLDS.values()} | {"Stationary", "BLB", "LearningToRank"}
    own = {name for name, cls in environments().items() if cls.__module__.startswith("driftrank.")}
    assert own == kinds


@pytest.mark.parametrize("name", [n for n, c in environments().items() if c.__module__.startswith("driftrank.")])
def test_defaults_are_enough(name: str) -> None:
    cls: Any = environments()[name]
    world = cls(LEVELS) if takes_queries(name) else cls()
    assert len(world.attraction(1)) >= world.k
    assert dataclasses.replace(world) == world
