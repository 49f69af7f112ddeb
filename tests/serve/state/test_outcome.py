"""The outcomes of feedback, one by one; that the state gives them is in test_state.py."""

from __future__ import annotations

from typing import Any

import pytest

from driftrank import CascadeUCB1
from driftrank.serve.log.records import Clicked, Final, Ranked
from driftrank.serve.state import outcome
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.rewards import Reported


def impression(final: Final | None = None, **how: Any) -> Impression:
    out = Impression(5, Ranked("r", "q", "e", 10.0, 1, ["a", "b"], "ll", 0, **how))
    out.final = final
    return out


@pytest.mark.parametrize(
    ("found", "now", "expected"),
    [
        (impression(defer=True), 11.0, "inactive"),
        (impression(Final("r", "e", 1.0, "silence")), 11.0, "late"),
        (impression(Final("r", "e", 1.0, "feedback", [1])), 11.0, "duplicate"),
        (impression(), 109.0, None),
        (impression(), 110.0, "late"),
    ],
)
def test_unrecorded(found, now, expected):
    result = outcome.unrecorded(found, 100.0, now, Reported([1], None, []))
    assert (result and result.outcome) == expected


@pytest.mark.parametrize(
    ("final", "feedback", "expected", "clicks"),
    [
        (Final("r", "e", 1.0, "feedback", [1]), ([1], None), "duplicate", 1),
        (Final("r", "e", 1.0, "feedback", [1]), ([1], 2), "refused", 1),
        (Final("r", "e", 1.0, "feedback", [1]), ([], None), "refused", 1),
        (Final("r", "e", 1.0, "feedback"), ([], None), "duplicate", 0),
        (Final("r", "e", 1.0, "silence"), ([], None), "late", None),
        (Final("r", "e", 1.0, "silence"), ([1], None), "late", None),
        (Final("r", "e", 1.0, "dropped"), ([1], None), "late", None),
        (Final("r", "e", 1.0, "feedback", values=[(1, 0.3)]), ([], None), "refused", 0),
    ],
)
def test_after_end(final, feedback, expected, clicks):
    result = outcome.after_end(final, Reported(*feedback, []))
    assert (result.event_id, result.outcome, result.clicks) == ("e", expected, clicks)


@pytest.mark.parametrize(
    ("record", "final", "reset", "expected"),
    [
        (Clicked("r", "e", 1.0, [1]), None, False, "duplicate"),
        (Clicked("r", "e", 1.0, [1]), None, True, "forgotten"),
        (Final("r", "e", 1.0, "feedback", [1]), Final("r", "e", 1.0, "feedback", [1]), True, "duplicate"),
        (Final("r", "e", 1.0, "feedback", [1]), Final("r", "e", 1.0, "feedback", [2]), False, "refused"),
        (Final("r", "e", 1.0, "feedback", [1]), Final("r", "e", 1.0, "silence"), False, "late"),
    ],
)
def test_repeated(record, final, reset, expected):
    assert outcome.repeated(record, impression(final), reset=reset).outcome == expected


@pytest.mark.parametrize(
    ("final", "clicks", "reset", "expected"),
    [
        (None, [1, 2], False, ("collected", 2)),
        (None, [1, 2], True, ("forgotten", None)),
        (Final("r", "e", 1.0, "feedback", [1]), None, False, ("duplicate", 1)),
        (Final("r", "e", 1.0, "feedback", [1, 2]), None, False, ("refused", 2)),
        (Final("r", "e", 1.0, "silence"), None, False, ("late", None)),
        (None, None, False, ("late", None)),
    ],
)
def test_collected(final, clicks, reset, expected):
    result = outcome.collected(
        Clicked("r", "e", 1.0, [1]), impression(final), clicks, reset=reset, policy=CascadeUCB1()
    )
    assert (result.outcome, result.clicks) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"waited": True, "holdout": False, "reset": False}, "counted"),
        ({"waited": True, "holdout": True, "reset": False}, "holdout"),
        ({"waited": True, "holdout": False, "reset": True}, "forgotten"),
        ({"waited": False, "holdout": False, "reset": False}, "late"),
    ],
)
def test_counted(how, expected):
    final = Final("r", "e", 1.0, "feedback", [1])
    policy = CascadeUCB1()
    assert outcome.counted(final, policy=policy, **how).outcome == expected
    good = {"waited": True, "holdout": False, "reset": False, "policy": policy}
    assert outcome.counted(final, error="why", **good).detail == "not learnt: why"
