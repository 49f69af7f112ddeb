"""The shared model: oracle values of its specifications, and a plain version."""

from __future__ import annotations

import numpy as np
import pytest

from driftrank.policies.learner.described import describe
from driftrank.policies.learner.ranked_items import RankedItems, described_at
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.shared.place_curve import KNOTS
from driftrank.policies.stationary.random import Random
from tests.reference.shared_model import SharedModel as PlainModel

POLICY = PriorRegimeTS(hash_bits=10, stops=False)


def taught(model, x, y, S, n):
    """Teach a model the label of the one item of a description."""
    memo = np.array([1.0, 1.0, S, n, 0.5, 1.0, 0.0])
    assert model.learn(RankedItems(["i"], np.zeros(1), memo, 7, None, x), [y])


def label(model, y, S, n, query="q", item="i", **described):
    """Teach a model one label."""
    taught(model, describe(query, [item], **described), y, S, n)


def weights(model, query="q", item="i"):
    """Means and variances of bias, query and item in model 2, found by a label: the only ones that it moves."""
    views, fresh = model.views(), SharedModel(model.policy).views()
    out = [views["bias"][2]]
    for name, n in (("query", 1), ("item", 0)):
        (moved,) = np.flatnonzero(views[name][n, :, 1] != fresh[name][n, :, 1])
        out.append(views[name][n, moved])
    return np.array(out)


def test_hashed_columns_by_hand():
    """SHARED-PRIOR.md section 10: labels 0, 0, 1, 0 of one pair with (S, n) = (0, 0), (0, 1), (0, 2), (1, 3).

    Computed by its prototype: columns bias, query, item, cross with variances 4, 1/4, 1, 1/2; its models 0, 1 and 2 are
    ours of number 0, 2 and 3. The first row by hand:
    m = 1/2, v = 4, g = 1/4, R = 1/4 + 4/16 = 1/2, so mu = -4 (1/4) (1/2) / (1/2) = -1 and var = 4 (1 - 4/16/.5) = 2.
    """
    model = SharedModel(POLICY.replace(shrink_strength=True))
    expected = [
        # of model 0: mean, variance, nu, evidence; of model 2: means, variances, nu, evidence
        ([-1, 2, 8, -0.693147180560],
         [-0.864864864865, -0.054054054054, -0.216216216216], [2.27027027027, 0.243243243243, 0.891891891892],
         [8, -0.693147180560]),
        ([-1.343868954003, 1.497223302502, 47.0313776514, -0.852426242167],
         [-1.172995748227, -0.087068077271, -0.33726763468], [1.740868373786, 0.237165925554, 0.810185731848],
         [48.6666666667, -0.806854066389]),
        ([-0.380906678463, 1.214136114056, 60.4351583959, -3.088191780405],
         [-0.117759514902, 0.056691256704, 0.153830574031], [1.446158913042, 0.231696184183, 0.746354770138],
         [58.1010049696, -3.571736292034]),
        ([-0.749508034930, 0.958674675092, 59.8312475437, -3.542090150219],
         [-0.574175938801, -0.016433448238, -0.08172346645], [1.141453770737, 0.223874765953, 0.665195455279],
         [57.8584518992, -4.021262789955]),
    ]  # fmt: skip
    x = describe("q", ["i"], ordered=False, crosses=["token"])
    prior = model.prior(x)
    assert (prior.mean[0], prior.strength[0]) == (0.5, 0.5)
    for (y, S, n), (first, means, variances, rest) in zip(
        [(0, 0, 0), (0, 0, 1), (1, 0, 2), (0, 1, 3)], expected, strict=True
    ):
        label(model, y, S, n, ordered=False, crosses=["token"])
        views = model.views()
        assert [*views["bias"][0], views["nu"][0], views["evidence"][0]] == pytest.approx(first, rel=1e-10)
        assert weights(model)[:, 0] == pytest.approx(means, rel=1e-10)
        assert weights(model)[:, 1] == pytest.approx(variances, rel=1e-10)
        assert [views["nu"][2], views["evidence"][2]] == pytest.approx(rest, rel=1e-10)
        assert views["use"][0] == 0
    assert model.views()["grid"][2] == pytest.approx(
        [0.132350582, 0.132350582, 0.148920915, 0.185203468, 0.197911686, 0.203262766], abs=1e-9
    )
    for use, mean, strength in (
        (0, 0.3455085692, 3.2876806869),
        (2, 0.3771901674, 1.0243077631),
        (3, 0.3871378327, 0.6091983759),
    ):
        model.views()["use"][0] = use
        prior = model.prior(x)
        assert (prior.mean[0], prior.strength[0]) == pytest.approx((mean, strength), abs=1e-10)


def test_curve_before_any_label():
    """BASELINE-PRIOR.md section 9. At place 1: sigmoid(-1.5 / sqrt(1 + pi/8)); at 200 between the knots 128 and 256."""
    prior = SharedModel(POLICY).prior(describe("q", range(5), places=[1, 2, 3, 10, 200]))
    assert prior.mean == pytest.approx([0.219078, 0.165413, 0.140604, 0.093119, 0.050412], abs=5e-7)
    assert prior.strength == pytest.approx([8] * 5)


def covariance(model, a, b, j=0):
    return model.views()["spread"][j, a * (a + 1) // 2 + b]


def test_curve_by_hand():
    """A click at place 1, a skip at place 3, a skip at place 1 with (S, n) = (1, 1); model 0 has the curve alone.

    The first two rows are those of the prototype of BASELINE-PRIOR.md without the level of the query (lev=0). With it,
    section 9 of that page has -.810118: there level and curve move one after the other, here all columns of a model
    move in one step, and the level is the column of the query in model 1. The weights of the grid are those of
    section 9 (with S = n = 1, a skip has 1 - p_k proportional to nu_k / (nu_k + 1), whatever m is). The weight of the
    third label differs: omega = 8/9 with the strength before the label, as in SHARED-PRIOR.md, there 56.5/57.5.
    """
    model = SharedModel(POLICY)
    curve = model.views()["curve"][0]
    label(model, 1, 0, 0)
    assert curve[:4] == pytest.approx([-0.7885376144, -1.2385376144, -1.6885376144, -2.1385376144], rel=1e-9)
    assert [covariance(model, 0, 0), covariance(model, 1, 0)] == pytest.approx([0.8702370594180869] * 2, rel=1e-12)
    assert covariance(model, 1, 1) == pytest.approx(1.0202370594180872, rel=1e-12)
    label(model, 0, 0, 0, places=[3])
    assert curve[:4] == pytest.approx([-0.9242187680, -1.4021658568, -1.8736419770, -2.3359977793], rel=1e-9)
    assert covariance(model, 12, 3) == pytest.approx(2.6506224432353607, rel=1e-12)
    mean, variance = curve[0], covariance(model, 0, 0)
    label(model, 0, 1, 1)
    m = 1 / (1 + np.exp(-mean))
    p, g = 8 / 9 * m + 1 / 9, 8 / 9 * m * (1 - m)
    assert curve[0] == pytest.approx(mean - variance * g * p / (p * (1 - p) + g * g * variance), rel=1e-12)
    grid = [0.098458, 0.147687, 0.175036, 0.189039, 0.193886, 0.195895]
    assert model.views()["grid"][0] == pytest.approx(grid, abs=5e-7)
    assert model.views()["nu"][0] == pytest.approx(56.499219, abs=5e-7)


def test_level_of_a_query_moves_with_the_curve():
    """Model 1, curve and level: they share a label by their variances.

    m = sigmoid(-1.5) = .182426, e = m (1-m), v = 1 + .25; the level moves by .25 g (1-m) / (e + g^2 v), the curve by
    four times as much.
    """
    model = SharedModel(POLICY)
    before = model.views()["curve"][1, 0]
    label(model, 1, 0, 0)
    m = 1 / (1 + np.exp(1.5))
    g = e = m * (1 - m)
    level = 0.25 * g * (1 - m) / (e + g * g * 1.25)
    moved = model.views()["query"][0, :, 0]
    assert moved[moved != 0] == pytest.approx([level], rel=1e-12)
    assert model.views()["curve"][1, 0] - before == pytest.approx(4 * level, rel=1e-9)


def test_a_column_without_variance_is_absent():
    """With the variance of all items 0, model 2 is model 1."""
    model = SharedModel(POLICY)
    model.views()["item"][:, :, 1] = 0
    for y, S, n in ((1, 0, 0), (0, 1, 1), (0, 1, 2)):
        label(model, y, S, n)
    views = model.views()
    assert views["curve"][1].tolist() == views["curve"][2].tolist() != views["curve"][0].tolist()
    assert views["query"][0].tolist() == views["query"][1].tolist()
    assert (views["item"] == 0).all()


def labels_of_a_small_world(seed=0, n=400):
    """Labels of eight queries and twelve items, and their description, with and without each of its parts."""
    generator = np.random.default_rng(seed)
    for _ in range(n):
        query, item = int(generator.integers(8)), int(generator.integers(12))
        looks = int(generator.integers(0, 45)) * int(generator.integers(0, 2))
        attraction = (0.05, 0.5, 0.9)[item % 3]
        S = int(generator.binomial(looks, attraction))
        place = int(generator.integers(0, 9)) * int(generator.integers(1, 700))
        dense = generator.normal(size=3).round(3).tolist() if generator.random() < 0.8 else []
        crosses = [f"t{i}" for i in range(int(generator.integers(0, 3)))]
        named = {"kind": "abc"[item % 3], "tags": ["x", "y"][: item % 3], "price": item + 100.0, "new": item < 2}
        described = {
            "places": [place],
            "dense": [dense] if dense else None,
            "crosses": crosses,
            "features": [dict(list(named.items())[: int(generator.integers(0, 5))])],
            "context": {"age": float(generator.normal()), "device": "pt"[query % 2]} if query % 4 else None,
        }
        score = float(generator.normal()) if query % 2 else None
        yield int(generator.random() < attraction), S, looks, query, item, score, described


def with_score(x, score):
    """A description of one item with a standardised score: in a request of one item that would be 0."""
    return x if score is None else x._replace(score=np.array([score]))


def plain_description(x):
    """The description of one item as the plain version takes it."""
    pairs = [*zip(x.named.tolist(), x.value.tolist(), strict=True)]
    n = int(x.begin[1])
    return {
        "place": x.place[0], "dense": x.dense.tolist(), "crosses": x.crosses.tolist(), "features": pairs[:n],
        "context": pairs[n:], "score": x.score[0] if len(x.score) else None,
    }  # fmt: skip


@pytest.mark.parametrize("shrink", [False, True])
def test_same_numbers_as_the_plain_version(shrink):
    model, plain = SharedModel(POLICY.replace(shrink_strength=shrink)), PlainModel(10, shrink, stops=False)
    used = set()
    for y, S, n, query, item, score, described in labels_of_a_small_world():
        x = with_score(describe(query, [item], **described), score)
        same = plain_description(x)
        prior = model.prior(x)
        assert prior.counts == pytest.approx(plain.prior(query, item, **same), rel=1e-9)
        eta = plain.logit(plain.use, plain.columns(plain.use, query, item, **same))[0]
        assert sum(prior.because()[0].values()) == pytest.approx(eta, rel=1e-9)
        taught(model, x, y, S, n)
        plain.label(y, S, n, query, item, **same)
        views = model.views()
        assert views["use"][0] == plain.use
        used.add(plain.use)
        for j, each in enumerate(plain.models):
            assert views["nu"][j] == pytest.approx(each.nu, rel=1e-9)
            assert views["evidence"][j] == pytest.approx(each.evidence, rel=1e-9)
            assert views["curve"][j] == pytest.approx(each.curve, rel=1e-8)
            assert views["spread"][j] == pytest.approx(each.P[np.tril_indices(KNOTS)], rel=1e-8)
            assert views["score"][j] == pytest.approx(each.weights["score",], rel=1e-8)
    assert len(used) > 1  # else the choice of a model was not tested


def test_invariants():
    """Weights of the grid sum to 1; variances stay between their floor and their first value."""
    model, fresh = SharedModel(POLICY), SharedModel(POLICY).views()
    views = model.views()
    for y, S, n, query, item, score, described in labels_of_a_small_world(1, 3000):
        taught(model, with_score(describe(query, [item], **described), score), y, S, n)
    assert views["grid"].sum(axis=1) == pytest.approx([1] * 4)
    assert (views["grid"] > 0).all()
    for name, floor in (
        ("bias", 0.02),
        ("query", 0.02),
        ("item", 0.02),
        ("cross", 0.02),
        ("dense", 0.004),
        ("score", 0.004),
    ):
        variance = views[name][..., 1]
        assert (variance >= floor).all()
        assert (variance <= fresh[name][..., 1]).all()
        assert (variance < fresh[name][..., 1]).any()
    for j in range(4):
        P = np.zeros((KNOTS, KNOTS))
        P[np.tril_indices(KNOTS)] = views["spread"][j]
        assert np.linalg.eigvalsh(P).min() > 0


def test_labels_observed_often_move_neither_strength_nor_evidence():
    model = SharedModel(POLICY)
    label(model, 1, 3, 33)
    assert model.views()["nu"].tolist() == [8] * 4
    assert model.views()["evidence"].tolist() == [0] * 4
    assert model.views()["curve"][0, 0] > -1.5


def test_prior_does_not_change_the_model():
    model = SharedModel(POLICY)
    label(model, 1, 0, 0)
    before = model.to_bytes()
    model.prior(describe("q", ["i", "j"], dense=[[1.0], [2.0]], crosses=["a"]))
    assert model.to_bytes() == before


def test_saved_and_copied():
    model = SharedModel(POLICY)
    label(model, 1, 0, 0)
    again, copy = SharedModel.from_bytes(model.to_bytes()), model.copy()
    assert again.policy == POLICY
    label(model, 0, 1, 1)
    label(again, 0, 1, 1)
    assert again.to_bytes() == model.to_bytes() != copy.to_bytes()
    assert model.nbytes < 1024 * 15 * 8 + 10_000


def test_bad_bytes_are_refused():
    learner = POLICY.start(["a", "b"], 1)
    for packed in (b"nonsense", learner.to_bytes(), SharedModel(POLICY).to_bytes()[:-9]):
        with pytest.raises(ValueError, match=r"not the bytes of a shared model \("):
            SharedModel.from_bytes(packed)
    with pytest.raises(ValueError, match=r"not the bytes of a learner \("):
        type(learner).from_bytes(SharedModel(POLICY).to_bytes())


def test_bad_values_are_named():
    model = SharedModel(POLICY.replace(dense=1))
    with pytest.raises(ValueError, match="dense: 2 numbers for an item, at most 1"):
        model.prior(describe("q", ["i"], dense=[[1.0, 2.0]]))
    with pytest.raises(ValueError, match="places: must be 1 numbers"):
        describe("q", ["i"], places=[1, 2])
    with pytest.raises(ValueError, match="places: must be numbers from 1"):
        describe("q", ["i"], places=[0.5])
    with pytest.raises(ValueError, match="places: must be a number"):
        describe("q", ["i"], places=["first"])
    with pytest.raises(ValueError, match="policy=Random: must be a policy with a shared model"):
        SharedModel(Random())


def test_some_of_the_items():
    x = describe("q", ["a", "b", "c"], dense=[[1, 2], [3, 4], [5, 6]], crosses=["t"])
    y = described_at(x, np.array([2, 0]))
    assert (y.place.tolist(), y.dense.tolist(), y.item.tolist()) == ([3, 1], [5, 6, 1, 2], x.item[[2, 0]].tolist())
    assert y.crosses is x.crosses
    features = [{"a": "1"}, {"b": 2.0, "c": ["3", "4"]}, {"d": "5", "e": "6"}]
    x = describe("q", ["a", "b", "c"], features=features, context={"f": 7}, scores={"a": 1, "c": 2})
    y = described_at(x, np.array([2, 0]))
    same = describe("q", ["c", "a"], features=[features[2], features[0]], context={"f": 7})
    assert [y.begin.tolist(), y.named.tolist(), y.value.tolist()] == [same[n].tolist() for n in (6, 7, 8)]
    assert y.score.tolist() == [1, -1]


def test_a_list_without_a_memo_teaches_nothing():
    model = SharedModel(POLICY)
    before = model.to_bytes()
    x = describe("q", ["a"])
    assert not model.learn(RankedItems(["a"], np.zeros(1), np.full(7, -1.0), 7, None, x), [1])
    assert not model.learn(RankedItems(["a"], np.zeros(1), np.full(7, 1.0), 7), [1])
    changed = np.array([1.0, 1.0, 3.0, -1.0, 0.5, 1.0, 0.0])  # an item whose change was declared
    assert model.learn(RankedItems(["a"], np.zeros(1), changed, 7, None, x), [1])
    assert model.to_bytes() == before
