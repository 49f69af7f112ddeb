from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from driftrank.policies.contextual.cascade_lints import REBUILD, CascadeLinTS
from tests.policies.described import random_features, symmetric, together
from tests.policies.streams import repeat, state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def drawn(learner, keys):
    """The scores by which all items are ranked, a row for every key."""
    rows = []
    for key in keys:
        ranking = learner.rank(key=key)
        assert (np.diff(ranking.scores) <= 0).all()
        rows.append([dict(zip(ranking, ranking.scores, strict=True))[item] for item in learner.items])
    return np.array(rows)


@pytest.mark.parametrize("described", [True, False])
def test_draws_are_from_the_posterior(described):
    """N(X theta, v^2 X M^-1 X')."""
    x = random_features(4, 3, seed=2) if described else np.eye(4)
    learner = CascadeLinTS(v=0.7, sigma=0.8).start(list("abcd"), 4, features=x if described else None, seed=1)
    for clicked in ("a", None, "c", "b", None):
        learner.update(["a", "c", "b", "d"], clicked)
    rows = drawn(learner, range(4000))
    s = state(learner)
    inverse = np.linalg.inv(symmetric(s["M"]))
    mean, covariance = x @ s["theta"], 0.49 * x @ inverse @ x.T
    for a in range(4):
        spread = math.sqrt(covariance[a, a])
        assert stats.kstest(rows[:, a], stats.norm(mean[a], spread).cdf).pvalue > 1e-3
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.corrcoef(rows.T), covariance / np.outer(scale, scale), atol=0.06)


def test_one_draw_for_all_items():
    """Items that are alike score alike, and the score of a sum is the sum of the scores."""
    features = {"a": [1, 0], "again": [1, 0], "b": [0, 1], "both": [1, 1]}
    learner = CascadeLinTS().start(list(features), 4, features=features)
    learner.update(["a", "b"], "b")
    rows = drawn(learner, range(50))
    assert (rows[:, 0] == rows[:, 1]).all()
    np.testing.assert_allclose(rows[:, 3], rows[:, 0] + rows[:, 2], rtol=1e-13)
    assert len(np.unique(rows[:, 0])) == 50


def test_without_scatter_it_is_greedy():
    learner = CascadeLinTS(v=0).start(["a", "b", "c"], 3, features=[[1, 0], [0, 1], [0.5, 0.5]])
    learner.update(["a", "b"], "b")
    assert learner.rank() == ["b", "c", "a"]
    assert learner.rank().scores.tolist() == pytest.approx(sorted(learner.scores().values(), reverse=True))


POLICIES = [
    CascadeLinTS(),
    CascadeLinTS(v=0.2, sigma=0.5),
    CascadeLinTS(discount=0.9, feedback="all"),
    CascadeLinTS(discount="auto", order="increasing"),
    CascadeLinTS(half_life="30s", feedback="last"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spec)
@pytest.mark.parametrize("told", [True, False])
def test_same_lists_as_the_plain_version(policy, told):
    learner, plain = together(policy, told=told)
    np.testing.assert_allclose(state(learner)["theta"], plain.theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("policy", [CascadeLinTS(), CascadeLinTS(sigma=0.4), CascadeLinTS(half_life=1e9)])
def test_with_many_features_the_factor_is_patched(policy):
    """With 20 features and up to 2 observations; also with feedback at the same time, which forgets nothing."""
    learner, plain = together(policy, L=30, K=2, d=20)
    s = state(learner)
    assert (s["patched"][0] > 0) == (policy.half_life is None)
    np.testing.assert_allclose(s["R"].T @ s["R"], plain.M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(s["theta"], plain.theta, rtol=1e-10, atol=1e-12)
    for _ in range(3):
        learner.update([0, 1], item=1, now=1e6)
    assert s["patched"][0] > 0
    np.testing.assert_allclose(s["R"].T @ s["R"], symmetric(s["M"]), rtol=1e-12, atol=1e-12)
    learner.renew([3])
    assert s["patched"][0] == 0


@pytest.mark.compiled
def test_patches_do_not_pile_up():
    features = random_features(4, 20, seed=5)
    learner = CascadeLinTS().start(range(4), 2, features=features)
    s = state(learner)
    most = 0
    for n in range(30):
        repeat(learner, [n % 4, (n + 1) % 4], [0, 1], 1000)
        most = max(most, s["patched"][0])
        np.testing.assert_allclose(s["R"].T @ s["R"], symmetric(s["M"]), rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(s["inverse"], 1 / np.diag(s["R"]), rtol=1e-14)
    assert 1000 < most <= REBUILD + 2


@pytest.mark.parametrize("policy", POLICIES[1:3], ids=lambda policy: policy.spec)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1)])
def test_same_lists_without_features(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=300, seed=3)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "auto", None])
def test_bad_values(value):
    with pytest.raises(ValueError, match="v="):
        CascadeLinTS(v=value)
