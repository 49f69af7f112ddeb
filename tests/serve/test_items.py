"""Items as they come in requests."""

import pytest

from driftrank.serve.items import check_id, check_query, ids_and_features
from driftrank.serve.settings import ServerSettings
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


def test_ids_and_features():
    assert ids_and_features("items", ["a", 7, "7"], LIMITS) == (["a", 7, "7"], [])
    assert ids_and_features("items", [Item("a"), "b"], LIMITS) == (["a", "b"], [])
    assert ids_and_features("items", [Item("a", [1.0]), Item(2, [0.5])], LIMITS) == (["a", 2], [[1.0], [0.5]])
    assert ids_and_features("items", [], LIMITS) == ([], [])


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", "b", "a"], "ranking: 'a' occurs twice"),
        (["a", Item("a", [1.0])], "ranking: 'a' occurs twice"),
        ([Item("a", [1.0]), "b"], "features: must be given for all items or for none"),
        ([Item("a", [1.0, 2.0, 3.0])], "features: 3 of an item, at most 2 are allowed"),
        ([Item("a", [float("inf")])], "features: must be finite numbers"),
        (["a", "abcde"], "ranking: an id of 5 characters"),
        ([2**63], "ranking=.*: must be an integer of 64 bits"),
    ],
)
def test_invalid_items(items, message):
    with pytest.raises(ValueError, match=message):
        ids_and_features("ranking", items, LIMITS)
