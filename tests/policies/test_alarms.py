"""What a learner says of the changes that its policy has found."""

from __future__ import annotations

import pytest

import driftrank as dr
from driftrank.policies.alarms import REMEMBERED, Alarm

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


def change(learner, item):
    """Labels that raise an alarm with delta = 0.05: at the fourth one after ten zeros."""
    for y in [0] * 10 + [1] * 4:
        learner.update([item], [y])


def started(**options):
    return dr.GLRTCascadeUCB(delta=0.05, **options).start(["a", "b", "c"], 1)


def test_no_alarms_at_first_nor_of_policies_that_detect_nothing():
    assert started().alarms == []
    learner = dr.CascadeUCB1().start(["a", "b"], 1)
    learner.update(["a"], [1])
    assert (learner.alarms, learner.alarm_count) == ([], 0)


def test_step_item_and_extent_of_an_alarm():
    learner = started()
    change(learner, "b")
    learner.update(["a"], [0])
    change(learner, "a")
    assert learner.alarms == [Alarm(14, "b", True), Alarm(29, "a", True)]
    learner = started(restart="local")
    change(learner, "c")
    assert learner.alarms == [Alarm(14, "c", False)]


def test_the_latest_are_remembered_and_all_are_counted():
    learner = started()
    for n in range(REMEMBERED + 3):
        change(learner, "abc"[n % 3])
    assert learner.alarm_count == REMEMBERED + 3
    assert [alarm.step for alarm in learner.alarms] == [14 * n for n in range(4, REMEMBERED + 4)]
    assert [alarm.item for alarm in learner.alarms] == ["abc"[n % 3] for n in range(3, REMEMBERED + 3)]


def test_alarms_are_saved(tmp_path):
    learner = started(restart="local")
    change(learner, "b")
    learner.save(tmp_path / "learner.npz")
    other = dr.load(tmp_path / "learner.npz")
    assert other.alarms == learner.alarms == [Alarm(14, "b", False)]
    for each in (learner, other):
        change(each, "c")
    assert other.alarms == learner.alarms
    assert other.alarm_count == 2


def test_removed_items_are_not_named():
    learner = started()
    change(learner, "b")
    change(learner, "a")
    learner.remove_items(["b"])
    assert learner.alarms == [Alarm(14, None, True), Alarm(28, "a", True)]
    learner.add_items(["d", "e"])  # d takes the place of b, e needs a new one
    assert learner.alarms == [Alarm(14, None, True), Alarm(28, "a", True)]
    change(learner, "d")
    assert learner.alarms[-1] == Alarm(42, "d", True)
    learner.renew(["a"])  # what it raised the alarm as is gone
    assert [alarm.item for alarm in learner.alarms] == [None, None, "d"]
