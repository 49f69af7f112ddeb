"""Learners as people see them."""

from __future__ import annotations

import pytest

import driftrank as dr
from scripts.docs.reference import _members


def test_a_learner_shows_its_items_in_a_notebook() -> None:
    learner = dr.CascadeUCB1(exploration=0.5).start(["a", "<b>", "c"], k=2, query="q & a")
    learner.update(["a", "<b>"], "<b>")
    learner.update(["a"], None)
    html = learner._repr_html_()
    assert "CascadeUCB1:exploration=0.5: k=2, 3 items, 2 updates, query &#x27;q &amp; a&#x27;" in html
    rows = [line for line in html.splitlines() if line.startswith("<tr><td>")]
    number = "<td class=number>{}</td>".format
    assert rows == [
        f"<tr><td>&lt;b&gt;</td>{number('1.0000')}{number('1')}</tr>",
        f"<tr><td>a</td>{number('0.0000')}{number('2')}</tr>",
        f"<tr><td>c</td>{number('–')}{number('0')}</tr>",
    ]
    assert "exploration=0.5" in repr(learner)


def test_what_is_shown_is_bounded() -> None:
    learner = dr.CascadeUCB1().start([f"{n} {'x' * 1000}" for n in range(200)], k=2)
    table = learner.table()
    assert len(table.rows) == 21
    assert table.rows[-1][0] == "and 180 more"
    assert max(len(row[0]) for row in table.rows) == 60
    assert len(learner._repr_html_()) < 5000
    assert len(learner.table(most=200).rows) == 200
    with pytest.raises(ValueError, match="most=0: must be an integer of at least 1"):
        learner.table(0)


def test_policies_without_estimates_and_learners_without_items() -> None:
    assert "–" in dr.Random().start(["a", "b"], k=1)._repr_html_()
    assert dr.CascadeUCB1().start([], k=1, slots=4).table().rows == []


def test_methods_of_a_class_take_an_instance_and_are_in_the_reference() -> None:
    assert "start" in dict(_members(dr.Policy))
    assert dr.Policy.start(dr.CascadeUCB1(), ["a", "b"], 1).items == ["a", "b"]
