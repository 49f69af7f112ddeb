"""Learners, shared models and lists in pickles: copies go the same way."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import driftrank as dr
from driftrank.policies.learner.learner import Learner

pytestmark = pytest.mark.interpreted


def played(learner: Learner, n: int) -> list[list[Any]]:
    shown = []
    for t in range(n):
        ranking = learner.rank()
        learner.update(ranking, clicks=1 + t % (learner.k + 1))
        shown.append([*ranking])
    return shown


@pytest.mark.parametrize("policy", [dr.CascadeTS(), dr.CascadeSWUCB(window=20), dr.GLRTCascadeKLUCB()])
@pytest.mark.parametrize("items", [("a", "b", "c", "d"), (("one", 1), ("two", 2), frozenset())])
def test_a_pickled_learner_goes_the_same_way(policy: dr.Policy, items: tuple[Any, ...]) -> None:
    """Also one whose items cannot be saved without pickle."""
    learner = policy.start(items, k=2, seed=4, horizon=200, query="q")
    played(learner, 30)
    pending = learner.rank()
    twins = [pickle.loads(pickle.dumps((learner, pending))), copy.deepcopy((learner, pending))]
    for twin, ranking in [(learner, pending), *twins]:
        twin.update(ranking, clicks=1)
    expected = played(learner, 40)
    for twin, _ in twins:
        assert played(twin, 40) == expected
        assert twin.steps == learner.steps == 71


def test_the_shared_model_travels_along() -> None:
    policy = dr.PriorRegimeTS(hash_bits=6)
    model = dr.SharedModel(policy)
    learners = [policy.start((), k=2, query=q, slots=2, shared=model) for q in "ab"]
    for _ in range(5):
        for learner in learners:
            learner.update(learner.rank(["x", "y", "z"]), clicks="y")
    twins = pickle.loads(pickle.dumps(learners))
    assert twins[0].shared is twins[1].shared is not model
    for both in zip(learners, twins, strict=True):
        lists = [each.rank(["x", "y", "z"]) for each in both]
        assert lists[0] == lists[1]
        for each, ranking in zip(both, lists, strict=True):
            each.update(ranking, clicks=1)
    assert twins[0].shared.to_bytes() == model.to_bytes()


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pickle.dumps(dr.Random().start(["a"], k=1))
    monkeypatch.setattr(dr.Random, "version", 99)
    with pytest.raises(ValueError, match="a state of Random version 1, this is version 99"):
        pickle.loads(packed)


def test_repr() -> None:
    learner = dr.CascadeSWUCB(window=20).start(["a", "b"], k=1, horizon=9, query="shoes")
    learner.update(["a"], clicks=1)
    assert repr(learner) == "<Learner CascadeSWUCB:window=20: k=1, 2 items, 1 updates, query 'shoes'>"
    assert repr(dr.SharedModel(dr.PriorRegimeTS())) == "<SharedModel PriorRegimeTS>"
