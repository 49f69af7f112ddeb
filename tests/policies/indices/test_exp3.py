from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from scipy import stats

from driftrank.kernels import pure
from driftrank.kernels.compile import specialise
from driftrank.kernels.elementary import log
from driftrank.kernels.structures import Candidates
from driftrank.policies.indices import exp3
from driftrank.policies.indices.exp3 import (
    anytime_rate,
    auer_rate,
    exp3_draw,
    exp3_enter,
    exp3_learn,
    exp3_start,
    loss_rate,
)

LOSS, AUER = 0, 1
Numbers = namedtuple("Numbers", "L K form rate anytime log_L")
State = namedtuple("State", "gain weight top order")


def _start(p, s, c):
    exp3_start(p, s, c)


def _draw(p, s, c, i, keys, q, arms, probabilities):
    for n in range(keys.shape[0]):
        arms[n], probabilities[n] = exp3_draw(p, s, c, i, keys[n], q)


def _learn(p, s, i, b, reward, probability, q, times):
    for _ in range(times):
        exp3_learn(p, s, i, b, reward, probability, q)


def _enter(p, s, a, q):
    exp3_enter(p, s, a, q)


class Bandit:
    """The kernels on a state of their own: one row of arms."""

    def __init__(self, L, form=LOSS, rate=0.1, rows=1, row=0, token=None):
        self.p = Numbers(L, rows, form, float(rate), 0, float(pure(log)(L)))
        self.s = State(np.zeros(rows * L), np.zeros(rows * L), np.zeros(rows), np.full(L, -1, np.int32))
        self.row, self.rate = row, float(rate)
        self.token = np.arange(L) if token is None else np.array(token)
        specialise(_start, {})(self.p, self.s, self.candidates(range(L)))

    def candidates(self, items):
        return Candidates(np.array(items, np.uint32), self.token, np.zeros(0), 0.0, 0.0)

    def draw(self, times, candidates=None):
        c = self.candidates(range(self.p.L) if candidates is None else candidates)
        keys = np.random.default_rng(0).integers(0, 2**64, times, np.uint64)
        arms, probabilities = np.zeros(times, np.int64), np.zeros(times)
        specialise(_draw, {})(self.p, self.s, c, self.row, keys, self.rate, arms, probabilities)
        return arms, probabilities

    def learn(self, b, reward, probability, times=1):
        specialise(_learn, {})(self.p, self.s, self.row, b, float(reward), float(probability), self.rate, times)

    def enter(self, a):
        specialise(_enter, {})(self.p, self.s, a, self.rate)

    def probability(self, arm, candidates=None):
        arms, probabilities = self.draw(2000, candidates)
        return probabilities[arms == arm][0]


def test_rates():
    assert pure(loss_rate)(np.log(2), 2, 100) == pytest.approx(0.0832555, abs=5e-8)
    assert pure(auer_rate)(np.log(2), 2, 100) == pytest.approx(0.0898215, abs=5e-8)
    assert pure(auer_rate)(np.log(10), 10, 3) == 1.0
    assert pure(anytime_rate)(np.log(10), 10, 7.0) == pytest.approx(np.sqrt(np.log(10) / 70))


def test_loss_form_by_hand():
    bandit = Bandit(2, LOSS, pure(loss_rate)(np.log(2), 2, 100))
    assert bandit.probability(0) == 0.5
    bandit.learn(0, reward=0, probability=0.5)
    assert bandit.s.gain.tolist() == [-2.0, 0.0]
    assert bandit.probability(0) == pytest.approx(0.458468, abs=5e-7)
    bandit.learn(0, reward=1, probability=0.458)  # no loss, nothing to learn
    assert bandit.s.gain.tolist() == [-2.0, 0.0]


def test_auers_form_by_hand():
    bandit = Bandit(2, AUER, pure(auer_rate)(np.log(2), 2, 100))
    assert bandit.probability(0) == 0.5
    bandit.learn(0, reward=1, probability=0.5)
    assert bandit.s.weight[0] / bandit.s.weight[1] == pytest.approx(1.0939790, abs=5e-8)
    assert bandit.probability(0) == pytest.approx(0.5204247, abs=5e-8)
    bandit.learn(1, reward=0, probability=0.48)
    assert bandit.s.gain.tolist() == [2.0, 0.0]


@pytest.mark.parametrize("form", [LOSS, AUER])
@pytest.mark.parametrize("candidates", [None, [3, 1], [2, 0, 3]])
def test_arms_are_drawn_with_the_probabilities_that_are_reported(form, candidates):
    bandit = Bandit(4, form, 0.3, rows=2, row=1)
    for arm, times in enumerate((0, 3, 6, 2)):
        bandit.learn(arm, reward=0 if form == LOSS else 1, probability=0.5, times=times)
    times = 20_000
    arms, probabilities = bandit.draw(times, candidates)
    allowed = list(range(4)) if candidates is None else candidates
    assert set(arms) == set(allowed)
    reported = [probabilities[arms == arm][0] for arm in allowed]
    assert all((probabilities[arms == arm] == p).all() for arm, p in zip(allowed, reported, strict=True))
    weight = np.exp(bandit.s.gain[4:] * (0.3 if form == LOSS else 0.3 / 4))[allowed]
    share = 0.0 if form == LOSS else 0.3
    assert reported == pytest.approx((1 - share) * weight / weight.sum() + share / len(allowed), rel=1e-12)
    observed = [int((arms == arm).sum()) for arm in allowed]
    assert stats.chisquare(observed, times * np.array(reported) / sum(reported)).pvalue > 1e-3
    assert bandit.s.gain[:4].tolist() == [0.0] * 4  # the other row is untouched


def test_permuted_arms_are_drawn_alike():
    losses, order = np.array([3, 0, 1, 4, 2]), np.array([4, 2, 0, 3, 1])
    drawn = []
    for token in (np.arange(5), order):
        bandit = Bandit(5, LOSS, 0.2, token=token)
        for arm in range(5):
            bandit.learn(arm, 0, 0.2, times=losses[token[arm]])
        assert token[bandit.s.order].tolist() == [0, 1, 2, 3, 4]
        some = [np.flatnonzero(token == n)[0] for n in (4, 0, 2)]
        for candidates in (None, some, some[::-1]):
            arms, probabilities = bandit.draw(300, candidates)
            drawn.append((token[arms].tolist(), probabilities.tolist()))
    assert drawn[0] == drawn[3]
    assert drawn[1] == drawn[2] == drawn[4] == drawn[5]


@pytest.mark.parametrize("form", [LOSS, AUER])
def test_weights_are_scaled_before_they_leave_the_numbers(form):
    bandit = Bandit(3, form, 0.5)
    reward = 0 if form == LOSS else 1
    for arm in range(3):
        bandit.learn(arm, reward, 0.5, times=20_000 + arm)
    k = 0.5 if form == LOSS else 0.5 / 3
    expected = np.exp(k * (bandit.s.gain - bandit.s.gain.max()))
    assert abs(k * bandit.s.gain).min() > 3000  # far beyond what an exponential can hold
    assert bandit.s.weight / bandit.s.weight.max() == pytest.approx(expected, rel=1e-9)
    assert bandit.draw(100)[1].min() > 0.01


def test_candidates_whose_weights_have_vanished():
    bandit = Bandit(4, LOSS, 0.5)
    bandit.learn(0, 0, 1e-4)
    bandit.learn(1, 0, 1e-4)
    bandit.learn(1, 0, 1.0)
    assert bandit.s.weight.tolist()[:2] == [0.0, 0.0]
    assert set(bandit.draw(200)[0]) == {2, 3}
    assert bandit.probability(1, [0, 1]) == pytest.approx(1 / (1 + np.exp(0.5)), rel=1e-10)


def test_a_new_arm_enters_with_the_mean_weight():
    bandit = Bandit(4, LOSS, 0.3)
    for arm in range(4):
        bandit.learn(arm, 0, 0.1, times=arm + 1)
    bandit.enter(2)
    others = np.delete(bandit.s.weight, 2)
    assert bandit.s.weight[2] == pytest.approx(others.mean())
    assert bandit.probability(2) == pytest.approx(1 / 4)
    assert bandit.s.order.tolist() == [0, 1, 3, 2]
    bandit.s.gain[:] = -np.inf  # nobody else is there
    bandit.enter(1)
    assert bandit.s.gain[1] == 0.0
    assert bandit.s.weight.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_one_arm():
    bandit = Bandit(1, LOSS, pure(loss_rate)(0.0, 1, 10))
    bandit.learn(0, 0, 1.0, times=5)
    assert bandit.draw(3)[0].tolist() == [0, 0, 0]
    assert bandit.draw(3)[1].tolist() == [1.0, 1.0, 1.0]


def test_the_sum_of_weights_does_not_depend_on_their_order():
    generator = np.random.default_rng(3)
    numbers = np.exp(generator.uniform(-20, 0, 200))
    sums = set()
    for _ in range(20):
        total = rest = 0.0
        for w in generator.permutation(numbers):
            total, rest = pure(exp3._add)(total, rest, w)
        sums.add(total + rest)
    assert len(sums) == 1
    assert len({float(sum(generator.permutation(numbers))) for _ in range(20)}) > 1
