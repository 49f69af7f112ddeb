from __future__ import annotations

import pytest

from driftrank.serve.judging import after_the_end, positions
from driftrank.serve.records import Final, Ranked
from driftrank.wire import Clicked, Feedback

LIST = Ranked("r", "q", "e", 0.0, 1, ["a", 7, "7", 1], "llll", 0)


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        (Feedback("e"), ([], None)),
        (Feedback("e", []), ([], None)),
        (Feedback("e", ["a"]), ([1], None)),
        (Feedback("e", ["7"]), ([3], None)),
        (Feedback("e", [1]), ([1], None)),  # a position
        (Feedback("e", [Clicked(7)]), ([2], None)),
        (Feedback("e", [Clicked(1)]), ([4], None)),
        (Feedback("e", [Clicked("7"), 3, "7"]), ([3], None)),
        (Feedback("e", [4, "a"]), ([1, 4], None)),
        (Feedback("e", ["a"], shown=1), ([1], 1)),
        (Feedback("e", [], shown=4), ([], None)),
    ],
)
def test_positions(feedback, expected):
    assert positions(LIST, feedback) == expected


@pytest.mark.parametrize(
    "feedback",
    [
        Feedback("e", [0]), Feedback("e", [5]), Feedback("e", ["b"]), Feedback("e", [Clicked("1")]),
        Feedback("e", shown=0), Feedback("e", shown=5), Feedback("e", [2], shown=1), Feedback("e", shown=-1),
    ],
)  # fmt: skip
def test_what_is_not_in_the_list(feedback):
    with pytest.raises(ValueError, match=r"clicks|shown"):
        positions(LIST, feedback)


def test_a_number_may_have_been_meant_as_an_id():
    with pytest.raises(ValueError, match=r'position 7: must be from 1 to 4; .* \{"id": 7\}'):
        positions(LIST, Feedback("e", [7]))


@pytest.mark.parametrize(
    ("final", "said", "outcome"),
    [
        (Final("r", "e", 1.0, "feedback", [1]), ([1], None), "duplicate"),
        (Final("r", "e", 1.0, "feedback", [1]), ([1], 2), "refused"),
        (Final("r", "e", 1.0, "feedback", [1]), ([], None), "refused"),
        (Final("r", "e", 1.0, "feedback"), ([], None), "duplicate"),
        (Final("r", "e", 1.0, "silence"), ([], None), "late"),
        (Final("r", "e", 1.0, "silence"), ([1], None), "late"),
        (Final("r", "e", 1.0, "dropped"), ([1], None), "late"),
    ],
)
def test_after_the_end(final, said, outcome):
    assert after_the_end(final, "e", *said).outcome == outcome
