from __future__ import annotations

import pytest

from driftrank.serve.log.records import Ranked
from driftrank.serve.ranking.feedback import reported
from driftrank.wire import Clicked, Feedback

RANKED = Ranked("r", "q", "e", 0.0, 1, ["a", 7, "7", 1], "llll", 0)


@pytest.mark.parametrize(
    ("feedback", "expected"),
    [
        (Feedback("e"), ([], None)),
        (Feedback("e", []), ([], None)),
        (Feedback("e", ["a"]), ([1], None)),
        (Feedback("e", ["7"]), ([3], None)),
        (Feedback("e", [1]), ([4], None)),  # an id, as some are integers
        (Feedback("e", [7]), ([2], None)),
        (Feedback("e", [Clicked(position=1)]), ([1], None)),
        (Feedback("e", [Clicked(7)]), ([2], None)),
        (Feedback("e", [Clicked(1)]), ([4], None)),
        (Feedback("e", [Clicked("7"), Clicked(position=3), "7"]), ([3], None)),
        (Feedback("e", [Clicked(position=4), "a"]), ([1, 4], None)),
        (Feedback("e", ["a"], shown=1), ([1], 1)),
        (Feedback("e", [], shown=4), ([], None)),
        (Feedback("e", shown=0), ([], 0)),
    ],
)
def test_positions(feedback, expected):
    assert reported(RANKED, feedback, {}) == (*expected, [])


def test_a_number_is_a_position_if_no_id_is_a_number():
    texts = Ranked("r", "q", "e", 0.0, 1, ["a", "2"], "ll", 0)
    assert reported(texts, Feedback("e", [2, "a"]), {}) == ([1, 2], None, [])
    with pytest.raises(ValueError, match="position 3: must be from 1 to 2"):
        reported(texts, Feedback("e", [3]), {})


@pytest.mark.parametrize(
    "feedback",
    [
        Feedback("e", [0]), Feedback("e", [5]), Feedback("e", ["b"]), Feedback("e", [Clicked("1")]),
        Feedback("e", ["a"], shown=0), Feedback("e", shown=5), Feedback("e", [7], shown=1), Feedback("e", shown=-1),
    ],
)  # fmt: skip
def test_positions_and_items_that_were_not_shown(feedback):
    with pytest.raises(ValueError, match=r"clicks|shown"):
        reported(RANKED, feedback, {})


def test_a_number_may_be_meant_as_a_position():
    with pytest.raises(ValueError, match=r'clicks: 2 is not in the ranking; a position is \{"position": 2\}'):
        reported(RANKED, Feedback("e", [2]), {})
