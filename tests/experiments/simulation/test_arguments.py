"""Policies and environments as objects, classes and text; wrong ones say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

import driftrank as dr
from driftrank.clickmodels import PBM
from driftrank.experiments import leaderboard
from driftrank.experiments.simulation.labels import known_label
from driftrank.experiments.simulation.run_world import RunWorld
from driftrank.experiments.simulation.settings import EnvironmentSettings, as_environment
from driftrank.experiments.sweeps.sweep import SweepPlan
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.learner.learner import Learner
from driftrank.policies.registry import as_policies

SIZE: dict[str, Any] = {"horizon": 20, "runs": 1, "progress": False}


def test_policies_may_be_classes_and_text() -> None:
    assert as_policies([dr.Random, "CascadeTS:a0=2", dr.CascadeUCB1()]) == [
        dr.Random(), dr.CascadeTS(a0=2), dr.CascadeUCB1()
    ]  # fmt: skip
    assert as_policies(dr.Random) == as_policies("Random") == [dr.Random()]


def test_environments_may_be_classes_and_text() -> None:
    """They have the queries of the command line."""
    expected = EnvironmentSettings(env="Abrupt:period=50", seed=3).environment()
    assert as_environment("Abrupt:period=50", seed=3) == expected
    assert as_environment(dr.environments.Abrupt) == as_environment("Abrupt")
    assert as_environment(dr.environments.BLB) == dr.environments.BLB()
    assert as_environment(expected) is expected


def test_click_models_may_be_classes_and_text() -> None:
    for given in (PBM, "PBM", "pbm", PBM()):
        assert dr.environments.Stationary([[0.5, 0.1]], k=1, click_model=given).users() == PBM()
        assert dr.environments.BLB(click_model=given).users() == PBM()


def test_simulations_and_sweeps_take_them() -> None:
    result = dr.simulate([dr.Random], "Stationary", **SIZE)
    assert result.labels == ["Random"]
    assert len(result.queries) == 10
    plan = _sweep("Random", ["Stationary", "Abrupt:period={50;100}", dr.environments.BLB])
    assert plan.sweep.environments == ["Stationary", "Abrupt:period=50", "Abrupt:period=100", "BLB"]
    assert _sweep("CascadeTS:a0={1;2}", {"mine": "BLB"}).sweep.environments == ["mine"]


ENV = dr.environments.BLB()
WRONG = {
    "an environment for a policy": (lambda: dr.simulate([ENV], ENV, **SIZE), "policy=BLB.*must be a policy, its class"),
    "a number": (lambda: dr.simulate(3, ENV, **SIZE), "policies=3: must be a policy, or a list of them"),  # type: ignore[arg-type]
    "an environment class for a policy": (
        lambda: dr.simulate(dr.environments.BLB, ENV, **SIZE),  # type: ignore[arg-type]
        "policy=.*BLB.*must be a policy",
    ),
    "a base class": (lambda: dr.simulate(IndexPolicy, ENV, **SIZE), "policy IndexPolicy: must not be a class that is"),
    "queries for an environment": (
        lambda: dr.simulate("Random", dr.queries.yandex_like(2), **SIZE),  # type: ignore[arg-type]
        "environment=.*must be an environment, its class, or text such as 'Abrupt:period=5000'",
    ),
    "unknown text": (lambda: dr.simulate("Random", "Abrubt", **SIZE), "unknown environment 'Abrubt'; did you mean Abr"),
    "a grid in a simulation": (lambda: dr.simulate("Random", "Abrupt:period={1;2}", **SIZE), "period='{1;2}': must be"),
    "a sweep over a number": (lambda: dr.sweep("CascadeTS:a0={1;2}", 7, **SIZE), "environments=7: must be an environm"),  # type: ignore[arg-type]
    "a sweep over policies": (
        lambda: dr.sweep("CascadeTS:a0={1;2}", [dr.Random()], **SIZE),  # type: ignore[list-item]
        "environment=Random.*must be an environment",
    ),
    "a click model": (lambda: dr.environments.BLB(click_model=3), "click_model=3: must be a click model"),
    "a leaderboard of objects": (
        lambda: leaderboard([[0.1, 0.2]], environments=[ENV], k=1),
        "environments=.*must be names of the suite or specs",
    ),
    "a sweep over a world": (
        lambda: dr.sweep("CascadeTS:a0={1;2}", RunWorld(ENV, "B_LB", 0, 0, 20), **SIZE),  # type: ignore[arg-type]
        "environments=RunWorld.*must be an environment",
    ),
    "start of a class": (
        lambda: dr.CascadeUCB1.start(["a", "b"], 2),  # type: ignore[call-arg, arg-type]
        r"policy\.start: called on the class CascadeUCB1; make a policy first, as in CascadeUCB1\(\.\.\.\)\.start",
    ),
    "start of a class by keywords": (
        lambda: dr.CascadeUCB1.start(items=["a", "b"], k=2),  # type: ignore[call-arg]
        r"policy\.start: called on the class CascadeUCB1",
    ),
    "replace of a class": (
        lambda: dr.CascadeUCB1.replace(exploration=2.0),  # type: ignore[call-arg]
        r"policy\.replace: called on the class CascadeUCB1",
    ),
    **{
        f"{name} of a class": (
            lambda name=name: getattr(dr.environments.Abrupt, name)(5),  # type: ignore[misc]
            rf"environment\.{name}: called on the class Abrupt; make an environment first, as in Abrupt\(",
        )
        for name in ("attraction", "breakpoints", "variation", "present", "optimal_value", "best", "stretches", "users")
    },
    "a learner of a class": (
        lambda: Learner(dr.CascadeUCB1, ["a", "b"], 1),  # type: ignore[arg-type]
        r"policy=CascadeUCB1: must be a policy, such as CascadeUCB1\(\)",
    ),
    "a shared model of a class": (
        lambda: dr.SharedModel(dr.PriorRegimeTS),  # type: ignore[arg-type]
        "policy=PriorRegimeTS: must be a policy",
    ),
    "a shared model of text": (
        lambda: dr.SharedModel("PriorRegimeTS"),  # type: ignore[arg-type]
        "policy='PriorRegimeTS': must be a policy",
    ),
    "a policy for a shared model": (
        lambda: dr.PriorRegimeTS().start(["a", "b"], 1, shared=dr.PriorRegimeTS()),  # type: ignore[arg-type]
        "shared=PriorRegimeTS.*must be a SharedModel",
    ),
    "an own class without a default": (lambda: dr.simulate(_Needs, ENV, **SIZE), "parameter size is missing"),
}


class _Needs(dr.Policy):
    size: int


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_calls_say_what_is_wrong(wrong: str) -> None:
    call, message = WRONG[wrong]
    with pytest.raises(ValueError, match=message):
        call()


def test_labels_show_what_was_set() -> None:
    plan = _sweep(["CascadeSWUCB:epsilon=0.4,window={50;100}", "CascadeKLUCB:c=0", "CascadeTS"], ENV)
    assert plan.sweep.policies == ["CascadeSWUCB:epsilon=0.4", "CascadeKLUCB:c=0.0", "CascadeTS"]
    assert plan.sweep.family("CascadeKLUCB").label == "CascadeKLUCB:c=0.0"  # a name that is unique will do
    assert known_label("A", ["A", "A:b=1"]) == "A"
    with pytest.raises(ValueError, match="unknown policy 'A'"):
        known_label("A", ["A:b=2", "A:b=1"])


def _sweep(policies: Any, environments: Any) -> SweepPlan:
    return SweepPlan.make(policies, environments, 20, 1, 0, 1, "cpu", None, False)


def test_sweeps_and_leaderboards_show_themselves() -> None:
    found = dr.sweep("CascadeUCB1:exploration={0.5;1}", ENV, **SIZE)
    assert repr(found) == f"<Sweep: 2 settings, 3 of 3 runs of 20 steps>\n{found.table()}"
    assert found._repr_html_() == found.table().to_html()
    how: dict[str, Any] = SIZE | {"horizon": 100, "k": 2}
    board = leaderboard([[0.5, 0.1, 0.4], [0.3, 0.2, 0.1]], policies=dr.Random, environments="Stationary", **how)
    assert repr(board) == f"<Leaderboard: 2 policies in 1 environment>\n{board.table()}"
    assert board._repr_html_() == board.table().to_html()
