from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import driftrank as dr
from driftrank.environments import Abrupt, Recurring
from driftrank.policies.alarms import Alarm
from driftrank.policies.base import RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.regime.cascade_regime_ts import CascadeRegimeTS
from tests.policies.streams import feed, state, streams
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists


def labels(learner, item, ys):
    for y in ys:
        learner.update([item], clicks=[y])


def weights(learner, item=0):
    fields = state(learner)
    return fields["W"][item, : fields["held"][item]]


def test_first_labels_by_hand():
    """Three labels of one of three items, y = 0, 1, 1. h(1) = .5/1003."""
    learner = CascadeRegimeTS().start(range(3), 1)
    h = 0.5 / 1003
    labels(learner, 0, [0])
    assert state(learner)["Q"][0, 1] == pytest.approx(1 - math.exp(-h)) == pytest.approx(4.983803e-4, rel=1e-6)
    assert weights(learner) == pytest.approx([0.999501620, 0.000498380], abs=5e-10)
    labels(learner, 0, [1])
    fields = state(learner)
    assert (fields["S"][0, :3].tolist(), fields["F"][0, :3].tolist()) == ([1, 1, 1], [1, 1, 0])
    assert weights(learner) == pytest.approx([0.998508820, 0.000497885, 0.000993295], abs=5e-10)
    labels(learner, 0, [1])
    assert weights(learner) == pytest.approx([0.997518971, 0.000497392, 0.001488466, 0.000495172], abs=5e-10)


@pytest.mark.parametrize("quiet", [0, 1])
def test_a_change_is_declared(quiet):
    """Fifty skips, then clicks (or the mirror image): declared at the fourth, born at the first."""
    learner = CascadeRegimeTS().start(range(3), 1)
    labels(learner, 0, [quiet] * 50)
    fields = state(learner)
    ages = (fields["S"] + fields["F"])[0].astype(int).tolist()
    assert ages == [50, 37, 31, 25, 22, 19, 16, 13, 10, 8, 7, 6, 5, 4, 3, 2, 1]
    assert weights(learner)[0] == pytest.approx(0.996177, abs=5e-7)
    for step, expected in ((51, 0.958897), (52, 0.560304), (53, 0.074494)):
        labels(learner, 0, [1 - quiet])
        assert learner.steps == step
        assert weights(learner)[0] == pytest.approx(expected, abs=5e-7)
        assert learner.alarms == []
    labels(learner, 0, [1 - quiet])
    fields = state(learner)
    assert learner.alarms == [Alarm(54, 0, False)]
    assert fields["T"][0, 0] == 51
    assert (fields["S"][0, 0], fields["F"][0, 0]) == ((0, 4) if quiet else (4, 0))
    assert weights(learner)[0] == pytest.approx(0.989108, abs=5e-7)
    assert (fields["changes"][0], fields["events"][0]) == (1, 1)
    assert fields["pending"].tolist() == [0, 0.5, 0.5]
    labels(learner, 0, [1])  # the next hazard is 1.5 / (1000 + 3 * 55)
    q = state(learner)["Q"][0, state(learner)["held"][0] - 1]
    assert q == pytest.approx(1 - math.exp(-0.0012875536), rel=1e-6)


def unseen_since_100():
    """Ten items, step 600 to come; all were skipped at steps 91 to 100, item 0 at every step."""
    learner = CascadeRegimeTS().start(range(10), 10)
    for t in range(1, 600):
        items = list(range(10)) if 90 < t <= 100 else [0]
        learner.update(items, clicks=[0] * len(items))
    return learner


def test_an_item_unseen_for_long_may_have_changed():
    """499 full steps at the hazard .5/7000: probability .0350151, which moves the score towards the prior's 1/2."""
    learner = unseen_since_100()
    fields = state(learner)
    mean = weights(learner, 9) @ ((fields["S"] + 0.5) / (fields["S"] + fields["F"] + 1))[9, : fields["held"][9]]
    q = (learner.scores()[9] - mean) / (0.5 - mean)
    assert q == pytest.approx(0.0350151, abs=5e-8)


@pytest.mark.compiled
def test_an_item_unseen_for_long_is_drawn_from_the_prior():
    """At the hazard v/7000: with probability 1 - exp(-v 499/7000), otherwise from its posterior, which is low."""
    learner = unseen_since_100()
    n = 10_000
    high = np.mean([_score(learner, key, 9) > 0.6 for key in range(n)])
    q = 1 - math.exp(-CascadeRegimeTS().vigilance * 499 / 7000)
    expected = q * stats.beta(0.5, 0.5).sf(0.6)
    assert high == pytest.approx(expected, abs=4 * math.sqrt(expected / n))
    assert expected - 4 * math.sqrt(expected / n) > 0  # else the test could not fail


def _score(learner, key, item):
    ranking = learner.rank(key=key)
    return ranking.scores[ranking.index(item)]


@pytest.mark.parametrize(
    "policy",
    [
        CascadeRegimeTS(),
        CascadeRegimeTS(order="natural", feedback="last"),
        CascadeRegimeTS(hypotheses=4, joint_every=1, regimes=0, feedback="all"),
        CascadeRegimeTS(hazard_steps=20, vigilance=1, regimes=2, joint_every=5, comeback=0.5),
    ],
    ids=lambda policy: policy.spec,
)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1), (1, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=500, seed=3)


def test_same_regimes_as_the_plain_version():
    """A world that goes to and fro, long enough for regimes to be kept and recalled."""
    policy = CascadeRegimeTS(regimes=2)
    learner, plain = policy.start(range(5), 2), reference_of(policy)(5, 2)
    users = np.random.default_rng(0)
    worlds = np.array([[0.9, 0.6, 0.1, 0.1, 0.05], [0.1, 0.1, 0.2, 0.9, 0.7], [0.05, 0.8, 0.1, 0.1, 0.9]])
    for t in range(1, 9001):
        alpha = worlds[[0, 1, 0, 2, 1, 0][(t - 1) // 1500]]
        ranking = learner.rank()
        attracted = [int(u < alpha[a]) for u, a in zip(users.random(2), ranking, strict=True)]
        clicks = [attracted[0], int(attracted[1] and not attracted[0])]
        learner.update(ranking, clicks)
        plain.update(t, list(ranking), clicks)
    recalls = [t for t, item in plain.alarms if item is None]
    assert len(recalls) >= 2
    assert [(a.step, a.item) for a in learner.alarms] == plain.alarms[-64:]
    fields = state(learner)
    assert fields["belief"].tolist() == pytest.approx(plain.belief, abs=1e-9)
    assert fields["visits"].tolist() == [regime["visits"] for regime in plain.kept]
    for g, regime in enumerate(plain.kept):
        assert np.column_stack([fields["kept_S"][g], fields["kept_F"][g]]).tolist() == [
            list(c) for c in regime["counts"]
        ]


@given(streams(4, 3))
@settings(max_examples=20, deadline=None)
def test_filters_are_those_of_the_plain_version(stream):
    policy = CascadeRegimeTS(hypotheses=3, hazard_steps=50.0)
    learner, plain = policy.start(range(4), 3), reference_of(policy)(4, 3)
    feed(stream, learner, plain)
    fields = state(learner)
    for a, item in enumerate(plain.items):
        assert fields["held"][a] == len(item.held)
        for k, h in enumerate(item.held):
            assert (fields["S"][a, k], fields["F"][a, k], fields["T"][a, k]) == (h.S, h.F, h.T)
            assert fields["W"][a, k] == pytest.approx(h.W, rel=1e-9)
        assert weights(learner, a).sum() == pytest.approx(1.0)


def test_challengers_go_first_and_nothing_else_changes():
    """Both orders show the same set; in the first one, what stands above the rest is not among the best by mean."""
    first, natural = CascadeRegimeTS().start(range(8), 3), CascadeRegimeTS(order="natural").start(range(8), 3)
    users = np.random.default_rng(1)
    alpha = np.linspace(0.6, 0.1, 8)
    moved = 0
    for _ in range(400):
        a, b = first.rank(), natural.rank()
        assert sorted(a) == sorted(b)
        assert list(natural.rank().scores) == sorted(natural.rank().scores, reverse=True)
        moved += list(a) != list(b)
        clicks = [int(users.random() < alpha[i]) for i in a]
        clicks = [int(c and not any(clicks[:i])) for i, c in enumerate(clicks)]
        first.update(a, clicks)
        natural.update(list(a), clicks)
    assert moved > 20


@pytest.mark.slow
def test_a_regime_comes_back(yandex40):
    """With two alternating regimes, memory saves a third of the regret or more."""
    env = Recurring(yandex40, k=3)
    result = dr.simulate(
        [CascadeRegimeTS(), CascadeRegimeTS(regimes=0)], env, horizon=40_000, runs=1, checkpoints=1, progress=False
    )
    with_memory, without = (result.regret(label) for label in result.labels)
    assert with_memory < 0.75 * without


def test_no_false_alarm_without_change(yandex40):
    env = dr.environments.Stationary(yandex40, k=3)
    result = dr.simulate(["CascadeRegimeTS"], env, horizon=20_000, checkpoints=1, progress=False)
    assert result.between("CascadeRegimeTS", measure="alarms")[0] < 0.2


def test_every_breakpoint_of_the_papers_world_is_found(yandex40):
    result = dr.simulate(["CascadeRegimeTS"], Abrupt(yandex40, k=3), horizon=40_000, checkpoints=1, progress=False)
    found = result.between("CascadeRegimeTS", measure="detected")[0]
    assert found > 2.9
    assert result.between("CascadeRegimeTS", measure="delay")[0] / found < 300
    assert result.between("CascadeRegimeTS", measure="false_alarms")[0] < 1


@pytest.mark.parametrize(("L", "K"), [(10, 3), (50, 5), (1000, 20)])
def test_state_has_the_documented_size(L, K):
    M, G = 16, 4
    floats, ints = CompiledPolicy.of(CascadeRegimeTS(), RankingProblem(L, K, 10**6, 10**6)).layout.sizes
    assert floats == 5 * L * (M + 1) + 3 * L + 2 * G * L + 3 * G + 70
    assert ints == L + 67


def test_new_items_start_fresh():
    learner = CascadeRegimeTS().start(["a", "b", "c"], 1, seed=0)
    labels(learner, "a", [0] * 30)
    learner.add_items(["d", "e"])
    assert learner.scores()["d"] == learner.scores()["e"] == pytest.approx(0.5)
    learner.renew(["a"])
    assert learner.scores()["a"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a0", 0), ("b0", -1), ("sharpness", 0), ("vigilance", -0.1), ("hazard_changes", 0), ("hazard_steps", 0),
        ("hypotheses", 1), ("declare_below", 0.9), ("co_changes", -1), ("joint_every", -1), ("regimes", -1),
        ("comeback", 2), ("comeback_events", 0), ("order", "best"), ("feedback", "none"),
    ],
)  # fmt: skip
def test_bad_values_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        CascadeRegimeTS(**{name: value})
