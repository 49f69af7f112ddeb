from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from driftrank.policies.stationary.ts_cascade import TSCascade
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def _deviation(learner):
    """sigma of the coming step, by slot."""
    s, f = state(learner), np.log(learner.steps + 2)
    return np.maximum(np.sqrt(f) * s["root"], f * s["share"])


@pytest.mark.parametrize(("N", "sigma"), [(9, 0.4605170), (99, 0.1072983)])
def test_deviation_by_hand(N, sigma):
    """mu = .5 at t = 99; half a click is put there, for N is odd."""
    plain = reference_of(TSCascade())(2, 1)
    plain.X[0], plain.N[0] = N / 2, N
    assert plain.deviation(99)[0] == pytest.approx(sigma, abs=5e-8)
    learner = TSCascade().start(["a", "b"], 1)
    state(learner)["X"][0], state(learner)["N"][0] = N / 2 - 1, N - 1
    learner.update(["a"], "a")
    learner.steps = 98
    assert _deviation(learner)[0] == pytest.approx(sigma, abs=5e-8)


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_state_is_that_of_the_plain_version(stream):
    policy = TSCascade()
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    assert list(learner.scores().values()) == pytest.approx(plain.mu.tolist(), abs=1e-13)
    assert _deviation(learner) == pytest.approx(plain.deviation(len(stream) + 1), rel=1e-12)


def test_one_normal_number_moves_all_items():
    learner = TSCascade().start(["a", "b", "c"], 3)
    for clicked in ("a", None, None, "b"):
        learner.update(["a", "b"], clicked)
    sigma, mean = _deviation(learner), state(learner)["mean"]
    drawn = []
    for key in range(2000):
        ranking = learner.rank(key=key)
        slots = ["abc".index(item) for item in ranking]
        z = (ranking.scores - mean[slots]) / sigma[slots]
        assert z == pytest.approx([z[0]] * 3, rel=1e-9)
        drawn.append(z[0])
        # c was never observed and has the widest range: first or last of the three
        if abs(z[0]) > 1:
            assert ranking[0 if z[0] > 0 else 2] == "c"
    assert stats.kstest(drawn, stats.norm.cdf).pvalue > 1e-3


def test_indices_are_not_clipped():
    learner = TSCascade().start(["a", "b"], 2)
    best = max(learner.rank(key=key).scores[0] for key in range(200))
    worst = min(learner.rank(key=key).scores[1] for key in range(200))
    assert best > 1.2
    assert worst < -1.2


@pytest.mark.parametrize(
    "policy", [TSCascade(), TSCascade(feedback="all"), TSCascade(order="increasing")], ids=lambda policy: policy.spec
)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=400, seed=3)


@pytest.mark.parametrize("name", ["ties", "feedback", "order"])
def test_bad_values(name):
    with pytest.raises(ValueError, match=name):
        TSCascade(**{name: "none"})
