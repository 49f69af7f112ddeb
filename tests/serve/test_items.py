"""Items as they come in requests."""

import pytest

from driftrank.policies.contextual.cascade_linucb import CascadeLinUCB
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.stationary.cascade_ts import CascadeTS
from driftrank.serve.ranking.items import CheckedItems, check_id, check_query, given_items, used_by
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import Item

LIMITS = ServerSettings(max_id=4, max_query=3, max_features=2)


@pytest.mark.parametrize("value", ["a", "abcd", "äöüß", 0, -1, 2**63 - 1, -(2**63)])
def test_valid_ids(value):
    check_id("items", value, 4)


@pytest.mark.parametrize("value", ["", "abcde", 2**63, -(2**63) - 1])
def test_invalid_ids(value):
    with pytest.raises(ValueError, match=r"^items[:=].*must be"):
        check_id("items", value, 4)


def test_queries():
    check_query("", LIMITS)
    check_query("äöü", LIMITS)
    with pytest.raises(ValueError, match="query: 4 characters, at most 3 are allowed"):
        check_query("abcd", LIMITS)


def test_what_items_bring():
    assert given_items("items", ["a", 7, "7"], LIMITS) == CheckedItems(["a", 7, "7"], [], [])
    assert given_items("items", [Item("a"), "b"], LIMITS) == CheckedItems(["a", "b"], [], [])
    vectors = given_items("items", [Item("a", [1.0]), Item(2, [0.5])], LIMITS)
    assert vectors == CheckedItems(["a", 2], [[1.0], [0.5]], [], vectors=True)
    named = given_items("items", [Item("a", {"x": 1}, 2.0), Item("b", [{"y": "z"}]), "c"], LIMITS)
    assert named == CheckedItems(["a", "b", "c"], [{"x": 1}, [{"y": "z"}], None], [2.0, None, None])
    assert named.at([1, 0]) == CheckedItems(["b", "a"], [[{"y": "z"}], {"x": 1}], [None, 2.0])
    assert given_items("items", [Item("a", []), Item("b", {"x": 1})], LIMITS).vectors is False
    assert given_items("items", [Item("a", []), Item("b", [])], LIMITS).vectors is True
    assert given_items("items", [], LIMITS) == CheckedItems([], [], [])


PRIOR, PLAIN, LINEAR = PriorRegimeTS(dense=2), CascadeTS(), CascadeLinUCB()
COLOURS = [{"colour": "red"}, {"colour": "blue"}]
MANY = ServerSettings()


@pytest.mark.parametrize(
    ("policy", "features", "context", "uses", "notes"),
    [
        (PRIOR, COLOURS, {"device": "phone"}, {"features", "context"}, []),
        (PRIOR, [[1.0, 2.0], [3.0, 4.0]], None, {"dense"}, []),
        (PRIOR, [[1.0], [3.0, 4.0]], None, set(), ["features: not used, as vectors of 1 and of 2 numbers; must be"]),
        (PRIOR, [[1.0, 2.0, 3.0]] * 2, None, {"dense"}, ["features: the first 2 of 3 numbers of an item are used"]),
        (PRIOR, [{"t": [str(n) for n in range(40)]}, None], None, {"features"},
         ["features: the first 32 names of an item are used, 8 were left out"]),
        (PRIOR, None, [{str(n): n} for n in range(33)], {"context"}, ["context: the first 32 names of a request are"]),
        (PLAIN, COLOURS, {"device": "phone"}, set(), ["features: not used by CascadeTS", "context: not used by"]),
        (PLAIN, [[1.0], [2.0, 3.0]], None, set(), ["features: not used by CascadeTS"]),
        (LINEAR, [{"b": 1, "a": {"c": 2}}, {"a": {"c": 3}, "b": 4}], None, {"rows"}, []),
        (LINEAR, COLOURS, None, set(), ["features: not used, CascadeLinUCB needs the same numbers for all items"]),
        (LINEAR, [{"a": 1}, {"b": 1}], None, set(), ["features: not used, CascadeLinUCB needs the same numbers"]),
        (LINEAR, [{"a": 1}, {"a": [2]}], None, set(), ["features: not used, CascadeLinUCB needs the same numbers"]),
    ],
)  # fmt: skip
def test_what_a_policy_uses(policy, features, context, uses, notes):
    items = ["a", "b"] if features is None else [Item(id_, each) for id_, each in zip("ab", features, strict=True)]
    used = used_by(policy, given_items("items", items, MANY), context, MANY)
    assert set(used.description) | ({"rows"} if used.rows else set()) == uses
    assert len(used.notes) == len(notes)
    for note, begin in zip(used.notes, notes, strict=True):
        assert note.startswith(begin)
    if "rows" in uses:
        assert used.rows == [[2.0, 1.0], [3.0, 4.0]]


def test_limits_of_named_features():
    for features, context, message in (
        ({"a": 1, "b": 2, "c": 3}, None, "features: 3 by name, at most 2 are allowed"),
        (None, {"a": ["x", "y", "z"]}, "context: 3 by name, at most 2 are allowed"),
        ({"a": [1]}, None, "features: 'a': must be a number, a string, a boolean or a list of strings"),
    ):
        given = given_items("items", [Item("a", features)], LIMITS)
        with pytest.raises(ValueError, match=message):
            used_by(PRIOR, given, context, LIMITS)
    many = given_items("items", [Item(n, {"a": [str(m) for m in range(32)]}) for n in range(157)], MANY)
    with pytest.raises(ValueError, match="features: more than 5000 by name in one request"):
        used_by(PRIOR, many, None, MANY)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", "b", "a"], "ranking: 'a' occurs twice"),
        (["a", Item("a", [1.0])], "ranking: 'a' occurs twice"),
        ([Item("a", [1.0]), "b"], "features: must be given for all items or for none"),
        ([Item("a", [1.0, 2.0, 3.0])], "features: 3 of an item, at most 2 are allowed"),
        ([Item("a", [float("inf")])], "features: must be finite numbers"),
        ([Item("a", [1.0, {"b": 2}])], "features: must be a vector of numbers or a list of objects, not both"),
        ([Item("a", [1.0]), Item("b", {"c": 2})], "features: must be vectors of numbers for all items, or named"),
        ([Item("a", score=float("nan"))], "scores: nan: must be a finite number"),
        (["a", "abcde"], "ranking: an id of 5 characters"),
        ([2**63], "ranking=.*: must be an integer of 64 bits"),
    ],
)
def test_invalid_items(items, message):
    with pytest.raises(ValueError, match=message):
        given_items("ranking", items, LIMITS)
