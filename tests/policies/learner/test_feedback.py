"""Which positions teach a policy something: feedback "first", "last" and "all"."""

from __future__ import annotations

import dataclasses

import pytest

import driftrank as dr
from driftrank.clickmodels import DCM
from driftrank.engine.contract import check_simulation
from driftrank.environments import Abrupt
from driftrank.policies.registry import policies
from tests.policies.streams import state

OURS = {name: cls for name, cls in policies().items() if cls.__module__.startswith("driftrank.") and not cls.oracle}
FREE = [name for name, cls in OURS.items() if any(f.name == "feedback" for f in dataclasses.fields(cls))]
pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def learnt(policy, shown, clicks):
    """A learner after one list, which is not its first: some restart after very few."""
    learner = policy.start(range(7), 4, seed=3, horizon=1000)
    for _ in range(3):
        learner.update([0], [0])
    learner.update(shown, clicks)
    return learner


def bits(learner):
    return learner._floats.tobytes(), learner._ints.tobytes()


@pytest.mark.parametrize("name", [name for name in FREE if name != "Random"])
def test_observed_positions(name):
    """List (1, 2, 3, 4), clicks 0110. "first" stops at item 2; "last" at item 3, with the labels 0, 1, 1; "all" sees
    item 4 not clicked. What stands further down does not matter, and what is observed does."""
    for mode, observed, others, their_clicks in (
        ("first", 2, [1, 2, 5, 6], [0, 1, 0, 1]),
        ("last", 3, [1, 2, 3, 5], [0, 1, 1, 0]),
        ("all", 4, [1, 2, 3, 4], [0, 1, 1, 0]),
    ):
        policy = OURS[name](feedback=mode)
        learner = learnt(policy, [1, 2, 3, 4], [0, 1, 1, 0])
        assert bits(learnt(policy, others, their_clicks)) == bits(learner), f"{mode}: what stands below has a say"
        others = [6 if a == observed else a for a in (1, 2, 3, 4)]
        assert bits(learnt(policy, others, [0, 1, 1, 0])) != bits(learner), f"{mode}: position {observed} has no say"
        counts = state(learner)
        if {"N", "X"} <= set(counts) and counts["N"].shape == (7,):
            assert (counts["N"] > 0).tolist() == [a <= observed for a in range(7)], mode
            assert (counts["X"] > 0).tolist() == [a in (2, 3) and a <= observed for a in range(7)], mode


@pytest.mark.parametrize("name", FREE)
def test_without_a_click_everything_is_observed(name):
    states = {bits(learnt(OURS[name](feedback=mode), [1, 2, 3, 4], None)) for mode in ("first", "last", "all")}
    assert len(states) == 1


def test_policies_with_fixed_feedback():
    for name in set(OURS) - set(FREE):
        assert OURS[name].feedback == "all"
        assert '``"all"``' in OURS[name].__doc__, name


def test_defaults():
    """Those for the cascade model stop at the first click, those for users who may go on at the last."""
    for name in FREE:
        assert OURS[name]().feedback == ("last" if "DCM" in name or name == "PriorRegimeTS" else "first")


def test_the_simulator_observes_the_same():
    """Users who click several times; the three modes lead to different lists."""
    world = Abrupt({"q": [0.7, 0.5, 0.45, 0.3, 0.2, 0.1]}, k=3, period=150, click_model=DCM(stop_after_click=0.4))
    for mode in ("first", "last", "all"):
        check_simulation(dr.CascadeUCB1(feedback=mode), steps=300, environment=world)
    specs = [f"CascadeUCB1:feedback={mode}" for mode in ("first", "last", "all")]
    result = dr.simulate(specs, world, horizon=300, progress=False)
    assert len({result.regret(label) for label in result.labels}) == 3
