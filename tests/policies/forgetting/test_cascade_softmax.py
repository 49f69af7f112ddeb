from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from driftrank.policies.base import RankingProblem
from driftrank.policies.forgetting.cascade_softmax import CascadeSoftmax
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from tests.policies.streams import feed, repeat, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def _with(h, k, temperature=1.0, **options):
    """A learner with these scores."""
    learner = CascadeSoftmax(learning="reinforce", temperature=temperature, **options).start(range(len(h)), k)
    state(learner)["h"][:] = h
    state(learner)["top"][0] = max(h)
    state(learner)["weight"][:] = np.exp((np.array(h) - max(h)) / temperature)
    return learner


def _probability(h, shown):
    """Of a list, straight from the definition; ``h`` by item."""
    left, out = dict(h), 1.0
    for a in shown:
        top = max(left.values())
        weight = {b: math.exp(x - top) for b, x in left.items()}
        out *= weight[a] / math.fsum(weight.values())
        del left[a]
    return out


def test_propensities_by_hand():
    """Weights 1, 2, 3: the first item with 1/6, 2/6, 3/6, the second among what is left."""
    learner = _with(np.log([1, 2, 3]), 2)
    by_hand = {(0, 1): (1, 6, 2, 5), (0, 2): (1, 6, 3, 5), (1, 0): (2, 6, 1, 4), (1, 2): (2, 6, 3, 4)}
    by_hand |= {(2, 0): (3, 6, 1, 3), (2, 1): (3, 6, 2, 3)}
    seen = set()
    for key in range(200):
        ranking = learner.rank(key=key)
        a, b, c, d = by_hand[tuple(ranking)]
        assert ranking.propensities == pytest.approx([a / b, c / d], rel=1e-14)
        assert ranking.propensity == pytest.approx(a * c / (b * d), rel=1e-14)
        seen.add(tuple(ranking))
    assert seen == set(by_hand)


def test_probabilities_of_all_lists_sum_to_one_and_are_those_of_many_draws():
    h, draws = np.array([0.4, 0.1, 0.55, 0.3, 0.25]), 6000
    learner = _with(h, 3, temperature=0.2)
    lists = {shown: _probability(dict(enumerate(h / 0.2)), shown) for shown in itertools.permutations(range(5), 3)}
    assert math.fsum(lists.values()) == pytest.approx(1)
    counts = dict.fromkeys(lists, 0)
    for key in range(draws):
        ranking = learner.rank(key=key)
        counts[tuple(ranking)] += 1
        assert ranking.propensity == pytest.approx(lists[tuple(ranking)], rel=1e-13)
    expected = np.array(list(lists.values())) * draws
    assert expected.min() > 1
    assert stats.chisquare(list(counts.values()), expected).pvalue > 1e-3


@given(
    st.lists(st.floats(-60, 60), min_size=6, max_size=6),
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(1, 4),
    st.integers(0, 2**64 - 1),
)
@settings(max_examples=200, deadline=None)
def test_propensities_are_exact_for_any_scores_candidates_and_length(h, candidates, k, key):
    learner = _with(h, 4)
    ranking = learner.rank(sorted(candidates), k=k, key=key)
    left = {a: h[a] for a in candidates}
    for i, a in enumerate(ranking):
        below = {b: x for b, x in left.items() if b not in ranking[:i]}
        assert ranking.propensities[i] == pytest.approx(_probability(below, [a]), rel=1e-12)
    assert ranking.propensity == pytest.approx(_probability(left, ranking), rel=1e-12)


def test_propensities_at_the_lowest_temperature():
    """Weights as small as e^-500 are still compared with each other."""
    learner = CascadeSoftmax(temperature=0.002, discount=1.0).start(range(4), 3)
    for item, clicks in enumerate((10, 5, 0, 0)):
        for n in range(10):
            learner.update([item], [int(n < clicks)])
    seen = {}
    for key in range(60):
        ranking = learner.rank(key=key)
        assert ranking[:2] == [0, 1]
        seen[ranking[2]] = ranking.propensities.tolist()
    assert seen == {2: [1.0, 1.0, 0.5], 3: [1.0, 1.0, 0.5]}


def test_weights_that_would_vanish_are_kept():
    learner = CascadeSoftmax(learning="reinforce", temperature=0.002, rate=1.0).start(range(4), 3)
    for _ in range(8):
        learner.update([0], [1])
        learner.update([1], [0])
    scores = learner.scores()
    assert (scores[0] - scores[1]) / 0.002 > 700
    ranking = learner.rank()
    assert ranking.propensities[0] == pytest.approx(1)
    assert all(0 < p <= 1 for p in ranking.propensities)


def test_propensities_of_the_time_of_ranking_stay():
    learner = CascadeSoftmax(learning="reinforce", rate=1.0).start(range(3), 2)
    ranking = learner.rank()
    before = ranking.propensities.copy()
    learner.update(ranking, 1)
    assert (ranking.propensities == before).all()
    assert ranking.propensities.tolist() == pytest.approx([1 / 3, 1 / 2])


def test_other_policies_have_none():
    ranking = CascadeUCB1().start(range(3), 2).rank()
    assert ranking.propensities is None
    assert ranking.propensity is None


def test_means_are_discounted():
    learner = CascadeSoftmax(discount=0.5).start(["a", "b", "c"], 2)
    assert learner.scores() == {"a": 1.0, "b": 1.0, "c": 1.0}  # never observed
    learner.update(["a", "b"], "b")
    learner.update(["a", "b"], "a")
    assert learner.scores() == pytest.approx({"a": 2 / 3, "b": 1.0, "c": 1.0})
    learner.update(["a", "b"], None)  # (0 + .5 + 0) / (.25 + .5 + 1) and .5^2 / (.5^2 + 1)
    assert learner.scores() == pytest.approx({"a": 0.5 / 1.75, "b": 0.25 / 1.25, "c": 1.0})


def test_gradient_by_hand():
    """Three items alike, shown 0 then 1, click on 1: pi_1 = (1/3, 1/3, 1/3), pi_2 = (-, 1/2, 1/2), reward 1, b = 0."""
    learner = CascadeSoftmax(learning="reinforce", rate=0.6).start(range(3), 2)
    learner.update([0, 1], [0, 1])
    assert learner.scores() == pytest.approx({0: 0.6 * 2 / 3, 1: 0.6 * (1 / 2 - 1 / 3), 2: -0.6 * (1 / 3 + 1 / 2)})
    learner = CascadeSoftmax(learning="reinforce", rate=0.6).start(range(3), 2)
    learner.update([0, 1], [1, 0])  # only the first position was observed
    assert learner.scores() == pytest.approx({0: 0.4, 1: -0.2, 2: -0.2})


def test_baseline_is_the_mean_reward_before():
    learner = CascadeSoftmax(learning="reinforce", discount=1.0).start(range(3), 1)
    for n, clicked in enumerate([1, 0, 0, 1, 1, 0], 1):
        learner.update([0], [clicked])
        assert state(learner)["baseline"][0] == pytest.approx(np.mean([1, 0, 0, 1, 1, 0][:n]))
    before = learner.scores()
    learner.update([0], [1])  # 1/2 more than the baseline
    pi = 1 / (1 + 2 * math.exp(before[1] - before[0]))
    assert learner.scores()[0] - before[0] == pytest.approx(0.1 * 0.5 * (1 - pi))
    # a discounted mean forgets
    learner = CascadeSoftmax(learning="reinforce", discount=0.5).start(range(3), 1)
    for clicked in (1, 1, 0):
        learner.update([0], [clicked])
    assert state(learner)["baseline"][0] == pytest.approx((0.25 + 0.5) / 1.75)


def test_scores_of_the_gradient_keep_their_sum():
    learner = CascadeSoftmax(learning="reinforce").start(range(5), 3)
    for t in range(300):
        ranking = learner.rank()
        learner.update(ranking, t % 4 + 1)
    assert sum(learner.scores().values()) == pytest.approx(0, abs=1e-12)
    assert max(learner.scores().values()) > 0.1


@given(streams(4, 3))
@settings(max_examples=30, deadline=None)
def test_scores_are_those_of_the_plain_version(stream):
    for policy in (CascadeSoftmax(discount=0.9), CascadeSoftmax(learning="reinforce", discount=0.9, temperature=0.3)):
        learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
        feed(stream, learner, plain)
        assert list(learner.scores().values()) == pytest.approx(plain.score().tolist(), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    "policy",
    [
        CascadeSoftmax(),
        CascadeSoftmax(temperature=0.3, discount=0.9, feedback="last"),
        CascadeSoftmax(half_life=50),
        CascadeSoftmax(learning="reinforce"),
        CascadeSoftmax(learning="reinforce", temperature=0.2, rate=0.05, feedback="all"),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K", "told"), [(7, 3, True), (3, 3, True), (5, 1, False)])
def test_same_lists_as_the_plain_version(policy, L, K, told):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=300, seed=3, told=told)


def test_restart_resets_scores_and_baseline():
    policy = CascadeSoftmax(learning="reinforce", discount="doubling", restart=True)
    assert_same_lists(policy, reference_of(policy), L=5, K=2, steps=300, seed=1)
    learner = policy.start(range(3), 1)
    learner.update([0], [1])  # the next step is the second
    assert set(learner.scores().values()) == {0.0}
    assert state(learner)["baseline"][0] == 0.0


def test_long_streams_stay_finite():
    learner = CascadeSoftmax(discount=0.5).start(range(3), 2)
    repeat(learner, [0, 1], [0, 1], 3000)  # a unit of 2^3000
    assert learner.scores() == {0: 0.0, 1: 1.0, 2: 1.0}


def test_auto_temperature():
    for learning, T in (("boltzmann", 0.05), ("reinforce", 1.0)):
        numbers = CascadeSoftmax(learning=learning).parameters(RankingProblem(4, 2, 100, 100))
        assert numbers["inverse"] == 1 / T
    assert CascadeSoftmax(temperature=0.25).parameters(RankingProblem(4, 2))["inverse"] == 4.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", v) for v in (0, 0.001, -1, math.nan, math.inf, "cold", None, True)),
        *(("rate", v) for v in (0, -1, math.nan, math.inf, "fast", None)),
        *(("learning", v) for v in ("q", None, 0.5)),
        ("order", "increasing"),
        ("discount", 0),
    ],
)
def test_bad_values(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeSoftmax(**{name: value})
