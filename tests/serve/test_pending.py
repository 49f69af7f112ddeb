from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.serve.pending import Pending


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "due", "save"]), st.integers(0, 60)), max_size=80))
def test_as_a_dictionary(steps):
    pending, model, seq, now = Pending(), {}, 0, 0.0
    for what, n in steps:
        if what == "add":
            seq, now = seq + 1 + n % 3, now + n % 5
            pending.add(seq, now)
            model[seq] = now
        elif what == "remove":
            assert pending.remove(n) == (model.pop(n, None) is not None)
        elif what == "due":
            limit = 1 + n % 7
            assert pending.due(float(n), limit) == [s for s, t in model.items() if t <= n][:limit]
        else:
            pending = Pending.from_bytes(pending.to_bytes())
        assert len(pending) == len(model)
        assert pending.first == min(model, default=None)
        assert [s for s in range(seq + 2) if s in pending] == sorted(model)


def test_numbers_must_ascend():
    pending = Pending()
    pending.add(5, 0.0)
    with pytest.raises(AssertionError):
        pending.add(5, 1.0)


def test_a_million_lists_are_small_and_fast():
    n = 1_000_000
    began = time.perf_counter()
    pending = Pending()
    for seq in range(n):
        pending.add(seq, seq / 2500)
    assert pending.nbytes <= 17 * n
    body = pending.to_bytes()
    assert len(body) < 8 * n
    pending = Pending.from_bytes(body)
    order = random.Random(0).sample(range(n), n // 10)
    for seq in order:
        assert pending.remove(seq)
    assert len(pending) == n - len(order)
    assert pending.due(-1.0) == []
    while due := pending.due(n * 0.6 / 2500):
        for seq in due:
            pending.remove(seq)
    assert 350_000 < len(pending) < 370_000
    assert pending.nbytes < 17 * n / 2, "what is done is given back"
    assert time.perf_counter() - began < 20, "it takes 3 s"


def test_one_that_waits_long_does_not_make_the_others_slow():
    """A list that was activated early and waits on, while a hundred thousand came and went."""
    pending = Pending()
    pending.add(0, 0.0)
    for seq in range(1, 100_000):
        pending.add(seq, 0.0)
        pending.remove(seq)
    began = time.perf_counter()
    for _ in range(100):
        assert pending.due(-1.0) == []
        assert 99_999 not in pending
    assert time.perf_counter() - began < 0.5
