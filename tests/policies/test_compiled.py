"""Compiled kernels equal interpreted ones to the last bit, so coverage may be measured on interpreted ones."""

from __future__ import annotations

import dataclasses
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from driftrank.policies.contract.checks import CHECKS
from driftrank.policies.learner import templates
from driftrank.policies.learner.learner import Learner
from driftrank.policies.registry import parse_policy, policies
from tests.quick import others_are_slow

pytestmark = pytest.mark.compiled

LEARNERS = [name for name, cls in policies().items() if not cls.oracle and cls.__module__.startswith("driftrank.")]
STEPS = 250


def _interpreted(learner: Learner) -> Learner:
    """A learner whose kernels are called as plain Python."""
    policy = learner.compiled
    steps = {
        name: FunctionType(template.__code__, {**vars(templates), **policy.bindings}, name)
        for name, template in vars(templates).items()
        if name.endswith("_step")
    }
    learner.compiled = dataclasses.replace(policy, compiled=steps)
    return learner


def _start(name: str, L: int, k: int, *, interpreted: bool) -> Any:
    learner = parse_policy(name).start(range(L), k, seed=3, horizon=STEPS)
    return _interpreted(learner) if interpreted else learner


@pytest.mark.parametrize("name", others_are_slow(LEARNERS))
def test_compiled_equals_interpreted(name: str) -> None:
    """The same lists, scores and states over some hundred steps, through a change, a removed and a new item."""
    compiled, interpreted = (_start(name, 7, 3, interpreted=way) for way in (False, True))
    generator = np.random.default_rng(5)
    attraction = np.linspace(0.05, 0.9, 9)
    for t in range(STEPS):
        if t == STEPS // 2:
            attraction = attraction[::-1]
            for learner in (compiled, interpreted):
                learner.remove_items([2])
                learner.add_items([7])
        ranking, again = compiled.rank(), interpreted.rank()
        assert list(ranking) == list(again), f"step {t}"
        assert ranking.scores.tobytes() == again.scores.tobytes(), f"step {t}"
        clicks = [int(u < attraction[a]) for u, a in zip(generator.random(3), ranking, strict=True)]
        compiled.update(ranking, clicks)
        interpreted.update(again, clicks)
    assert compiled.scores() == interpreted.scores()
    assert compiled._floats.tobytes() == interpreted._floats.tobytes()
    assert compiled._ints.tobytes() == interpreted._ints.tobytes()


@pytest.mark.parametrize("name", others_are_slow(LEARNERS))
def test_beats_random(name: str) -> None:
    """The one check of the contract that needs many steps."""
    CHECKS["beats_random"](parse_policy(name))
