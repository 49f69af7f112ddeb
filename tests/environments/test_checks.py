"""The public check suite: environments of driftrank pass, wrong ones are found."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from driftrank.environments import Churn, Drift, PiecewiseRandom, QueryEnvironment, Stationary, Traffic
from driftrank.environments.base import NEVER
from driftrank.environments.checks import CHECKS, check_environment
from driftrank.kernels import kernel
from driftrank.validation import check_integer

pytestmark = pytest.mark.interpreted

LEVELS = {"q": [0.05, 0.6, 0.3, 0.02, 0.5, 1.0, 0.2], "r": [0.3, 0.3, 0.1, 0.2, 0.2]}


@pytest.mark.parametrize(
    "world",
    [
        Stationary(LEVELS, k=2),
        PiecewiseRandom(LEVELS, k=2, n_breakpoints=5, horizon=100, spacing=4),
        Drift(LEVELS, k=2, shape="walk", amplitude=0.4, period=90, block=7),
        Churn({"q": LEVELS["q"]}, k=2, period=50, absent=2),
    ],
    ids=lambda world: type(world).__name__,
)
def test_ours_pass(world: Any) -> None:
    check_environment(world)


class _Good(QueryEnvironment):
    """Attraction is halved in every other period."""

    abstract: ClassVar[bool] = True
    kind: ClassVar[str] = "abrupt"

    period: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        epoch = (t - 1) // p.period
        for a in range(base.shape[0]):
            alpha[a] = base[a] * (1.0 - 0.5 * (epoch % 2))
        return (epoch + 1) * p.period + 1


class _Forgets(_Good):
    """The last item is never written."""

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0] - 1):
            alpha[a] = base[a]
        return NEVER


class _Backwards(_Good):
    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        return 17


class _Late(_Good):
    """A change is announced too late."""

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a] if t <= p.period else 0.1
        return max(2 * p.period, t) + 1


class _Above(_Good):
    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a] + t / 100
        return t + 1


class _Dice(_Good):
    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = np.random.default_rng().random()
        return t + 1


class _Stuck(_Good):
    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            alpha[a] = base[a]
        return NEVER


class _Careless(_Good):
    def __post_init__(self) -> None:
        QueryEnvironment.__post_init__(self)


class _Odd(_Good):
    kind: ClassVar[str] = "odd"


WRONG: list[tuple[type[_Good], str, str]] = [
    (_Forgets, "world_writes_every_item", r"items \[6\] get no attraction"),
    (_Backwards, "world_writes_every_item", "step 17: returns 17, must return a later step"),
    (_Late, "steps_may_come_in_any_order", "world must return the next step at which it may differ"),
    (_Above, "attraction_is_probability", "attraction from .* to 4"),
    (_Dice, "same_seed_same_world", "two equal environments differ"),
    (_Stuck, "kind_is_true", "it is called abrupt, and does not change in 300 steps"),
    (_Odd, "kind_is_true", "kind='odd': must be one of stationary, abrupt, drift"),
    (_Careless, "bad_values_are_refused", "period="),
]


def test_a_good_one_passes() -> None:
    check_environment(_Good(LEVELS, k=2))


@pytest.mark.parametrize(("wrong", "check", "message"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_wrong_ones_are_found(wrong: type[_Good], check: str, message: str) -> None:
    with pytest.raises(AssertionError, match=rf"{wrong.__name__}: {check}: .*{message}"):
        CHECKS[check](wrong(LEVELS, k=2))


def test_traffic_has_no_single_queries() -> None:
    with pytest.raises(ValueError, match="environment=Traffic: must be one of single queries"):
        check_environment(Traffic(n_queries=3, candidates=4, K=2))
