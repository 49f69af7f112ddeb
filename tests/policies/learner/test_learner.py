from __future__ import annotations

import json
import os
import zipfile
import zlib
from enum import Enum

import numpy as np
import pytest

import driftrank as dr
from driftrank.kernels.rng import policy_key, run_key
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.learner.learner import Learner, load
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.serialization import pack
from driftrank.policies.registry import policies
from driftrank.policies.stationary.cascade_ts import CascadeTS
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1
from driftrank.policies.stationary.random import Random
from tests.policies.streams import state

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


@pytest.fixture
def learner():
    learner = CascadeUCB1().start(["a", "b", "c", "d"], 2, seed=3)
    for clicked in ("b", None, "c"):
        learner.update(["b", "c"], clicked)
    return learner


def bits(learner):
    return learner._floats.tobytes(), learner._ints.tobytes()


# -- ranking -----------------------------------------------------------------------------------------------------------


def test_a_list_is_a_list(learner):
    ranking = learner.rank()
    assert isinstance(ranking, list)
    assert isinstance(ranking, RankedItems)
    assert ranking == list(ranking)
    assert set(ranking) == {"a", "d"}  # never seen
    assert json.loads(json.dumps(ranking)) == ranking
    assert ranking.scores.tolist() == [np.inf, np.inf]


def test_randomness_is_the_steps_own():
    learner = Random().start(range(20), 5, seed=1)
    first = learner.rank()
    assert learner.rank() == first
    learner.update(first, None)
    assert learner.rank() != first
    assert learner.rank(key=first.key) == first


def test_seed_query_and_run_give_other_randomness():
    lists = {
        tuple(Random().start(range(20), 5, **where).rank())
        for where in ({}, {"seed": 1}, {"query": "shoes"}, {"run": 1}, {"seed": 1, "run": 1})
    }
    assert len(lists) == 5


def test_candidates_and_shorter_lists(learner):
    assert learner.rank(["c"]) == ["c"]
    assert learner.rank(["c", "b"], k=1) == ["b"] or learner.rank(["c", "b"], k=1) == ["c"]
    assert len(learner.rank(k=1)) == 1
    assert set(learner.rank(("a", "d"))) == {"a", "d"}
    with pytest.raises(ValueError, match="candidates: must name at least one item"):
        learner.rank([])
    with pytest.raises(ValueError, match="'z': not among this learner's items"):
        learner.rank(["a", "z"])
    with pytest.raises(ValueError, match="'a' occurs twice"):
        learner.rank(["a", "a"])
    for k in (0, 3, -1, 1.5, "1", True):
        with pytest.raises(ValueError, match="k="):
            learner.rank(k=k)


@pytest.mark.parametrize(
    ("items", "k", "message"),
    [
        ([], 1, "L=0"),
        (["a", "a"], 1, "'a' occurs twice"),
        ("abc", 1, "not one string"),
        ([["a"], ["b"]], 1, "hashable"),
        (7, 1, "must be a list"),
        (["a", "b"], 3, "k=3: must be an integer from 1 to the number of items, 2"),
        (["a", "b"], 0, "k=0"),
        (["a", "b"], 1.0, "k=1.0"),
        (["a", "b"], "2", "k='2'"),
    ],
)
def test_bad_problems(items, k, message):
    with pytest.raises(ValueError, match=message):
        CascadeUCB1().start(items, k)


@pytest.mark.parametrize("name", ["seed", "run", "horizon"])
@pytest.mark.parametrize("value", [-1, 1.5, "1"])
def test_bad_seeds_and_horizons(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        CascadeUCB1().start(["a", "b"], 1, **{name: value})


def test_oracles_do_not_learn():
    with pytest.raises(ValueError, match="only a simulation knows the truth"):
        dr.DynamicOracle().start(["a", "b"], 1)


# -- feedback ----------------------------------------------------------------------------------------------------------


def test_every_form_of_feedback():
    vectors = [{"clicks": [0, 1]}, {"clicks": (0, 1)}, {"clicks": np.array([False, True])}]
    forms = [*vectors, {"clicks": 2}, {"clicks": "b"}, {"clicks": ["b"]}, {"item": "b"}]
    states = set()
    for form in forms:
        learner = CascadeUCB1().start(["a", "b", "c"], 2)
        learner.update(["a", "b"], **form)
        states.add(bits(learner))
    assert len(states) == 1
    states = set()
    for form in ({}, {"clicks": None}, {"clicks": [0, 0]}, {"clicks": 3}):
        learner = CascadeUCB1().start(["a", "b", "c"], 2)
        learner.update(["a", "b"], **form)
        states.add(bits(learner))
    assert len(states) == 1


def test_items_that_are_numbers_are_named_by_item():
    learner = CascadeUCB1().start([3, 1, 2], 2)
    learner.update([1, 2], 2)  # the second position
    assert state(learner)["X"].tolist() == [0, 0, 1]
    learner.update([1, 2], item=1)
    assert state(learner)["X"].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("ranking", "feedback", "message"),
    [
        (["a", "z"], {}, "'z': not among this learner's items"),
        (["a", "a"], {}, "'a' occurs twice"),
        (["a", "b", "c"], {}, "3 items: this learner shows at most k=2"),
        ("ab", {}, "not one string"),
        (["a", "b"], {"clicks": [1]}, "0 or 1 for each of the 2 items"),
        (["a", "b"], {"clicks": [0, 2]}, "0 or 1 for each of the 2 items"),
        (["a", "b"], {"clicks": 0}, "from 1 to 2"),
        (["a", "b"], {"clicks": 4}, "from 1 to 2"),
        (["a", "b"], {"clicks": "c"}, "'c': not among the items shown"),
        (["a", "b"], {"item": "c"}, "'c': not among the items shown"),
        (["a", "b"], {"clicks": 0.5}, "clicks=0.5"),
    ],
)
def test_bad_feedback_changes_nothing(learner, ranking, feedback, message):
    before = bits(learner), learner.steps
    with pytest.raises(ValueError, match=message):
        learner.update(ranking, **feedback)
    assert (bits(learner), learner.steps) == before


def test_a_step_without_a_list_counts_as_a_step(learner):
    counts = state(learner)["N"].copy()
    learner.update([])
    assert learner.steps == 4
    assert (state(learner)["N"] == counts).all()


def test_the_memo_of_an_edited_list_is_dropped():
    ranking = RankedItems(["a", "b"], np.zeros(2), np.array([5.0, 6.0]), 1)
    assert ranking.intact
    ranking.reverse()
    assert not ranking.intact
    policy = dr.RankedEXP3()
    learner, other = (policy.start(["a", "b", "c"], 2, horizon=50) for _ in range(2))
    ranking = learner.rank()
    ranking.pop()
    learner.update(ranking, 1)  # neither an error nor a wild read
    other.update(list(ranking), 1)
    assert bits(learner) == bits(other)


# -- items -------------------------------------------------------------------------------------------------------------


class Colour(str, Enum):  # noqa: UP042 - a StrEnum looks like its value, this does not
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    "items",
    [
        [5, 0, 2**70, -3],
        ["x", "ü", "", "a b"],
        [("p", 1), ("p", 2), ("q", 1), None],
        [1.5, 2.5, -0.5, "y"],
        list("abcd"),
    ],
    ids=str,
)
def test_items_of_any_kind(items):
    learner = CascadeTS().start(items, 2)
    for _ in range(20):
        ranking = learner.rank()
        assert set(ranking) <= set(items)
        learner.update(ranking, item=ranking[1] if ranking[1] is not None else ranking[0])
    assert learner.items == items
    assert set(learner.scores()) == set(items)


def test_numpy_items_and_enums_are_what_they_equal():
    """The same randomness before and after saving, which makes plain numbers and strings of them."""
    pairs = [
        (np.array(["a", "b", "c"]), ["a", "b", "c"]),
        (np.arange(3), [0, 1, 2]),
        (np.array([0.5, 1.5, 2.5]), [0.5, 1.5, 2.5]),
    ]
    for given, plain in (*pairs, (list(Colour), ["red", "blue"])):
        first, second = (Random().start(items, 2, seed=1) for items in (given, plain))
        for _ in range(20):
            assert first.rank() == second.rank()
            first.update(first.rank(), None)
            second.update(second.rank(), None)


def test_items_come_and_go(learner):
    learner.remove_items(["a", "c"])
    assert learner.items == ["b", "d"]
    assert set(learner.rank()) == {"b", "d"}
    learner.add_items(["e"])
    assert learner.items == ["b", "d", "e"]
    assert learner.scores()["e"] == np.inf
    assert learner.compiled.problem.L == 4  # the room of those that left
    learner.add_items(["c", "f"])
    assert learner.compiled.problem.L == 5
    assert learner.scores()["c"] == np.inf  # it is new again
    assert learner.scores()["b"] < np.inf
    assert len(learner.rank()) == 2


def test_bad_changes_of_items_change_nothing(learner):
    before = bits(learner), learner.items
    with pytest.raises(ValueError, match="'a' already exists"):
        learner.add_items(["x", "a"])
    with pytest.raises(ValueError, match="'x' occurs twice"):
        learner.add_items(["x", "x"])
    with pytest.raises(ValueError, match="'x': not among"):
        learner.remove_items(["a", "x"])
    with pytest.raises(ValueError, match="1 would be left, fewer than k=2"):
        learner.remove_items(["a", "b", "c"])
    assert (bits(learner), learner.items) == before


def test_feedback_on_a_removed_item(learner):
    ranking = learner.rank(["a", "b"])
    learner.remove_items(["a"])
    with pytest.raises(ValueError, match="'a': not among this learner's items"):
        learner.update(ranking, 1)


# -- saving ------------------------------------------------------------------------------------------------------------


def test_a_loaded_learner_continues(tmp_path, learner):
    learner.remove_items(["b"])
    learner.add_items(["e", "f"])
    path = tmp_path / "learner.npz"
    learner.save(path)
    other = load(path)
    assert isinstance(other, Learner)
    assert (other.items, other.k, other.steps, other.policy) == (learner.items, 2, 3, learner.policy)
    for _ in range(30):
        ranking = learner.rank()
        assert other.rank() == ranking
        learner.update(ranking, 1)
        other.update(ranking, 1)
    assert bits(other) == bits(learner)


def test_a_grown_state_is_saved(tmp_path):
    """Without a horizon the window of CascadeSWUCB outgrows its first room."""
    learner = CascadeSWUCB().start(["a", "b", "c"], 1)
    for n in range(1500):
        learner.update(["abc"[n % 3]], [n % 2])
    learner.save(tmp_path / "s.npz")
    other = dr.load(tmp_path / "s.npz")
    for n in range(1000):
        for each in (learner, other):
            each.update(["abc"[n % 3]], [n % 2])
    assert bits(other) == bits(learner)


def test_parameters_are_saved(tmp_path):
    policy = CascadeDUCB(discount=0.9, epsilon=0.75, ties="index", unseen="paper")
    policy.start([1, 2, 3], 2, seed=5, query="shoes", run=2, horizon=70).save(tmp_path / "x.npz")
    other = load(tmp_path / "x.npz")
    assert other.policy == policy
    assert other.items == [1, 2, 3]
    assert other.rank().key == policy.start([1, 2, 3], 2, seed=5, query="shoes", run=2).rank().key


def test_nothing_is_pickled(tmp_path, learner):
    learner.save(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz", allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
        assert file["floats"].dtype == np.float64
        assert file["ints"].dtype == np.int32
    assert header["policy"] == "CascadeUCB1"
    assert header["format"] == 2


def test_saving_is_atomic(tmp_path, learner, monkeypatch):
    path = tmp_path / "x.npz"
    learner.save(path)
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError("no space left on device")

    learner.update(["a", "b"], 1)
    for function in ("numpy.savez", "os.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(function, full)
            with pytest.raises(OSError, match="no space"):
                learner.save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.npz"]
    learner.save(path)
    assert load(path).steps == 4


def test_items_that_cannot_be_saved(tmp_path):
    learner = CascadeUCB1().start([("a", 1), ("b", 2)], 1)
    with pytest.raises(ValueError, match="cannot be saved; use strings or numbers"):
        learner.save(tmp_path / "x.npz")
    assert os.listdir(tmp_path) == []


def rewrite(path, **changes):
    """A copy of a saved learner with another header or other arrays."""
    with np.load(path) as file:
        parts = dict(file)
    header = json.loads(str(parts["header"]))
    header.update(changes.pop("header", {}))
    header = {key: value for key, value in header.items() if value != "gone"}
    np.savez(path, **{**parts, "header": np.array(json.dumps(header)), **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"header": {"format": 3}}, "written in format 3, this version reads 2"),
        ({"header": {"version": 99}}, "CascadeUCB1 version 99"),
        ({"header": {"policy": "CascadeUCB9"}}, "unknown policy 'CascadeUCB9'"),
        ({"header": {"policy": "CascadeUCB1:exploration=-1"}}, "exploration=-1"),
        ({"header": {"slots": ["a", "b"]}}, ""),
        ({"header": {"k": 9}}, "k=9"),
        ({"header": {"steps": "gone"}}, "steps"),
        ({"header": {"slots": 5}}, ""),
        ({"floats": np.zeros(3)}, "does not fit the policy"),
        ({"floats": np.zeros(16, np.float32)}, "does not fit the policy"),
        ({"ints": np.array(["x"])}, "does not fit the policy"),
    ],
    ids=str,
)
def test_files_of_another_kind(tmp_path, learner, changes, message):
    path = tmp_path / "x.npz"
    learner.save(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=f"x.npz: not a saved learner .*{message}"):
        load(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 no zip", b"\x93NUMPY", b"\x80\x04K\x01."], ids=str)
def test_garbage(tmp_path, content):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="not a saved learner") as raised:
        load(tmp_path / "x.npz")
    assert "pickle" not in str(raised.value)


def test_other_numpy_files(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(3))
    np.savez(tmp_path / "y.npz", a=np.zeros(3))
    np.savez(tmp_path / "z.npz", header=np.array([{}], object), floats=np.zeros(1), ints=np.zeros(1))
    for name in ("x.npy", "y.npz", "z.npz", "missing.npz"):
        with pytest.raises(ValueError, match=f"{name}: not a saved learner"):
            load(tmp_path / name)


def test_damaged_files(tmp_path, learner):
    """However much of the file is there, and whichever byte flips: an error that says so, or the same learner."""
    path = tmp_path / "x.npz"
    learner.save(path)
    whole = path.read_bytes()
    assert zipfile.is_zipfile(path)
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="not a saved learner"):
            load(path)
    for place in range(0, len(whole), 11):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            other = load(path)
        except ValueError as error:
            assert "not a saved learner" in str(error)  # noqa: PT017
        else:
            assert (bits(other), other.items) == (bits(learner), learner.items)


# -- bytes and copies --------------------------------------------------------------------------------------------------


def same_future(first, second, steps=60):
    """Two learners do the same from here, to the bit."""
    for n in range(steps):
        ranking = first.rank()
        assert second.rank() == ranking
        for learner in (first, second):
            learner.update(ranking, n % (len(ranking) + 1) + 1, now=float(n))
    assert bits(first) == bits(second)
    assert (first.items, first.steps, first.k) == (second.items, second.steps, second.k)


@pytest.mark.parametrize("name", [name for name, cls in policies().items() if not cls.oracle])
def test_copies_and_bytes_continue(name):
    learner = policies()[name]().start(["a", "b", "c", 4, 5.5], 2, seed=3, query="shoes", run=2, slots=7, horizon=900)
    for n in range(80):
        learner.update(learner.rank(), n % 3 + 1)
    learner.remove_items(["b"])
    learner.add_items(["d"])
    for other in (learner.copy(), Learner.from_bytes(learner.to_bytes())):
        assert other.policy == learner.policy
        same_future(learner.copy(), other)


def test_a_copy_is_independent(learner):
    before = bits(learner), learner.items, learner.rank(), learner.steps, learner._slots.token.tobytes()
    other = learner.copy()
    other.update(["a", "b"], 1)
    other.remove_items(["a"])
    other.add_items(["x", "y"])
    other.update(other.rank(), 2)
    assert (bits(learner), learner.items, learner.rank(), learner.steps, learner._slots.token.tobytes()) == before
    third = learner.copy()
    learner.remove_items(["b"])
    learner.add_items(["z"])
    assert third.items == before[1]
    assert third.rank() == before[2]


def test_bytes_are_few():
    learner = CascadeSWUCB().start([f"item {n}" for n in range(20)], 5)
    for _ in range(300):
        learner.update(learner.rank(), 1)
    assert len(learner.to_bytes()) < 5000 < learner.nbytes


def test_a_grown_state_as_bytes():
    learner = CascadeSWUCB().start(["a", "b", "c"], 1)
    for n in range(1500):
        learner.update(["abc"[n % 3]], [n % 2])
    same_future(learner, Learner.from_bytes(learner.to_bytes()), 1000)


def test_bytes_of_described_items():
    policy = dr.CascadeLinUCB(c=1)
    described = policy.start(["a", "b"], 1, features=[[1, 0, 1], [0, 1, 1]])
    same_future(described, Learner.from_bytes(described.to_bytes()))
    bare = policy.start(["a", "b"], 1)
    same_future(bare, Learner.from_bytes(bare.to_bytes()))


def test_bytes_of_another_kind(learner):
    whole = learner.to_bytes()
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="not the bytes of a learner"):
            Learner.from_bytes(whole[:length])
    for place in range(len(whole)):
        damaged = whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
        try:
            other = Learner.from_bytes(damaged)
        except ValueError as error:
            assert "not the bytes of a learner" in str(error)  # noqa: PT017
        else:
            assert (bits(other), other.items) == (bits(learner), learner.items)
    for garbage in (b"", b"drl\x01", b"hello", b"drl\x01" + zlib.compress(b"\x00" * 30), None, 5):
        with pytest.raises(ValueError, match="not the bytes of a learner"):
            Learner.from_bytes(garbage)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 3}, {"version": 9}, {"policy": "Nobody"}, {"policy": 5}, {"policy": "DynamicOracle"}, {"k": 9},
        {"k": None}, {"slots": ["a", "a", "c", "d"]}, {"slots": ["a", "b"]}, {"slots": 5}, {"live": [0, 1, 2, 2]},
        {"live": [0, 1, 2]}, {"free": [0]}, {"steps": -1}, {"steps": "x"}, {"where": {}}, {"where": {"seed": -1}},
        {"room": "x"}, {"horizon": -1}, {"slots": [[], [], [], []]},
    ],
    ids=str,
)  # fmt: skip
def test_headers_that_do_not_fit(learner, changes):
    parts = learner._saved()
    packed = pack(parts._replace(header=parts.header | changes))
    with pytest.raises(ValueError, match="not the bytes of a learner"):
        Learner.from_bytes(packed)
    with pytest.raises(ValueError, match="not the bytes of a learner"):
        Learner.from_bytes(pack(parts._replace(header=list(parts.header))))


def test_items_that_cannot_be_bytes():
    with pytest.raises(ValueError, match="cannot be saved; use strings or numbers"):
        CascadeUCB1().start([("a", 1), ("b", 2)], 1).to_bytes()


def test_size_grows_with_items_and_state():
    small, large = (CascadeUCB1().start(range(n), 2) for n in (5, 1000))
    assert 500 < small.nbytes < 5_000
    assert 50_000 < large.nbytes < 500_000


def test_key_of_any_draw():
    learner = Random().start(range(20), 5, seed=1, query="x", run=3)
    first = learner.rank()
    assert learner.key_at(1) == first.key
    assert learner.key_at(7) == policy_key(run_key(1, "x", 3), 7)
    for n in (0, 2**63, 2**64 - 1):
        assert 0 <= learner.key_at(n) < 2**64
        assert len(learner.rank(key=learner.key_at(n))) == 5
    for n in (-1, 2**64, 1.5, "1"):
        with pytest.raises(ValueError, match=f"n={n!r}"):
            learner.key_at(n)


# -- what is remembered to be fast -------------------------------------------------------------------------------------


def test_a_list_made_before_items_moved():
    """Its items are looked up again."""
    learner = CascadeUCB1().start(["a", "b", "c"], 2, slots=3)
    ranking = learner.rank(["a", "c"])
    learner.remove_items(["b", "a"])
    learner.add_items(["x", "a"])  # in each other's places
    learner.update(ranking, item="a")
    counts = dict(zip(learner._slots.names, state(learner)["X"].tolist(), strict=True))
    assert counts == {"a": 1.0, "c": 0.0, "x": 0.0}


def test_cached_candidates_are_copied():
    learner = CascadeUCB1().start(["a", "b", "c"], 3)
    wanted = ["a", "b"]
    assert set(learner.rank(wanted)) == {"a", "b"}
    wanted.append("c")
    assert set(learner.rank(wanted)) == {"a", "b", "c"}
    assert set(learner.rank(tuple(wanted))) == {"a", "b", "c"}
    assert set(learner.rank(np.array(["c", "a"]))) == {"a", "c"}
    assert set(learner.rank(item for item in "ab")) == {"a", "b"}
    for odd in ([np.zeros(2), np.zeros(2)], [["a"], ["b"]], [{}]):
        with pytest.raises(ValueError, match="hashable"):
            learner.rank(odd)


@pytest.mark.parametrize("name", ["BatchRank", "BubbleRank", "RankedEXP3", "CascadeMASTER", "CascadeSoftmax"])
def test_lists_that_were_stored_elsewhere(name):
    """Bytes read from somewhere cannot be written to, and may lie anywhere; the policy learns the same from them."""
    policy = policies()[name]()
    first, second = (policy.start(["a", "b", "c", "d"], 2, seed=1, horizon=200) for _ in range(2))
    for n in range(100):
        ranking = first.rank()
        stored = b"." + ranking.memo.tobytes()
        memo = np.frombuffer(stored, np.float64, offset=1)
        again = RankedItems(list(ranking), np.zeros(len(ranking)), memo, ranking.key)
        first.update(ranking, n % 3 + 1)
        second.update(again, np.array([n % 3 == 0, n % 3 == 1], np.int8))
        assert bits(first) == bits(second)


def test_many_items_at_once_are_as_many_one_by_one():
    first, second = (dr.CascadeTS().start(["a", "b"], 2, seed=1, slots=40) for _ in range(2))
    names = [f"item {n}" for n in range(30)]
    first.add_items(names)
    for name in names:
        second.add_items([name])
    assert first._slots.token.tobytes() == second._slots.token.tobytes()
    same_future(first, second, 20)


def test_equal_policies_share_compiled_code():
    first, second = (CascadeSWUCB(window=50).start(range(4), 2) for _ in range(2))
    assert first.compiled is second.compiled
    first.update([0, 1], 1)
    assert second.rank(k=2).scores.tolist() == [np.inf, np.inf]
    assert CascadeSWUCB(window=51).start(range(4), 2).compiled is not first.compiled
