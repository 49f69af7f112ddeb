"""The regression that CascadeLinUCB and CascadeLinTS share; here it is CascadeLinTS's."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from driftrank.policies.base import RankingProblem
from driftrank.policies.contextual.cascade_lints import CascadeLinTS
from driftrank.policies.contextual.cascade_linucb import CascadeLinUCB
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.learner import load
from driftrank.policies.oracles import OracleRestart
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from tests.policies.described import plain_version, random_features, symmetric
from tests.policies.streams import feed, repeat, state, streams

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

BOTH = pytest.mark.parametrize("kind", [CascadeLinTS, CascadeLinUCB])
FEATURES = random_features(5, 3)


def test_theta_by_hand():
    """x = (1, 0) not clicked, (.6, .8) clicked: M = I + x x' + ..., M^-1 = [1.64 -.48; -.48 2.36] / 3.64."""
    learner = CascadeLinTS().start(["a", "b"], 2, features={"b": [0.6, 0.8], "a": [1, 0]})
    learner.update(["a", "b"], "b")
    s = state(learner)
    assert s["M"].tolist() == [[2.36, 0.48], [0.0, 1.6400000000000001]]
    assert s["B"].tolist() == [0.6, 0.8]
    assert s["theta"] == pytest.approx([0.6 / 3.64, 1.6 / 3.64], abs=1e-15)
    assert learner.scores() == pytest.approx({"a": 0.6 / 3.64, "b": 1.64 / 3.64}, abs=1e-15)


POLICIES = [
    CascadeLinTS(),
    CascadeLinTS(sigma=0.3),
    CascadeLinTS(discount=0.8),
    CascadeLinTS(discount=0.9, sigma=2),
    CascadeLinTS(discount="auto"),
    CascadeLinTS(half_life=3),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spec)
@given(stream=streams(5, 3))
@settings(max_examples=15, deadline=None)
def test_sums_are_those_over_the_whole_history(policy, stream):
    """The plain version keeps every observation with its weight, and numpy.linalg solves."""
    learner = policy.start(range(5), 3, features=FEATURES)
    plain = plain_version(policy, 5, 3, FEATURES)
    feed(stream, learner, plain)
    s = state(learner)
    np.testing.assert_allclose(symmetric(s["M"]), plain.M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(s["R"].T @ s["R"], plain.M, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(s["inverse"], 1 / np.diag(s["R"]), rtol=1e-15)
    np.testing.assert_allclose(s["theta"], plain.theta, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(list(learner.scores().values()), FEATURES @ plain.theta, rtol=1e-11, atol=1e-12)


def test_the_ridge_stays():
    """An item not observed for long returns to its prior, without a division by zero."""
    learner = CascadeLinTS(discount=0.5).start(["a", "b"], 1, features=[[1, 0], [0, 1]])
    learner.update(["b"], "b")
    repeat(learner, ["a"], [1], 200)
    s = state(learner)
    np.testing.assert_allclose(s["M"], [[3, 0], [0, 1]], rtol=1e-12)
    assert s["theta"] == pytest.approx([2 / 3, 0], abs=1e-12)


@pytest.mark.compiled
def test_nothing_piles_up():
    """After a hundred thousand updates, theta is what numpy makes of the sums."""
    features = random_features(6, 5, seed=3)
    learner = CascadeLinTS().start(range(6), 3, features=features)
    for shown, clicks in (([0, 1, 2], [0, 0, 1]), ([3, 4, 5], [0, 1, 0]), ([5, 0, 3], [0, 0, 0])):
        repeat(learner, shown, clicks, 35_000)
    x = features[[0, 1, 2, 3, 4, 5, 5, 0, 3]]
    y = np.array([0, 0, 1, 0, 1, 0, 0, 0, 0])
    theta = np.linalg.solve(np.eye(5) / 35_000 + x.T @ x, x.T @ y)
    np.testing.assert_allclose(state(learner)["theta"], theta, rtol=1e-8)


@BOTH
@pytest.mark.parametrize("size", [1e-99, 150, 1e4, 1e9, 1e20, 1e99])
@pytest.mark.parametrize("discount", [1, 0.9])
@pytest.mark.compiled
def test_any_size_of_features_gives_numbers(kind, size, discount):
    """Thirty features that depend on two: rounding cancels the ridge, and pivots come out negative."""
    for seed in (0, 28):
        generator = np.random.default_rng(seed)
        pair = generator.random((2, 30))
        x = size * generator.normal(size=(40, 2)) @ pair
        learner = kind(discount=discount).start(range(40), 3, features=x, horizon=100)
        for n in range(50):
            ranking = learner.rank()
            learner.update(ranking, [0, n % 2, 0])
            assert np.isfinite(ranking.scores).all()
        assert all(np.isfinite(values).all() for name, values in state(learner).items() if name != "last")


# -- forgetting --------------------------------------------------------------------------------------------------------


@BOTH
def test_discounts(kind):
    def gamma(policy, horizon):
        return policy.parameters(RankingProblem(10, 3, horizon, horizon, 4))["discount"]

    assert gamma(kind(), 100_000) == gamma(kind(), None) == 1
    assert gamma(kind(discount=0.9), 10) == 0.9
    assert gamma(kind(discount="auto"), 100_000) == pytest.approx(0.999209431, abs=5e-10)  # as CascadeDUCB's
    assert gamma(kind(discount="auto", n_breakpoints=9), 100_000) == pytest.approx(0.997628292, abs=5e-10)


def test_without_a_horizon_the_discount_doubles():
    learner = CascadeLinTS(discount="auto").start(range(3), 1)
    for t in range(1, 300):
        assert state(learner)["gamma"][0] == pytest.approx(1 - 0.25 / math.sqrt(2 ** int(math.log2(t))), abs=1e-15)
        learner.update([0], 1)


def test_half_life_is_time_between_feedback():
    learner = CascadeLinTS(half_life="1h").start(["a", "b"], 1, features=[[1, 0], [0, 1]])
    weights = []
    for now in (1.7e9, 1.7e9 + 3600, 1.7e9 + 1800, 1.7e9 + 7200):  # the third comes late
        learner.update(["a"], "a", now=now)
        weights.append(state(learner)["B"][0])
    assert weights == pytest.approx([1, 1.5, 2.5, 2.25], abs=1e-12)
    np.testing.assert_allclose(state(learner)["M"], [[3.25, 0], [0, 1]], rtol=1e-12)
    learner.update(["b"], now=1e300)  # all is forgotten
    np.testing.assert_allclose(state(learner)["M"], [[1, 0], [0, 2]], rtol=1e-12)


def test_half_life_in_the_plain_version_and_here():
    policy = CascadeLinTS(half_life=40)
    learner, plain = policy.start(range(5), 2, features=FEATURES), plain_version(policy, 5, 2, FEATURES)
    generator = np.random.default_rng(0)
    now = 0.0
    for t in range(60):
        now += generator.normal(10, 10)
        shown, clicks = generator.permutation(5)[:2].tolist(), generator.integers(0, 2, 2).tolist()
        n = clicks.index(1) + 1 if 1 in clicks else 2
        learner.update(shown, clicks, now=now)
        plain.observe(t, shown[:n], clicks[:n], now=now)
    np.testing.assert_allclose(symmetric(state(learner)["M"]), plain.M, rtol=1e-11)


@BOTH
def test_half_life_and_discount_exclude_each_other(kind):
    with pytest.raises(ValueError, match=r"half_life='7d': cannot be combined with discount=0.9"):
        kind(half_life="7d", discount=0.9)


# -- items come and go -------------------------------------------------------------------------------------------------


@BOTH
def test_without_features_axes_come_with_items(kind):
    learner = kind(discount=0.99).start(["a", "b", "c"], 2, horizon=100)
    for clicked in ("a", "b", None, "a"):
        learner.update(["a", "b"], clicked)
    before = {name: values.copy() for name, values in state(learner).items()}
    learner.add_items(["d", "e"])
    s = state(learner)
    assert s["features"].tolist() == s["columns"].tolist() == np.eye(5).tolist()
    assert (s["M"][:3, :3].tolist(), s["theta"][:3].tolist()) == (before["M"].tolist(), before["theta"].tolist())
    assert np.diag(s["M"])[3:].tolist() == [1, 1]
    assert s["theta"][3:].tolist() == [0, 0]
    assert s["inverse"][3:].tolist() == [1, 1]
    learner.update(["d", "a"], "d")
    assert state(learner)["theta"][3] == pytest.approx(0.5)
    learner.remove_items(["d"])
    assert (state(learner)["M"][3, 3], state(learner)["theta"][3]) == (1, 0)
    assert state(learner)["theta"][0] > 0


@BOTH
def test_a_state_that_grows_has_the_ridge_in_it(kind):
    learner = kind(discount=0.99).start(["a", "b"], 1, horizon=100)
    learner.update(["a"], "a")
    before = state(learner)["M"].copy()
    learner._relayout(replace(learner.compiled.problem, L=4, features=4))
    s = state(learner)
    assert s["M"][:2, :2].tolist() == before.tolist()
    for name in {"M", "M2"} & set(s):
        assert s[name][2:].tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]


@BOTH
def test_statistics_of_features_outlive_items(kind):
    learner = kind().start(["a", "b", "c"], 1, features=[[1, 0], [1, 0], [0, 1]], horizon=100)
    for _ in range(20):
        learner.update(["a"], "a")
    scores = learner.scores()
    learner.remove_items(["a"])
    learner.add_items(["a", "d"], features={"a": [1, 0], "d": [0.5, 0.5]})
    assert learner.scores() == pytest.approx(scores | {"d": learner.scores()["d"]}, abs=1e-15)
    learner.renew(["b"])  # its features are what they were
    assert learner.scores()["b"] == pytest.approx(scores["b"], abs=1e-15)
    learner.renew(["b"], features=[[0, 1]])
    assert learner.scores()["b"] == pytest.approx(scores["c"], abs=1e-15)


@BOTH
def test_a_new_item_is_ranked_by_similar_ones(kind):
    """The newcomer of the good kind goes to the top at once, that of the bad kind to the bottom."""
    generator = np.random.default_rng(0)
    good, bad = np.array([0.9, 0.1, 0.4]), np.array([0.1, 0.9, 0.4])
    near = {name: kind_ + generator.normal(0, 0.02, 3) for name, kind_ in zip("abcdef", [good, bad] * 3, strict=True)}
    learner = kind().start(list(near), 3, features=near, horizon=2000)
    for _ in range(1500):
        ranking = learner.rank()
        learner.update(ranking, next((item for item in ranking if item in "ace"), None))
    learner.add_items(["new good", "new bad"], features=[good, bad])
    assert "new good" not in learner.rank(["b", "d", "f", "new bad"], k=3)
    for key in range(20):
        assert learner.rank(["b", "d", "f", "new good"], k=1, key=key) == ["new good"]
        assert learner.rank(["a", "c", "e", "new bad"], k=3, key=key) != ["new bad"]
        assert "new bad" not in learner.rank(["a", "c", "e", "new bad"], k=3, key=key)


@BOTH
def test_identity_is_the_same_as_no_features(kind):
    """And the way round for diagonal matrices comes to the same numbers, to the last bit."""
    policy = kind(discount=0.95, sigma=0.7)
    without, given_, long = (policy.start(range(6), 2, horizon=500, features=f) for f in (None, np.eye(6), np.eye(6)))
    generator = np.random.default_rng(0)
    for _ in range(200):
        state(long)["one_hot"][0] = 0
        ranking = without.rank()
        assert ranking == given_.rank() == long.rank()
        assert ranking.scores.tobytes() == long.rank().scores.tobytes()
        clicks = generator.integers(0, 2, 2).tolist()
        for learner in (without, given_, long):
            learner.update(ranking, clicks)
    assert without._floats.tobytes() == given_._floats.tobytes()
    assert without.scores() == long.scores()


@BOTH
def test_an_item_of_another_kind_makes_axes_features(kind):
    learner = kind().start(["a", "b"], 2, features=np.eye(2), horizon=50)
    learner.update(["a", "b"], "b")
    assert state(learner)["one_hot"][0] == 1
    learner.add_items(["c"], features=[[0.6, 0.8]])
    assert state(learner)["one_hot"][0] == 0
    learner.update(["c", "a"], "c")
    M = symmetric(state(learner)["M"])
    np.testing.assert_allclose(M, np.diag([2, 2]) + np.outer([0.6, 0.8], [0.6, 0.8]))
    np.testing.assert_allclose(state(learner)["theta"], np.linalg.solve(M, [0.6, 1.8]))
    learner.remove_items(["b"])  # what is known of the feature stays
    np.testing.assert_allclose(symmetric(state(learner)["M"]), M)


@BOTH
@pytest.mark.parametrize("described", [False, True])
def test_saved_and_loaded(kind, described, tmp_path):
    features = {name: row.tolist() for name, row in zip("abcdef", random_features(6, 3), strict=True)}
    learner = kind(discount=0.97).start(list("abcde"), 2, seed=4, features=features if described else None)
    generator = np.random.default_rng(0)

    def play(learners, steps):
        for _ in range(steps):
            ranking = learners[0].rank()
            clicks = generator.integers(0, 2, 2).tolist()
            for each in learners:
                assert each.rank() == ranking
                each.update(ranking, clicks)

    play([learner], 50)
    learner.remove_items(["b"])
    learner.save(tmp_path / "learner.npz")
    other = load(tmp_path / "learner.npz")
    assert other._floats.tobytes() == learner._floats.tobytes()
    play([learner, other], 30)
    for each in (learner, other):
        each.add_items(["b", "f"], features=features if described else None)
    play([learner, other], 30)
    assert other._floats.tobytes() == learner._floats.tobytes()
    if described:
        with pytest.raises(ValueError, match="features: must be given"):
            other.add_items(["g"])


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("L", "d"), [(7, 3), (1000, 10), (5, 5)])
def test_state_has_the_size_that_is_documented(L, d):
    def sizes(policy):
        return CompiledPolicy.of(policy, RankingProblem(L, 3, 100, 100, d)).layout.sizes

    assert sizes(CascadeLinTS()) == sizes(CascadeLinTS(discount=0.9)) == (2 * L * d + 2 * d * d + 4 * d + 3, 2)
    ucb = 2 * L * d + 3 * L + 3 * d * d + 3 * d + 4
    assert sizes(CascadeLinUCB()) == sizes(CascadeLinUCB(discount=0.9, radius="simple")) == (ucb, 1)
    assert sizes(CascadeLinUCB(discount=0.9)) == sizes(CascadeLinUCB(half_life="7d")) == (ucb + 2 * d * d, 1)


@BOTH
def test_a_thousand_items(kind):
    features = random_features(1000, 10)
    learner = kind().start(range(1000), 20, features=features, horizon=50)
    for _ in range(30):
        ranking = learner.rank()
        assert len(set(ranking)) == 20
        learner.update(ranking, [int(item % 7 == 0) for item in ranking])
    learner.add_items([1000], features=[features[0]])
    assert learner.scores()[1000] == pytest.approx(learner.scores()[0], abs=1e-15)


def test_restarted_by_an_oracle():
    policy = OracleRestart(base=CascadeLinTS())
    program = CompiledPolicy.of(policy, RankingProblem(6, 2, 100, 100, 4))
    assert policy.contextual
    assert (program.scratch, program.layout.sizes) == (10, (48 + 32 + 16 + 3, 2))


@BOTH
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("discount", value) for value in (0, 1.01, -1, math.nan, "doubling", None, True)),
        *(("half_life", value) for value in (0, -5, "7", "7 d", "d", math.inf, True)),
        *(("sigma", value) for value in (0, -1, 1e-200, math.inf, "auto", None)),
        *(("n_breakpoints", value) for value in (0, 1.5, "1")),
        ("feedback", "some"),
    ],
)
def test_bad_values(kind, name, value):
    with pytest.raises(ValueError, match=name):
        kind(**{name: value})


# -- items with new features -------------------------------------------------------------------------------------------


@BOTH
def test_features_change_and_nothing_is_forgotten(kind):
    """Statistics of features remain; scores of items follow from their new features."""
    learner = kind(discount=0.99).start(range(5), 3, features=FEATURES, seed=1)
    for n in range(60):
        learner.update(learner.rank(), n % 4 + 1)
    before = {name: values.copy() for name, values in state(learner).items()}
    new = random_features(2, 3, seed=9)
    learner.describe([4, 1], new)
    s = state(learner)
    for name in ("M", "B", "theta", "gamma", "last"):
        np.testing.assert_array_equal(s[name], before[name])
    expected = FEATURES.copy()
    expected[[4, 1]] = new
    np.testing.assert_array_equal(s["features"], expected)
    np.testing.assert_array_equal(s["columns"], expected.T)
    # a learner that had these features all the time, and has learnt the same
    other = kind(discount=0.99).start(range(5), 3, features=expected, seed=1)
    for name in set(s) - {"features", "columns", "mean", "width", "room", "patched"}:
        state(other)[name][:] = before[name]
    other.steps = learner.steps
    for n in range(5):
        learner.update([0, 2, 3], n % 3 + 1)
        other.update([0, 2, 3], n % 3 + 1)
        assert learner.scores() == pytest.approx(other.scores(), abs=1e-12)
        assert learner.rank() == other.rank()


def test_mean_and_width_of_items_with_new_features():
    learner = CascadeLinUCB(c=0.5).start(range(5), 3, features=FEATURES)
    for n in range(40):
        learner.update(learner.rank(), n % 4 + 1)
    x = np.array([0.1, -0.2, 0.3])
    learner.describe([2], [x])
    s = state(learner)
    M = symmetric(s["M"])
    assert s["mean"][2] == pytest.approx(x @ s["theta"], abs=1e-12)
    assert s["width"][2] == pytest.approx(np.sqrt(x @ np.linalg.solve(M, x)), abs=1e-12)
    rows = learner._floats.tobytes(), learner._ints.tobytes()
    learner.describe([2, 0], {2: x, 0: FEATURES[0]})  # as they are
    assert (learner._floats.tobytes(), learner._ints.tobytes()) == rows


@pytest.mark.parametrize("policy", [CascadeLinTS(), CascadeLinUCB(c=0)], ids=lambda policy: policy.spec)
def test_items_that_were_described_by_themselves_alone(policy):
    """Axes belong to items as long as features are one-hot; then they are ordinary features."""
    learner = policy.start(["a", "b"], 2, features=np.eye(2))
    assert state(learner)["one_hot"][0] == 1
    for _ in range(30):
        learner.update(["a", "b"], "a")
    learner.describe(["a"], [[1, 0]])
    assert state(learner)["one_hot"][0] == 1
    before = learner.scores()
    learner.describe(["b"], [[0.6, 0.8]])
    assert state(learner)["one_hot"][0] == 0
    after = learner.scores()
    assert after["a"] == pytest.approx(before["a"], abs=1e-12)
    assert after["b"] > before["b"]
    theta = state(learner)["theta"]
    assert theta[0] > 0.9
    for _ in range(30):
        learner.update(["a", "b"], "b")
    assert learner.scores()["b"] > after["b"]


def test_descriptions_that_do_not_fit():
    learner = CascadeLinTS().start(["a", "b"], 2, features=np.eye(2))
    rows = learner._floats.tobytes()
    for items, features, message in (
        (["a"], [[1.0]], "must be vectors of 2 numbers"),
        (["a"], None, "must be given"),
        (["c"], [[1, 0]], "'c': not among this learner's items"),
        (["a", "b"], {"a": [1, 0]}, "missing for item 'b'"),
        (["a"], [[1, math.nan]], "finite"),
        (["a", "a"], np.eye(2), "occurs twice"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.describe(items, features)
    learner.describe([], None)
    assert learner._floats.tobytes() == rows
    with pytest.raises(ValueError, match="the other items of this learner have none"):
        CascadeLinTS().start(["a", "b"], 2).describe(["a"], [[1, 0]])
    with pytest.raises(ValueError, match="features: must be given"):
        CascadeLinTS().start(["a", "b"], 2).describe(["a"], None)
    with pytest.raises(ValueError, match="CascadeUCB1 does not use features"):
        CascadeUCB1().start(["a", "b"], 2).describe(["a"], [[1, 0]])
