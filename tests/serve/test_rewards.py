"""Values of events: the clicks as which they are learnt from, their sums, and the records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from driftrank.serve.log.records import Clicked as ClickedRecord
from driftrank.serve.log.records import Final, decode
from driftrank.serve.state.rewards import is_click
from driftrank.wire import Clicked
from tests.serve.harness import CHEAP, Harness

VALUES = {"purchase": 1.0, "dwell": 0.3, "hide": 0.0}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Harness(tmp_path, ranker={"values": VALUES}) as harness:
        yield harness


def finals(harness: Harness) -> list[Final]:
    return [record for _, record in harness.log() if isinstance(record, Final)]


def test_a_value_is_a_click_with_that_probability(harness: Harness):
    clicks = 0
    for n in range(200):
        item = harness.shown("q", "abc", f"e{n}")[1]
        result = harness.feedback(f"e{n}", [item], value=0.3)
        assert (result.outcome, result.value) == ("counted", 0.3)
        assert result.clicks == is_click("default", f"e{n}", 2, 0.3)
        clicks += result.clicks or 0
    assert 35 < clicks < 85
    state = harness.query("q")
    assert (state.steps, state.clicks) == (200, clicks)
    assert state.value == pytest.approx(60.0)
    assert harness.info().value == pytest.approx(60.0)
    assert harness.service.metrics.count("value", ("default", "live")) == pytest.approx(60.0)
    assert all(final.values == [(2, 0.3)] for final in finals(harness))
    before = harness.dump()
    harness.recover()
    assert harness.query("q").value == state.value
    assert harness.dump() == before == harness.dump_of_log()


def test_draws_of_positions_and_events_are_independent():
    draws = np.array([[is_click("shop", f"e{n}", position, 0.5) for position in (1, 2, 3)] for n in range(4000)])
    assert draws.mean(0) == pytest.approx([0.5] * 3, abs=0.03)
    assert np.corrcoef(draws.T)[np.triu_indices(3, 1)] == pytest.approx([0.0] * 3, abs=0.05)


def test_the_larger_value_is_a_click_whenever_the_smaller_is():
    for n in range(200):
        assert is_click("shop", f"e{n}", 1, 0.7) >= is_click("shop", f"e{n}", 1, 0.3)


def test_kinds_have_the_values_of_the_settings(harness: Harness):
    for n, (kind, value) in enumerate(VALUES.items()):
        item = harness.shown("q", "abc", f"e{n}")[0]
        result = harness.feedback(f"e{n}", [item], kind=kind)
        assert result.value == (None if value == 1.0 else value)
        assert result.clicks == is_click("default", f"e{n}", 1, value)
    assert [final.values for final in finals(harness)] == [[], [(1, 0.3)], [(1, 0.0)]]


def test_several_kinds_in_one_feedback(harness: Harness):
    one, two, _ = harness.shown("q", "abc", "e")
    clicks = [Clicked(one, kind="dwell"), Clicked(one, kind="purchase"), Clicked(two, value=0.0)]
    result = harness.feedback("e", clicks)
    assert (result.outcome, result.clicks, result.value) == ("counted", 1, 1.0)
    assert finals(harness)[-1].values == [(1, 1.0), (2, 0.0)]


@pytest.mark.parametrize(
    ("clicks", "how", "says"),
    [
        ([1], {"kind": "gift"}, "kind='gift': must be one of 'purchase', 'dwell', 'hide'"),
        ([1], {"value": 1.5}, "value=1.5: must be"),
        ([1], {"value": -0.1}, "value=-0.1: must be"),
        ([1], {"value": 0.1, "kind": "dwell"}, "must not be given together"),
        ([Clicked(position=1, value=2.0)], {}, "value=2.0: must be"),
        (None, {"value": 0.5}, "clicks: must name the items"),
    ],
)
def test_bad_values(harness: Harness, clicks, how, says):
    harness.rank("q", "abc", "e")
    with harness.refused(422, says):
        harness.feedback("e", clicks, **how)


def test_without_kinds_in_the_settings(tmp_path: Path):
    with Harness(tmp_path) as harness:
        harness.rank("q", "abc", "e")
        with harness.refused(422, "the ranker's settings have no values"):
            harness.feedback("e", [1], kind="purchase")


def test_a_list_of_one_item_needs_no_click(harness: Harness):
    harness.rank("q", "a", "e")
    assert harness.feedback("e", value=0.9).value == 0.9


def test_sent_again(harness: Harness):
    item = harness.shown("q", "abc", "e")[0]
    assert harness.outcome("e", [item], value=0.0) == "counted"
    assert harness.outcome("e", [item], value=0.0) == "duplicate"
    assert harness.outcome("e", [item], value=0.1) == "refused"
    assert harness.outcome("e", []) == "refused"


def test_collected_events_count_with_the_largest_value(tmp_path: Path):
    with Harness(tmp_path, ranker={"values": VALUES, "second_click": "update", "wait": 100}) as harness:
        one, two, _ = harness.shown("q", "abc", "e")
        assert harness.feedback("e", [one]).value is None
        assert harness.feedback("e", [two], kind="dwell").value == pytest.approx(1.3)
        assert harness.outcome("e", [two], kind="dwell") == "duplicate"
        assert harness.feedback("e", [two], value=0.2).value == pytest.approx(1.3)
        harness.checkpoint()
        harness.recover()
        assert harness.feedback("e", [two], kind="purchase").value == pytest.approx(2.0)
        harness.shown("q", "abc", "f")
        for position in (1, 2):  # neither may be a click, and both are events
            assert harness.feedback("f", [position], kind="hide").outcome == "collected"
        harness.advance(200)
        ended = {final.event_id: final for final in finals(harness)}
        assert (ended["e"].clicks, ended["e"].values) == ([1, 2], [(1, 1.0), (2, 1.0)])
        assert (ended["f"].clicks, ended["f"].values) == ([], [(1, 0.0), (2, 0.0)])
        assert harness.dump() == harness.dump_of_log()


def test_values_without_collection_are_warned_of(harness: Harness, caplog: pytest.LogCaptureFixture):
    """The settings were accepted silently, and then the second kind of event was refused."""
    (note,) = harness.put("shop", policy=CHEAP, values=VALUES).notes
    assert "second_click='update' collects them" in note
    assert f"ranker shop: {note}" in caplog.messages
    item = harness.shown("q", "abc", "e")[0]
    assert harness.feedback("e", [item], kind="dwell").outcome == "counted"
    refused = harness.feedback("e", [item], kind="purchase")
    assert refused.outcome == "refused"
    assert "second_click='update'" in str(refused.detail)
    harness.feedback(harness.rank("q", "abc", "plain").event_id, [1])
    assert harness.feedback("plain", []).detail == "other clicks were counted before"
    assert harness.put("shop", policy=CHEAP, values=VALUES, second_click="update").notes == []
    assert harness.put("shop", policy=CHEAP).notes == []


def test_old_records_keep_their_meaning():
    old = decode(b'{"kind":"final","ranker":"r","event":"e","time":1.0,"how":"feedback","clicks":[1,3]}')
    assert isinstance(old, Final)
    assert (old.values, old.value) == ([], 2.0)
    clicked = decode(b'{"kind":"clicked","ranker":"r","event":"e","time":1.0,"clicks":[1]}')
    assert isinstance(clicked, ClickedRecord)
    assert clicked.values == []
