"""Features: how they are given, and how they reach a policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import driftrank as dr
from driftrank.engine import Simulator, Task, Unit
from driftrank.engine.contract import check_simulation
from driftrank.policies.contextual.cascade_lints import CascadeLinTS
from driftrank.policies.learner.features import MOST_WITHOUT, feature_rows, one_hot
from driftrank.policies.stationary.cascade_ts import CascadeTS
from tests.policies.streams import state

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer
GIVEN = {"a": [1, 0.5], "b": [0, 1], "c": [-1, 2]}


@pytest.fixture
def learner():
    return CascadeLinTS().start(["a", "b", "c"], 2, features=GIVEN)


def bits(learner):
    return learner._floats.tobytes(), learner._ints.tobytes()


def test_rows_from_a_mapping_or_from_vectors():
    rows = feature_rows(["c", "a"], GIVEN | {"unused": [0, 0]})
    assert rows.tolist() == [[-1, 2], [1, 0.5]]
    assert rows.dtype == np.float64
    assert feature_rows([7, 8], [[1], [True]]).tolist() == [[1], [1]]
    assert feature_rows([7, 8], np.eye(2, dtype=int)).tolist() == [[1, 0], [0, 1]]
    assert feature_rows(["x"], ((1, 2, 3),), width=3).tolist() == [[1, 2, 3]]


def test_rows_are_a_copy():
    given = np.eye(2)
    feature_rows(["a", "b"], given)[0, 0] = 5
    assert given[0, 0] == 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"a": [1, 0]}, r"features: must be a vector of numbers for every item \(missing for item 'b'\)"),
        ({"a": [1, 0], "b": [1]}, "features: must be a vector of numbers for every item"),
        ([[1, 0], ["x", 1]], "features: must be a vector of numbers for every item"),
        ([[1, 0], [1j, 1]], "features: must be a vector of numbers for every item"),
        ([[1, 0]], r"features: must be 2 vectors of one length, not of shape \(1, 2\)"),
        ([1, 0], r"features: must be 2 vectors of one length, not of shape \(2,\)"),
        (3, "features: must be 2 vectors"),
        ([[], []], r"features: must be 2 vectors of one length, not of shape \(2, 0\)"),
        (np.zeros((2, 2, 2)), "features: must be 2 vectors"),
        ([[1, 0], [1, np.nan]], "features: must be finite numbers"),
        ([[1, 0], [1, None]], "features: must be finite numbers"),
        ([[1, 0], [-np.inf, 1]], "features: must be finite numbers"),
        ([[1, 0], [1, 1e101]], "features: must be finite numbers with absolute values up to 1e\\+100"),
    ],
)
def test_bad_features(features, message):
    for policy in (CascadeLinTS(), dr.CascadeLinUCB()):
        with pytest.raises(ValueError, match=message):
            policy.start(["a", "b"], 1, features=features)


def test_features_for_a_policy_that_uses_none():
    with pytest.raises(ValueError, match=r"features: CascadeTS:a0=2.0 does not use features"):
        CascadeTS(a0=2.0).start(["a", "b", "c"], 1, features=GIVEN)
    learner = CascadeTS().start(["a", "b"], 1)
    for call in (learner.add_items, learner.renew):
        with pytest.raises(ValueError, match="features: CascadeTS does not use features"):
            call(["c"] if call == learner.add_items else ["a"], features=[[1, 2]])
    assert learner.items == ["a", "b"]


def test_features_are_stored_by_slot(learner):
    assert state(learner)["features"].tolist() == list(GIVEN.values())
    learner.remove_items(["a"])
    learner.add_items(["d", "e"], features={"e": [5, 5], "d": [4, 4]})
    assert state(learner)["features"].tolist() == [[4, 4], [0, 1], [-1, 2], [5, 5]]
    assert state(learner)["columns"].tolist() == [[4, 0, -1, 5], [4, 1, 2, 5]]
    learner.renew(["b", "c"], features=[[7, 7], [8, 8]])
    assert state(learner)["features"].tolist() == [[4, 4], [7, 7], [8, 8], [5, 5]]
    learner.renew(["b"])
    assert state(learner)["features"][1].tolist() == [7, 7]


def test_new_items_need_as_many_features(learner):
    before = bits(learner)
    for features, message in (
        (None, "features: must be given, as for the other items"),
        ([[1, 2, 3]], "features: must be vectors of 2 numbers, as for the other items, not 3"),
        ({"x": [1, 2]}, "missing for item 'd'"),
        ([[1, np.nan]], "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.add_items(["d"], features=features)
        if features is not None and "d" not in features:
            with pytest.raises(ValueError, match=message.replace("'d'", "'a'")):
                learner.renew(["a"], features=features)
    assert learner.items == ["a", "b", "c"]
    assert bits(learner) == before
    learner.add_items([])
    assert bits(learner) == before


def test_without_features_items_are_one_hot():
    learner = CascadeLinTS().start(["a", "b", "c"], 2)
    assert state(learner)["features"].tolist() == np.eye(3).tolist()
    with pytest.raises(ValueError, match="features: the other items of this learner have none"):
        learner.add_items(["d"], features=[[1, 0, 0]])
    learner.remove_items(["b"])
    learner.add_items(["d", "e"])
    assert state(learner)["features"].tolist() == np.eye(4).tolist()


def test_too_many_items_without_features():
    with pytest.raises(ValueError, match=r"features: must be given for more than 64 items \(there are 65\)"):
        CascadeLinTS().start(range(MOST_WITHOUT + 1), 1)
    learner = CascadeLinTS().start(range(MOST_WITHOUT), 1)
    before, ranking = bits(learner), learner.rank()
    with pytest.raises(ValueError, match="features: must be given for more than 64 items"):
        learner.add_items([64])
    assert len(learner.items) == 64
    assert (bits(learner), learner.rank()) == (before, ranking)
    learner.remove_items([3])
    learner.add_items(["new"])  # in its place
    assert len(learner.items) == len(one_hot(64))


# -- simulation --------------------------------------------------------------------------------------------------------


class _Described(dr.environments.Stationary):
    """Four items, with two features each."""

    def features(self, query=0):
        return np.array([[1, 0], [0, 1], [0.6, 0.8], [0.8, 0.6]])


def test_the_simulator_uses_features_of_the_environment():
    world = {"q": [0.1, 0.2, 0.3, 0.4]}
    task = Task((CascadeLinTS(), CascadeTS()), _Described(world, k=2), 10, 0, (10,))
    assert task.problem("q", task.policies[0]).features == 2
    assert task.problem("q", task.policies[1]).features == 0
    assert task.features("q").tolist() == _Described(world, k=2).features().tolist()
    plain = replace(task, environment=dr.environments.Stationary(world, k=2))
    assert plain.problem("q", task.policies[0]).features == 4
    assert plain.features("q").tolist() == np.eye(4).tolist()


def test_features_reach_the_policy_in_a_simulation():
    """Items 0 and 3 have one feature, 1 and 2 the other: described, they are learnt faster."""
    alpha = [0.6, 0.1, 0.1, 0.6] * 10

    class _Two(dr.environments.Stationary):
        def features(self, query=0):
            return np.array([[1, 0], [0, 1], [0, 1], [1, 0]] * 10)

    def regret(environment):
        return dr.simulate(["CascadeLinTS"], environment, horizon=300, runs=3, progress=False).regret("CascadeLinTS")

    assert regret(_Two({"q": alpha}, k=2)) < 0.3 * regret(dr.environments.Stationary({"q": alpha}, k=2))


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["CascadeLinTS:discount=0.99", "CascadeLinUCB:c=0.5,discount=0.99"])
def test_simulator_and_learner_agree(spec):
    policy = dr.policies.registry.parse_policy(spec)
    check_simulation(policy, steps=200, environment=dr.environments.LinearFeatures(L=20, K=3, d=4, period=100))


def test_a_simulation_with_too_many_items_and_no_features():
    env = dr.environments.Stationary({"q": [0.1] * 65}, k=2)
    with pytest.raises(ValueError, match="features: must be given for more than 64 items"):
        Simulator(Task((CascadeLinTS(),), env, 10, 0, (10,)), 0).run(Unit(0, "q", (0,)), lambda done: True)
