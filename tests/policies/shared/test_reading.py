"""Users who stop: where a list was left, and how often users go on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from driftrank.kernels.structures import Event, Ranking
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.shared.reading import observed_until_left
from tests.reference.shared_model import leaving, left_at

MEANS = [0.3, 0.2, 0.1]


class _Parameters:
    stops, feedback = True, 1


class _UntilFirst:
    stops, feedback = True, 0


def a_list(going_on=0.9, after_click=0.4, means=MEANS):
    memo = np.array([[1.0, 1.0, 0.0, 0.0, mean, going_on, after_click] for mean in means]).ravel()
    n = len(means)
    return Ranking(np.zeros(n, np.uint32), memo[:0], memo, memo[:0])


def read(r, clicks, key, p=_Parameters):
    return observed_until_left(p, Event(1, 1.0, np.uint64(key)), r, np.array(clicks, np.int8))


def test_where_a_list_was_left():
    """BASELINE-PRIOR.md section 9: no click on means .3, .2, .1 with gamma .9."""
    expected = [0.132415, 0.095339, 0.772246]
    assert list(leaving(MEANS, 0.9, 0.4, [0, 0, 0]).values()) == pytest.approx(expected, abs=5e-7)
    n = 4000
    found = Counter(read(a_list(), [0, 0, 0], key) for key in range(n))
    assert [found[j] / n for j in (1, 2, 3)] == pytest.approx(expected, abs=0.025)
    assert all(read(a_list(), [0, 0, 0], key) == left_at(MEANS, 0.9, 0.4, [0, 0, 0], key) for key in range(200))


def test_where_a_list_was_left_after_a_click():
    """A click at the top of .3, .2, .1, going on .9 after a skip and .4 after a click: left there with weight .6, after
    the second item with .4 x .8 x .1, at the end with .4 x .8 x .9 x .9. Clicks at 1 and 3: read to the end.
    """
    weights = np.array([0.6, 0.032, 0.2592])
    expected = weights / weights.sum()
    assert list(leaving(MEANS, 0.9, 0.4, [1, 0, 0]).values()) == pytest.approx(expected)
    n = 4000
    found = Counter(read(a_list(), [1, 0, 0], key) for key in range(n))
    assert [found[j] / n for j in (1, 2, 3)] == pytest.approx(expected, abs=0.025)
    for clicks in ([1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 0, 1]):
        assert all(read(a_list(), clicks, key) == left_at(MEANS, 0.9, 0.4, clicks, key) for key in range(100))
    assert read(a_list(), [1, 0, 1], 1) == 3


def test_until_the_first_click():
    assert read(a_list(), [0, 1, 0], 1, _UntilFirst) == 2
    assert read(a_list(), [1, 0, 1], 1, _UntilFirst) == 1


def test_lists_that_are_read_to_their_end():
    lost = a_list()
    lost.memo[:] = -1

    class _Never:
        stops, feedback = False, 0

    for key in range(50):
        assert read(a_list(1.0), [0, 0, 0], key) == 3
        assert read(lost, [0, 0, 0], key) == 3
        assert read(a_list(), [0, 0, 0], key, _Never) == 3


def test_going_on_is_learnt():
    """BASELINE-PRIOR.md section 9: no click on means .3, .2, .1 with gamma .9 adds 1.639831 and .227754 to 18 and 2."""
    model = SharedModel(PriorRegimeTS(hash_bits=4))
    ranking = RankedItems("abc", np.zeros(3), a_list().memo, 7, None, describe("q", "abc"))
    assert model.prior(describe("q", ["a"])).going_on == 0.9
    model.learn(ranking, None)
    assert model.views()["reading"] == pytest.approx([19.639831, 2.227754, 0.5, 9.5], abs=5e-7)
    assert model.prior(describe("q", ["a"])).going_on == pytest.approx(0.898125, abs=5e-7)
    model.learn(ranking, 3)  # a click at 3: went on twice
    assert model.views()["reading"] == pytest.approx([21.639831, 2.227754, 0.5, 9.5], abs=5e-7)


def test_going_on_after_a_click_is_learnt():
    """Clicks at 1 and 2 of .3, .2, .1: went on after the first. After the second the user left with weight .6 and went
    on with .4 x .9 = .36, so went on with probability .375 and stopped with .625; nothing is said about skips.
    """
    model = SharedModel(PriorRegimeTS(hash_bits=4))
    ranking = RankedItems("abc", np.zeros(3), a_list().memo, 7, None, describe("q", "abc"))
    assert model.prior(describe("q", ["a"])).after_click == pytest.approx(0.05)
    model.learn(ranking, [1, 1, 0])
    assert model.views()["reading"] == pytest.approx([18.0, 2.0, 1.875, 10.125])
    assert model.prior(describe("q", ["a"])).after_click == pytest.approx(1.875 / 12)
    first = SharedModel(PriorRegimeTS(hash_bits=4, feedback="first"))
    first.learn(ranking, [0, 1, 1])
    assert first.views()["reading"] == pytest.approx([19.0, 2.0, 0.5, 9.5])


def test_counts_are_bounded():
    model = SharedModel(PriorRegimeTS(hash_bits=4))
    model.views()["reading"][:2] = 19_999, 1
    ranking = RankedItems("abc", np.zeros(3), a_list().memo, 7, None, describe("q", "abc"))
    model.learn(ranking, 3)
    assert model.views()["reading"][:2].sum() == pytest.approx(20_000)
