from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.environments import Abrupt, Environment, Stationary
from driftrank.environments.base import NEVER, Chunk, QueryEnvironment
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive, run_key, uniform


class _EveryStep(QueryEnvironment):
    """Item a is worth base[a] plus something that differs at every step."""

    speed: float = 0.001

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        for a in range(base.shape[0]):
            wave = (t * p.speed + a * 0.37) % 1.0
            alpha[a] = base[a] * wave
        return t + 1


class _RandomTimes(QueryEnvironment):
    """Stretches of 1 to 2 * ``mean`` steps, of lengths that are drawn in every run; the attraction is drawn as well.

    Time is cut into blocks of 2 * mean steps, and each block in two at a random place.
    """

    mean: int = 5

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        size = 2 * p.mean
        block = (t - 1) // size
        cut = block * size + 2 + below(derive(key, 2 * block), size - 1)  # the step at which the second part begins
        part = 2 * block + (1 if t >= cut else 0)
        for a in range(base.shape[0]):
            alpha[a] = base[a] * uniform(derive(derive(key, 2 * part + 1), a))
        return (block + 1) * size + 1 if t >= cut else cut


BASE = [[0.9, 0.5, 0.7, 0.2, 0.4]]


@pytest.fixture(scope="module")
def every_step():
    return _EveryStep(BASE, k=2)


@pytest.fixture(scope="module")
def random_times():
    return _RandomTimes(BASE, k=2)


def test_more_segments_than_fit(every_step):
    n = 3 * 4096 + 17
    starts, alphas, optimal = every_step.stretches(n)
    assert starts.tolist() == list(range(1, n + 1))
    assert alphas.shape == (n, 5)
    t = starts[:, None]
    np.testing.assert_allclose(alphas, np.array(BASE[0]) * ((t * 0.001 + np.arange(5) * 0.37) % 1.0), atol=1e-12)
    for t in (1, 4095, 4096, 4097, 8192, 8193, n):
        assert alphas[t - 1].tolist() == every_step.attraction(t).tolist()
        assert optimal[t - 1] == every_step.optimal_value(t)


def test_value_and_list_of_the_best(every_step):
    for t in (1, 100, 777):
        alpha = every_step.attraction(t)
        best = sorted(range(5), key=lambda a: (-alpha[a], a))[:2]
        assert every_step.best(t) == best
        assert every_step.optimal_value(t) == pytest.approx(1 - np.prod(1 - alpha[best]))


def test_segments_agree_with_attraction(random_times):
    n = 500
    for run in range(3):
        starts, alphas, _ = random_times.stretches(n, run=run)
        lengths = np.diff(np.append(starts, n + 1))
        unrolled = np.repeat(alphas, lengths, axis=0)
        direct = np.array([random_times.attraction(t, run=run) for t in range(1, n + 1)])
        np.testing.assert_array_equal(unrolled, direct)
        assert random_times.breakpoints(n, run=run) == (starts[1:] - 1).tolist()
    assert random_times.stretches(n, run=0)[0].tolist() != random_times.stretches(n, run=1)[0].tolist()


def unrolled(environment, runs, horizon, stride, capacity, monkeypatch):
    """Attraction and optimal value at every step of several runs at once, as a simulation requests them; and the
    first step of every segment."""
    monkeypatch.setattr(Chunk, "NUMBERS", capacity)
    name = environment.names[0]
    keys = np.array([run_key(0, name, run) for run in range(runs)], np.uint64)
    chunk = environment.program.chunk(name, keys)
    alpha = np.full((runs, horizon, 5), np.nan)
    optimal = np.full((runs, horizon), np.nan)
    begins: list[list[int]] = [[] for _ in range(runs)]
    t, calls = 1, 0
    while t <= horizon:
        last = chunk.advance(t, min(horizon, t + stride - 1))
        assert t <= last <= horizon
        for r in range(runs):
            n = chunk.count[r]
            starts = chunk.starts[r, :n]
            assert (np.diff(starts) > 0).all()
            assert starts[-1] <= last
            for i in range(n):
                begin = max(t, starts[i])
                end = starts[i + 1] if i + 1 < n else last + 1
                assert np.isnan(optimal[r, begin - 1 : end - 1]).all()  # nothing twice
                alpha[r, begin - 1 : end - 1] = chunk.alphas[r].reshape(-1, 5)[i]
                optimal[r, begin - 1 : end - 1] = chunk.optimal[r, i]
                if starts[i] == begin:
                    begins[r].append(int(begin))
        t = last + 1
        calls += 1
    return alpha, optimal, begins, calls


@pytest.mark.parametrize("runs", [1, 4])
def test_chunks_do_not_show(random_times, runs, monkeypatch):
    """For any capacity, and any number of steps requested at a time."""
    n = 400
    expected = unrolled(random_times, runs, n, n, 1 << 21, monkeypatch)
    assert expected[3] == 1
    assert not np.isnan(expected[0]).any()
    for r in range(runs):
        assert expected[2][r] == random_times.stretches(n, run=r)[0].tolist()
    for capacity, stride in [(1, n), (5 * runs * 3, n), (5 * runs * 7, 23), (1 << 21, 1), (1, 1)]:
        alpha, optimal, begins, calls = unrolled(random_times, runs, n, stride, capacity, monkeypatch)
        np.testing.assert_array_equal(alpha, expected[0])
        np.testing.assert_array_equal(optimal, expected[1])
        assert begins == expected[2]  # a stretch begins once, however often it is cut
        assert calls > 1


@settings(max_examples=30)
@given(st.integers(1, 200), st.integers(1, 60), st.integers(1, 4))
def test_chunks_of_any_size(horizon, capacity, runs):
    with pytest.MonkeyPatch.context() as monkeypatch:
        environment = _RandomTimes(BASE, k=2, mean=3)
        expected = unrolled(environment, runs, horizon, horizon, 1 << 21, monkeypatch)
        alpha, _, begins, _ = unrolled(environment, runs, horizon, 17, capacity, monkeypatch)
        np.testing.assert_array_equal(alpha, expected[0])
        assert begins == expected[2]


def test_memory_is_bounded():
    environment = Stationary([[0.5] * 50], k=2)
    chunk = environment.program.chunk("0", np.arange(1, 1001).astype(np.uint64))
    assert chunk.alphas.size <= Chunk.NUMBERS
    assert chunk.alphas.shape[0] == 1000


def test_nothing_changes(every_step):
    environment = Stationary(BASE, k=2)
    starts, alphas, optimal = environment.stretches(10**9)
    assert starts.tolist() == [1]
    assert alphas.tolist() == BASE
    assert optimal == pytest.approx([1 - 0.1 * 0.3])
    assert environment.breakpoints(10**9) == []
    assert environment.attraction(10**9).tolist() == BASE[0]
    assert environment.best(5) == [0, 2]
    assert NEVER > 10**18


def test_results_are_copies(every_step):
    alpha = every_step.attraction(5)
    alpha[:] = 0
    assert every_step.attraction(5).any()


def test_a_change_that_changes_nothing_is_no_breakpoint():
    # the boosted item has that attraction anyway
    environment = Abrupt([[0.9, 0.5, 0.5]], k=1, period=10, boost=0.5, n_boosted=1)
    assert environment.stretches(40)[0].tolist() == [1, 11, 21, 31]
    assert environment.breakpoints(40) == []


def test_breakpoints_end_before_the_horizon():
    environment = Abrupt([[0.5, 0.4, 0.3]], k=1, period=10, n_boosted=1)
    assert environment.breakpoints(10) == []
    assert environment.breakpoints(11) == [10]
    assert environment.breakpoints(1) == []


def test_queries_by_name_and_by_place():
    environment = Stationary({"a": [0.1, 0.2], "b": [0.3, 0.4]}, k=1)
    assert environment.names == ["a", "b"]
    assert environment.attraction(1, "b").tolist() == environment.attraction(1, 1).tolist() == [0.3, 0.4]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.attraction(0), "t=0: must be an integer of at least 1"),
        (lambda e: e.attraction(1.5), "t=1.5"),
        (lambda e: e.best(-1), "t=-1"),
        (lambda e: e.optimal_value(0), "t=0"),
        (lambda e: e.breakpoints(0), "horizon=0"),
        (lambda e: e.stretches(0), "horizon=0"),
        (lambda e: e.attraction(1, "queery"), "query='queery': not among .*did you mean query?"),
        (lambda e: e.attraction(1, 1), "query=1: must be an integer from 0 to 0"),
        (lambda e: e.attraction(1, -1), "query=-1"),
        (lambda e: e.attraction(1, run=-1), "run=-1"),
        (lambda e: e.attraction(1, seed=-1), "seed=-1"),
    ],
)
def test_bad_questions(call, message):
    environment = Stationary({"query": [0.1, 0.2]}, k=1)
    with pytest.raises(ValueError, match=message):
        call(environment)


@pytest.mark.parametrize(
    ("queries", "k", "message"),
    [
        ([[0.1, 0.2]], 3, "k=3: must be an integer from 1 to the number of items, 2 in query '0'"),
        ({"a": [0.1] * 5, "b": [0.1] * 2}, 3, "2 in query 'b'"),
        ([[0.1, 0.2]], 0, "k=0"),
        ([[0.1, 0.2]], True, "k=True"),
        ([[0.1, 1.2]], 1, r"query '0': attraction\[1\]=1.2"),
        ([], 1, "at least one query"),
    ],
)
def test_bad_queries(queries, k, message):
    with pytest.raises(ValueError, match=message):
        Stationary(queries, k=k)


@kernel
def _stays(p, base, key, t, alpha):
    for a in range(base.shape[0]):
        alpha[a] = base[a]
    return t if t > 20 else t + 10


@kernel
def _triples(p, base, key, t, alpha):
    for a in range(base.shape[0]):
        alpha[a] = base[a] * 3
    return t + 10


@pytest.mark.parametrize(
    ("world", "error", "message"),
    [
        (None, TypeError, "_Mistake lacks the kernel world"),
        (_stays.py_func, TypeError, r"_Mistake\.world: must be marked @kernel"),
        (_stays, ValueError, r"_Mistake\.world: step 21 returns 21, must return a later step"),
        (_triples, ValueError, r"_Mistake\.world: attraction from 0\.6 to 1.5, must be probabilities"),
    ],
)
def test_mistakes_in_a_kernel_are_named(world, error, message):
    """Without a check of the contract, too: a world that does not go on would be asked forever."""

    class _Mistake(QueryEnvironment):
        kind = "abrupt"

    if world is not None:
        _Mistake.world = staticmethod(world)
    with pytest.raises(error, match=message):
        _Mistake([[0.5, 0.2]], k=1).breakpoints(100)


def test_environments_are_values():
    one, same, other = (Abrupt(BASE, k=2, period=p) for p in (10, 10, 20))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != Abrupt([[0.9, 0.5, 0.7, 0.2, 0.3]], k=2, period=10)
    with pytest.raises(AttributeError):
        one.period = 3


def test_environments_travel_without_their_compiled_code():
    environment = Abrupt(BASE, k=2, period=10)
    expected = environment.attraction(11)
    for other in (pickle.loads(pickle.dumps(environment)), copy.deepcopy(environment)):
        assert "program" not in vars(other)
        assert other == environment
        assert other.attraction(11).tolist() == expected.tolist()


def test_the_kernel_sees_numbers_only(every_step):
    assert every_step.parameters() == {"k": 2, "speed": 0.001}
    assert Environment.kind == "stationary"
