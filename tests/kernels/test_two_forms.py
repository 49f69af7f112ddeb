"""Kernels with another form for GPUs: both do the same, to the last bit."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import driftrank
from driftrank.clickmodels import CM
from driftrank.kernels.compile import Kernel, kernel
from driftrank.kernels.structures import Candidates, Event, Ranking
from driftrank.kernels.top_k import ORDER, TIES, insert
from driftrank.policies.index_policy import rank_by_index

few = st.sampled_from([-np.inf, 0.0, 0.25, 0.5, 1.0, np.inf])
scores = few | st.floats(allow_nan=False)
keys = st.integers(0, 2**64 - 1)
ties = st.sampled_from(range(len(TIES)))


def form(function: Kernel, gpu: bool) -> Any:
    """One of the forms, to be called from Python."""
    return kernel(function.on_gpu if gpu else function.py_func)


@given(st.data(), st.integers(0, 3), st.integers(1, 6), st.integers(0, 2), ties, keys)
def test_insert(data: Any, first: int, places: int, rest: int, ties: int, key: int) -> None:
    """Into empty, partly filled and full lists, wherever they begin; the rest of the memory is left alone."""
    offers = data.draw(st.lists(scores, max_size=9))
    token = np.array(data.draw(st.permutations(range(len(offers)))), np.int64)
    made = []
    for gpu in (False, True):
        items = np.arange(900, 900 + first + places + rest, dtype=np.uint32)
        r = Ranking(items, np.linspace(0.0, 1.0, len(items)), np.zeros(0), np.zeros(0))
        e, c = (
            Event(1, 1.0, np.uint64(key)),
            Candidates(np.arange(len(offers), dtype=np.uint32), token, np.zeros(0), 0.0, 0.0),
        )
        filled = first
        states = []
        for a, u in enumerate(offers):
            filled = form(insert, gpu)(r, first, filled, first + places, u, np.uint32(a), e, c, ties)
            states.append((int(filled), r.items.tolist(), r.score.tobytes()))
        made.append(states)
    assert made[0] == made[1]


class Parameters(NamedTuple):
    ties: int
    order: int


class State(NamedTuple):
    value: Any


def level(p, s, e):
    return 2.0


def index(p, s, e, c, a, q):
    return s.value[a] * q


@given(st.data(), ties, st.sampled_from(range(len(ORDER))), keys)
def test_the_largest_indices(data: Any, ties: int, order: int, key: int) -> None:
    """Whatever list was shown before, of all items or of those that are there."""
    values = data.draw(st.lists(scores, min_size=1, max_size=9))
    there = data.draw(st.permutations(range(len(values))))[: data.draw(st.integers(1, len(values)))]
    k = data.draw(st.integers(1, len(there)))
    before = data.draw(st.permutations(there))[:k]
    rank = rank_by_index(kernel(level), kernel(index))
    made = []
    for gpu in (False, True):
        r = Ranking(np.array(before, np.uint32), np.linspace(0.0, 1.0, k), np.zeros(0), np.zeros(0))
        c = Candidates(np.array(sorted(there), np.uint32), np.arange(len(values)), np.zeros(0), 0.0, 0.0)
        e = Event(1, 1.0, np.uint64(key))
        form(rank, gpu)(Parameters(ties, order), State(np.array(values)), e, c, r)
        made.append((r.items.tolist(), r.score.tobytes()))
    assert made[0] == made[1]


@given(st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), min_size=1, max_size=6), keys)
@example([0.0, 1.0, 1.0], 5)
def test_clicks(alpha: list[float], key: int) -> None:
    made = []
    for gpu in (False, True):
        clicks = np.full(len(alpha), 7, np.int8)
        items = np.arange(len(alpha), dtype=np.uint32)[::-1].copy()
        count = form(CM.click, gpu)(np.zeros(1), np.array(alpha), np.uint64(key), items, clicks)
        made.append((int(count), clicks.tolist()))
    assert made[0] == made[1]
    assert sum(made[0][1]) == made[0][0] <= 1


def test_these_are_all() -> None:
    """A kernel that gets another form gets a test here."""
    found = {k.py_func.__name__ for k in kernels() if k.on_gpu is not k.py_func}
    assert found == {"_insert_by_search", "rank_by_guess", "_click"}


def kernels() -> Iterator[Kernel]:
    """Of all modules and classes."""
    for module in pkgutil.walk_packages(driftrank.__path__, "driftrank."):
        if module.name.startswith(("driftrank.policies", "driftrank.clickmodels", "driftrank.kernels")):
            if module.name.endswith(("__main__", ".gpu")):
                continue
            holders = [vars(importlib.import_module(module.name))]
            holders += [vars(value) for value in holders[0].values() if isinstance(value, type)]
            for holder in holders:
                for value in holder.values():
                    inner = getattr(value, "__func__", value)
                    if isinstance(inner, Kernel):
                        yield inner
