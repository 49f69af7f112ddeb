from __future__ import annotations

import random
import time
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrank.serve.state.waiting import WaitingImpressions

STEPS = st.sampled_from(["add", "add", "add", "remove", "remove", "due", "copy", "save"])


@pytest.mark.parametrize("together", [1, 4, 50_000])
@given(st.lists(st.tuples(STEPS, st.integers(0, 60)), max_size=80))
def test_equals_a_dictionary(together, steps):
    with patch("driftrank.serve.state.waiting._TOGETHER", together):
        check_equals_a_dictionary(steps)


def check_equals_a_dictionary(steps):
    waiting, model, seq, now, copies = WaitingImpressions(), {}, 0, 0.0, []
    for what, n in steps:
        if what == "add":
            seq, now = seq + 1 + n % 3, now + n % 5
            waiting.add(seq, now)
            model[seq] = now
        elif what == "remove":
            assert waiting.remove(n) == (model.pop(n, None) is not None)
        elif what == "due":
            limit = 1 + n % 7
            assert waiting.due(float(n), limit) == [s for s, t in model.items() if t <= n][:limit]
        elif what == "copy":
            copies.append((waiting.copy(), sorted(model)))
        else:
            waiting = WaitingImpressions.from_bytes(waiting.to_bytes())
        assert len(waiting) == len(model)
        assert waiting.first == min(model, default=None)
        assert [s for s in range(seq + 2) if s in waiting] == sorted(model)
    for copy, then in copies:
        assert (copy.due(float("inf")), copy.first) == (then, min(then, default=None))
        assert WaitingImpressions.from_bytes(copy.to_bytes()).due(float("inf")) == then


def test_numbers_must_ascend():
    waiting = WaitingImpressions()
    waiting.add(5, 0.0)
    with pytest.raises(AssertionError):
        waiting.add(5, 1.0)


def test_a_million_impressions_are_small_and_fast():
    n = 1_000_000
    began = time.process_time()
    waiting = WaitingImpressions()
    for seq in range(n):
        waiting.add(seq, seq / 2500)
    assert waiting.nbytes <= 17 * n
    body = waiting.to_bytes()
    assert len(body) < 8 * n
    waiting = WaitingImpressions.from_bytes(body)
    order = random.Random(0).sample(range(n), n // 10)
    for seq in order:
        assert waiting.remove(seq)
    assert len(waiting) == n - len(order)
    assert waiting.due(-1.0) == []
    while due := waiting.due(n * 0.6 / 2500):
        for seq in due:
            waiting.remove(seq)
    assert 350_000 < len(waiting) < 370_000
    assert waiting.nbytes < 17 * n / 2, "memory is given back"
    assert time.process_time() - began < 20, "it takes 3 s"


def test_one_long_window_does_not_slow_down_the_others():
    """One impression that waits on while a hundred thousand came and went."""
    waiting = WaitingImpressions()
    waiting.add(0, 0.0)
    for seq in range(1, 100_000):
        waiting.add(seq, 0.0)
        waiting.remove(seq)
    began = time.process_time()
    for _ in range(100):
        assert waiting.due(-1.0) == []
        assert 99_999 not in waiting
    assert time.process_time() - began < 0.5
