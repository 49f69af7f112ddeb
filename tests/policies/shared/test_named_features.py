"""Named features, context and scores: values by hand, and what they earn."""

from __future__ import annotations

import numpy as np
import pytest

from driftrank.policies.learner.described import describe, standardised
from driftrank.policies.learner.named import MOST_NAMED, named_features
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from tests.policies.shared.test_model import POLICY, label, taught

# -- names to tokens -------------------------------------------------------------------------------------------------


def test_objects_inside_objects_are_names_with_dots():
    nested = {"user": {"age": 31, "home": {"city": "Bonn"}}, "device": "phone"}
    same = [{"device": "phone", "user": {"age": 31}}, {"user.home.city": "Bonn"}]
    found = named_features("context", nested)
    assert found == named_features("context", same)
    assert found.tokens == tuple(sorted(found.tokens))
    assert [value for token, value in zip(found.tokens, found.values, strict=True) if token % 2] == [31.0]


def test_kinds_of_values():
    def tokens(**given):
        return set(named_features("features", given).tokens)

    assert len(tokens(tags=["a", "b", "a"])) == 2
    assert tokens(tags=["a"]) == tokens(tags="a") != tokens(tags="b")
    assert tokens(on=True) == tokens(on="true") != tokens(on=False)
    assert tokens(n=1) == tokens(n=2.5) == tokens(n=np.int64(7)) != tokens(n="1")
    assert tokens(n=None) == tokens() == tokens(o={}) == tokens(tags=[]) == set()
    assert all(token % 2 == 0 for token in tokens(a="x", b=True, c=["y"]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": [1.0]}, "features: 'a': must be a number, a string, a boolean or a list of strings"),
        ({"a": {"b": object()}}, "features: 'a.b': must be a number"),
        ({"a": float("nan")}, "features: 'a': must be a finite number"),
        ({"a": 10**400}, "features: 'a': must be a finite number"),
        ({"a" * 200: {"b" * 100: 1}}, "features: a name of 301 characters, at most 256"),
        ({"a": ["b" * 300]}, "features: 'a': a category of 300 characters, at most 256"),
        ({"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}}}, "features: at most 8 objects inside"),
        ("red", "features: must be an object or a list of objects"),
        (["red"], "features: must be an object or a list of objects"),
    ],
)
def test_bad_features_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        describe("q", ["i"], features=[given])


def test_more_than_are_used():
    found = named_features("features", {"tags": [str(n) for n in range(MOST_NAMED + 3)]})
    assert (len(found.tokens), found.left_out) == (MOST_NAMED, 3)


def test_features_of_some_items_by_name():
    x = describe("q", ["a", "b"], features={"b": {"kind": "x"}, "of another request": {"kind": "y"}})
    assert x.begin.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="features: must be 2, one for every item"):
        describe("q", ["a", "b"], features=[{}])


# -- by hand ---------------------------------------------------------------------------------------------------------


def test_numbers_are_standardised_by_those_before():
    """Values 10, 20, 60: the second is (20-10) / sqrt(25) = 2 from the first, as 10 and 20 have variance 25.

    The third: mean 15, and 10, 20, 60 have mean 30 and variance (400 + 100 + 900) / 3; 45 / sqrt(1400 / 3) = 2.083.
    """
    model, seen = SharedModel(POLICY), []
    for x in (10.0, 20.0, 60.0):
        described = describe("q", ["i"], features=[{"price": x}])
        model.prior(described)
        seen.append(described.scaled[0])
        label(model, 0, 0, 0, features=[{"price": x}])
    assert seen == pytest.approx([0.0, 2.0, 45 / (1400 / 3) ** 0.5])
    scale = model.views()["scale"]
    (at,) = np.flatnonzero(scale[:, 0])
    assert scale[at] == pytest.approx([3, 30, 1400 / 3])


def test_units_do_not_matter():
    models = [SharedModel(POLICY), SharedModel(POLICY)]
    generator = np.random.default_rng(3)
    for _ in range(50):
        x, y = float(generator.normal()), int(generator.random() < 0.5)
        for model, unit in zip(models, (1.0, 1024.0), strict=True):
            label(model, y, 0, 0, features=[{"x": unit * x}], context={"c": unit * x})
    for name in ("item", "cross", "evidence"):
        assert (models[0].views()[name] == models[1].views()[name]).all()


def test_a_category_by_hand():
    """A label 0 without a place. Model 2: bias 4, query 1/4, item 1, one category of value 1/2 and variance 1.

    v = 4 + 1/4 + 1 + 1/4 = 5.5, g = 1/4, R = 1/4 + 5.5/16 = .59375, step = -(1/4)(1/2)/R = -.2105263; the category
    moves by its value, -.1052632, and the variance shrinks to 1 - (1/4)(1/16)/R = .9736842.
    """
    model = SharedModel(POLICY)
    label(model, 0, 0, 0, ordered=False, features=[{"kind": "x"}])
    item = model.views()["item"][0]
    moved = item[item[:, 0] != 0]
    assert sorted(moved[:, 0]) == pytest.approx([-0.2105263, -0.1052632], abs=1e-7)
    assert sorted(moved[:, 1]) == pytest.approx([1 - 1 / 16 / 0.59375, 0.9736842], abs=1e-7)


def test_a_score_by_hand():
    """A label 1 with score z = 2, without a place. Model 0: bias 4 and score 1/4.

    v = 4 + 4/4 = 5, g = 1/4, R = 1/4 + 5/16 = .5625, step = .125/R = .2222; the score moves by (1/4) 2 step = .1111,
    and its variance shrinks to (1/4)(1 - (1/4) 4 (1/16)/R) = .2222.
    """
    model = SharedModel(POLICY)
    x = describe("q", ["i"], ordered=False)._replace(score=np.array([2.0]))
    taught(model, x, 1, 0, 0)
    assert model.views()["score"][0] == pytest.approx([1 / 9, 2 / 9])


def test_scores_are_standardised_in_the_request():
    assert standardised([1.0, 2.0, 3.0]) == pytest.approx([-(1.5**0.5), 0, 1.5**0.5])
    assert standardised([7.0, 7.0]).tolist() == [0, 0]
    assert standardised([]).tolist() == []
    assert standardised([1e6] + [0.0] * 99)[0] == 5.0
    for bad in (float("nan"), 1e101, "high", 10**400):
        with pytest.raises(ValueError, match=r"scores: .*: must be a finite number"):
            standardised([0.0, bad])


# -- what they earn --------------------------------------------------------------------------------------------------


def clicks_on_new_items(described: bool, lists: int = 300) -> int:
    """Every list has ten items never seen before; users click the red ones. The clicks of the second half."""
    model = SharedModel(PriorRegimeTS(hash_bits=10))
    generator = np.random.default_rng(0)
    clicks = 0
    for n in range(lists):
        items = [f"{n}/{i}" for i in range(10)]
        colour = {item: str(generator.choice(["red", "blue", "green", "grey"])) for item in items}
        learner = model.policy.start((), k=2, slots=2, query=str(n), shared=model)
        features = {item: {"look": {"colour": colour[item]}, "size": float(n % 7)} for item in items}
        ranking = learner.rank(items, ordered=False, features=features if described else None)
        liked = [i for i, item in enumerate(ranking, 1) if colour[item] == "red" and generator.random() < 0.6]
        learner.update(ranking, liked[0] if liked else None)
        clicks += bool(liked) and n >= lists // 2
    return clicks


def test_categories_earn_clicks_on_items_never_seen():
    without, with_names = clicks_on_new_items(False), clicks_on_new_items(True)
    assert with_names > 1.5 * without
    assert with_names > 0.7 * 150 * 0.78  # nearly all lists have two red ones, clicked with probability 1 - .4 ** 2


def test_a_context_that_matters_is_learnt():
    """Phones like games, desks like books; items are new in every list, so only their kind can be crossed with it."""
    model = SharedModel(PriorRegimeTS(hash_bits=10))
    generator = np.random.default_rng(1)
    right = []
    for n in range(400):
        device = ("phone", "desk")[n % 2]
        items = [f"{n}/{i}" for i in range(6)]
        features = [{"kind": "game" if i % 2 else "book"} for i in range(6)]
        learner = model.policy.start((), k=1, slots=1, query=str(n), shared=model)
        ranking = learner.rank(items, ordered=False, features=features, context={"device": device})
        fits = (int(str(ranking[0]).split("/")[1]) % 2 == 1) == (device == "phone")
        learner.update(ranking, 1 if fits and generator.random() < 0.7 else None)
        right.append(fits)
    assert np.mean(right[200:]) > 0.9
    assert "crosses" in model.summary()["columns"]
    learner = model.policy.start((), k=1, slots=1, query="new", shared=model)
    beliefs = learner.beliefs(
        ["a", "b"], ordered=False, features=[{"kind": "game"}, {"kind": "book"}], context={"device": "phone"}
    )
    assert beliefs["a"].prior > 1.5 * beliefs["b"].prior
    assert beliefs["a"].because["crosses"] > beliefs["b"].because["crosses"]


def test_a_score_is_learnt_where_places_say_nothing():
    """The caller's order is random, its scores are not."""
    model = SharedModel(PriorRegimeTS(hash_bits=10))
    generator = np.random.default_rng(2)
    best = []
    for n in range(300):
        items = [f"{n}/{i}" for i in range(6)]
        scores = generator.permutation(6).astype(float)
        learner = model.policy.start((), k=1, slots=1, query=str(n), shared=model)
        ranking = learner.rank(items, ordered=False, scores=scores)
        score = scores[items.index(ranking[0])]
        learner.update(ranking, 1 if generator.random() < score / 6 else None)
        best.append(score)
    assert np.mean(best[150:]) > 4.5
    prior = model.prior(describe("new", ["a", "b"], ordered=False, scores=[2.0, 1.0]))
    assert prior.because()[0]["score"] > 0 > prior.because()[1]["score"]
