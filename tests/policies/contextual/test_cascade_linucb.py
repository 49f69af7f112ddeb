from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

import driftrank as dr
from driftrank.kernels import pure
from driftrank.policies.base import RankingProblem
from driftrank.policies.contextual.cascade_linucb import CascadeLinUCB, confidence
from tests.policies.described import plain_version, random_features, together
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer
FEATURES = random_features(5, 3)


def test_confidence_of_the_specification():
    assert pure(confidence)(2, 3, 1.0, 100.0, 100.0) == pytest.approx(5.6305642, abs=5e-8)
    numbers = CascadeLinUCB().parameters(RankingProblem(10, 3, 100, 100, features=2))
    assert numbers["c"] == pytest.approx(5.6305642, abs=5e-8)


def test_index_by_hand():
    """As in the test of theta: x' M^-1 x = 1.64/3.64 for both items."""
    learner = CascadeLinUCB(c=0.5).start(["a", "b"], 2, features={"a": [1, 0], "b": [0.6, 0.8]})
    assert learner.scores() == pytest.approx({"a": 0.5, "b": 0.5}, abs=1e-15)
    learner.update(["a", "b"], "b")
    width = 0.5 * math.sqrt(1.64 / 3.64)
    assert learner.scores() == pytest.approx({"a": 0.6 / 3.64 + width, "b": 1.64 / 3.64 + width}, abs=1e-14)
    assert learner.rank() == ["b", "a"]


def test_no_index_is_larger_than_one():
    learner = CascadeLinUCB(c=3).start(["a", "b"], 1, features=[[1, 0], [0, 1]])
    assert set(learner.scores().values()) == {1.0}
    learner.update(["a"], "a")
    assert learner.scores()["a"] == 1.0
    assert {learner.rank(key=key)[0] for key in range(30)} == {"a", "b"}  # ties are broken at random


POLICIES = [
    CascadeLinUCB(),
    CascadeLinUCB(c=0.3),
    CascadeLinUCB(c=0.5, sigma=0.4),
    CascadeLinUCB(c=0.5, discount=0.9),
    CascadeLinUCB(c=0.5, discount=0.9, radius="simple"),
    CascadeLinUCB(c=0.2, discount=0.95, feedback="last"),
    CascadeLinUCB(discount="auto", sigma=0.5),
    CascadeLinUCB(c=0.3, half_life=20),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spec)
@given(stream=streams(5, 3))
@settings(max_examples=10, deadline=None)
def test_index_is_that_of_numpy(policy, stream):
    learner, plain = policy.start(range(5), 3, features=FEATURES), plain_version(policy, 5, 3, FEATURES)
    feed(stream, learner, plain)
    expected = plain.index(len(stream) + 1)
    np.testing.assert_allclose(list(learner.scores().values()), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spec)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    learner, plain = together(policy, told=told)
    np.testing.assert_allclose(list(learner.scores().values()), plain.index(301), rtol=1e-9)
    if policy is POLICIES[1]:
        assert max(learner.scores().values()) < 1


@pytest.mark.parametrize("policy", [POLICIES[1], POLICIES[3], POLICIES[4]], ids=lambda policy: policy.spec)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (5, 1)])
def test_same_lists_without_features(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=300, seed=3)


def test_confidence_grows_without_a_horizon():
    learner = CascadeLinUCB().start(range(4), 2, features=FEATURES[:4])
    assert learner.compiled.row[sorted(learner.policy.parameters(RankingProblem(4, 2))).index("c")] == -1
    known = [CascadeLinUCB().parameters(RankingProblem(4, 2, n, n, 3))["c"] for n in (1, 10, 100)]
    assert known == sorted(known)
    s = state(learner)
    for t in range(1, 60):
        c = math.sqrt(3 * math.log(1 + t * 2 / 3) + 2 * math.log(2 * t)) + 1
        expected = np.minimum(1, s["mean"] + c * s["width"])
        np.testing.assert_allclose(list(learner.scores().values()), expected, rtol=1e-13)
        learner.update([t % 4], 2)


def test_discounted_confidence_counts_discounted_steps():
    """gamma = .5: 1 + 1/4 + 1/16 + ... = 4/3 steps under the first logarithm, n = 1000 under the second."""
    c = CascadeLinUCB(discount=0.5).parameters(RankingProblem(10, 3, 1000, 1000, features=2))["c"]
    assert c == pytest.approx(math.sqrt(2 * math.log(1 + 4 / 3 * 3 / 2) + 2 * math.log(3000)) + 1, rel=1e-14)


def test_exact_radius_is_never_larger():
    exact, simple = (CascadeLinUCB(discount=0.9, radius=r).start(range(8), 3, features=random_features(8, 4))
                     for r in ("exact", "simple"))  # fmt: skip
    generator = np.random.default_rng(0)
    for _ in range(60):
        shown = generator.permutation(8)[:3].tolist()
        for learner in (exact, simple):
            learner.update(shown, [0, 0, 0])
        assert (state(exact)["width"] <= state(simple)["width"] * (1 + 1e-12)).all()
    assert (state(exact)["width"] < 0.95 * state(simple)["width"]).all()


@pytest.mark.compiled
@pytest.mark.slow
def test_beats_policies_that_know_no_features_in_a_linear_world():
    """200 items, 5 features, 2 queries, 2 runs: with nothing tuned, less than half of CascadeTS's regret."""
    env = dr.environments.LinearFeatures(L=200, K=5, d=5, n_queries=2)
    policies = ["CascadeLinUCB", "CascadeLinTS", "CascadeTS"]
    result = dr.simulate(policies, env, horizon=4000, runs=2, seed=1, progress=False)
    ucb, ts, plain = map(result.regret, policies)
    assert ucb < plain / 2
    assert ts < plain / 3


@pytest.mark.compiled
@pytest.mark.slow
def test_discounting_pays_when_the_world_changes():
    env = dr.environments.LinearFeatures(L=100, K=5, d=5, n_queries=2, period=2000)
    policies = ["CascadeLinUCB:c=1.0", "CascadeLinUCB:c=1.0,discount=0.998"]
    policies += ["CascadeLinTS", "CascadeLinTS:discount=0.998"]
    result = dr.simulate(policies, env, horizon=10_000, runs=2, seed=1, progress=False)
    ucb, forgetful_ucb, ts, forgetful_ts = map(result.regret, result.labels)
    assert forgetful_ucb < 0.7 * ucb
    assert forgetful_ts < 0.7 * ts


@pytest.mark.parametrize(("name", "value"), [("c", -1), ("c", "wide"), ("c", None), ("radius", "exakt")])
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeLinUCB(**{name: value})
