"""Learners with room to spare: fewer items than positions, none at all, and slots that hold nothing."""

from __future__ import annotations

import numpy as np
import pytest

import driftrank as dr
from driftrank.policies.contract.worlds import clicks_of, users
from driftrank.policies.learner.learner import keeps_learning
from driftrank.policies.registry import policies
from tests.policies.streams import state

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

OURS = [name for name, cls in policies().items() if cls.__module__.startswith("driftrank.") and not cls.oracle]
NAMES = [f"item {n}" for n in range(9)]


def play(learner, steps, seed=0, candidates=None):
    """Every list holds items that are there, as many as can be."""
    there = learner.items if candidates is None else candidates
    attraction = {item: 0.1 + 0.08 * n for n, item in enumerate(NAMES)}
    for user in users(steps, attraction, seed=seed):
        ranking = learner.rank(candidates)
        assert len(set(ranking)) == len(ranking) == min(learner.k, len(there))
        assert set(ranking) <= set(there)
        assert not np.isnan(ranking.scores).any()
        learner.update(ranking, clicks_of(ranking, user))
    scores = learner.scores()
    assert list(scores) == learner.items
    assert not np.isnan(list(scores.values())).any()
    for name, values in state(learner).items():
        assert not np.isnan(values).any(), name


@pytest.mark.parametrize("name", OURS)
def test_free_slots_are_never_shown(name):
    learner = policies()[name]().start(NAMES[:3], 4, slots=12, seed=1, horizon=1000)
    assert learner.compiled.problem.L == 12
    play(learner, 60)
    play(learner, 20, candidates=["item 2"])
    play(learner, 20, candidates=["item 2", "item 0"])
    learner.add_items(NAMES[3:8])
    play(learner, 60, seed=1)
    play(learner, 60, candidates=NAMES[1:7])
    learner.remove_items(NAMES[:6])
    assert learner.items == NAMES[6:8]
    play(learner, 40, seed=2)
    learner.add_items([NAMES[8], *NAMES[:6]])
    play(learner, 60, seed=3)
    assert learner.compiled.problem.L == 12


@pytest.mark.parametrize("name", OURS)
def test_a_learner_that_starts_without_items(name):
    learner = policies()[name]().start([], 3, slots=4, horizon=1000)
    assert (learner.items, learner.scores()) == ([], {})
    for wanted in (None, []):
        with pytest.raises(ValueError, match="candidates"):
            learner.rank(wanted)
    learner.update([])
    for item in NAMES[:6]:  # two more than there is room for
        learner.add_items([item])
        play(learner, 15)
    learner.remove_items(NAMES[:6])
    assert (learner.items, learner.scores()) == ([], {})
    learner.add_items(NAMES[:2])
    play(learner, 15)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.compiled
def test_it_learns_among_free_slots(name):
    """As surely as without them: the best item is on top more often than by chance where the policy claims to learn."""
    policy = policies()[name]()
    if "stationary" not in policy.claims:
        return
    steps = 2000
    learner = policy.start(NAMES[:5], 2, slots=16, seed=3, horizon=steps)
    attraction = dict(zip(NAMES, (0.1, 0.1, 0.9, 0.1, 0.1), strict=False))
    shown = 0
    for n, user in enumerate(users(steps, attraction, seed=4)):
        ranking = learner.rank(NAMES[:5])
        shown += n >= steps // 2 and "item 2" in ranking
        learner.update(ranking, clicks_of(ranking, user))
    assert shown / (steps / 2) > 0.5  # 0.4 by chance


def test_reserved_slots_change_nothing():
    """Slots for the items that are there are all there are."""
    first = dr.CascadeTS().start(NAMES, 3, seed=5)
    second = dr.CascadeTS().start(NAMES, 3, seed=5, slots=len(NAMES))
    for _ in range(50):
        assert first.rank() == second.rank()
        for learner in (first, second):
            learner.update(learner.rank(), 1)
    assert first._floats.tobytes() == second._floats.tobytes()


def test_without_slots_there_must_be_k_items():
    with pytest.raises(ValueError, match="k=3: must be an integer from 1 to the number of items, 2"):
        dr.CascadeTS().start(["a", "b"], 3)
    with pytest.raises(ValueError, match=r"slots=2: must be at least k=3"):
        dr.CascadeTS().start(["a", "b"], 3, slots=2)
    for slots in (0, -1, 1.5, "8", True):
        with pytest.raises(ValueError, match="slots="):
            dr.CascadeTS().start(["a", "b"], 1, slots=slots)
    with pytest.raises(ValueError, match="k=0"):
        dr.CascadeTS().start(["a", "b"], 0, slots=8)


def test_free_slots_are_saved(tmp_path):
    learner = dr.CascadeSWUCB().start(["a"], 3, slots=6, seed=2)
    learner.update(["a"], 1)
    learner.save(tmp_path / "x.npz")
    other = dr.load(tmp_path / "x.npz")
    for each in (learner, other):
        each.remove_items(["a"])
        each.add_items(["b", "c"])
    assert other.rank() == learner.rank()
    assert other._floats.tobytes() == learner._floats.tobytes()


def test_described_items_in_free_slots():
    features = {"a": [1, 0], "b": [0, 1]}
    for policy in (dr.CascadeLinUCB(c=1), dr.CascadeLinTS()):
        learner = policy.start([], 3, slots=5, features=np.zeros((0, 2)))
        learner.add_items(["a", "b"], features=features)
        for _ in range(40):
            learner.update(learner.rank(), item="b")
        learner.add_items(["c", "d"], features=[[1, 0], [0, 1]])
        assert learner.rank(["c", "d"]) == ["d", "c"]
        with pytest.raises(ValueError, match="features: must be given"):
            learner.add_items(["e"])


# -- more positions ----------------------------------------------------------------------------------------------------

#: policies whose state is another one with more positions
_DEPENDS_ON_K = {"BatchRank", "CUCBBoB", "CUCBSW", "RankedEXP3", "RankedEXP3S", "RankedREXP3"}


@pytest.mark.parametrize("name", OURS)
def test_a_learner_that_shows_more(name):
    policy = policies()[name]()
    assert keeps_learning(policy, 2, 4, 500) == (name not in _DEPENDS_ON_K)
    if name in _DEPENDS_ON_K:
        return
    learner = policy.start(["a", "b", "c"], 2, horizon=500, slots=3)
    for t in range(20):
        learner.update(learner.rank(), 1 + t % 3)
    before, beliefs = learner.to_bytes(), [(b.estimate, b.samples) for b in learner.beliefs(now=20.0).values()]
    wide = learner.resized(5)
    assert (wide.k, wide.steps, wide.items) == (5, 20, ["a", "b", "c"])
    assert str([(b.estimate, b.samples) for b in wide.beliefs(now=20.0).values()]) == str(beliefs)
    wide.add_items(["d", "e"])
    for _ in range(10):
        wide.update(wide.rank(), 4)
    assert len(wide.rank()) == 5
    assert learner.to_bytes() == before
    with pytest.raises(ValueError, match="k=1"):
        learner.resized(1)


def test_learners_that_cannot_be_that_large_do_not_go_on_learning() -> None:
    assert not keeps_learning(dr.CascadeLinUCB(), 3, 1000, None)  # so many items are not told apart without features
    assert not keeps_learning(dr.BatchRank(), 2, 4, None)  # it has no horizon
