from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from driftrank import theory
from driftrank.environments import BLB, Abrupt, LowerBound, Stationary
from driftrank.kernels import pure
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.memory.discounted import discount_for

PAPER = {"n": 100_000, "L": 10, "n_breakpoints": 9, "gaps": 0.1, "epsilon": 0.6}


def test_values_of_the_paper_scale():
    assert round(theory.theorem1(**PAPER)) == 7_859_106
    assert round(theory.theorem1(**PAPER, form="printed")) == 7_853_207
    assert round(theory.theorem2(**PAPER)) == 526_084
    assert round(theory.theorem2(**PAPER, window=716)) == 526_191
    assert round(theory.theorem3(100_000, L=10, K=5, p=0.2, delta=0.1), 2) == 552.13
    assert round(theory.kl(0.1, 0.2), 6) == 0.036690


def test_both_upper_bounds_are_vacuous_there():
    assert theory.theorem1(**PAPER) > PAPER["n"]
    assert theory.theorem2(**PAPER) > PAPER["n"]


def test_recommended_parameters():
    assert round(theory.recommended_discount(100_000), 9) == 0.999209431
    assert round(theory.recommended_discount(100_000, 9), 9) == 0.997628292
    assert round(theory.recommended_window(100_000), 2) == 2145.97
    assert round(theory.recommended_window(100_000, 9), 2) == 715.32
    assert round(theory.bias_window(theory.recommended_discount(100_000, 9), 0.6), 2) == 2760.54
    # what the discount amounts to: the memory 1/(1-gamma), in steps
    assert round(1 / (1 - theory.recommended_discount(100_000))) == 1265
    assert round(1 / (1 - theory.recommended_discount(100_000, 9))) == 422


@pytest.mark.parametrize(
    ("k", "gamma", "tau"), [(10, 0.9921875, 168.50), (13, 0.99723786, 543.39), (16, 0.99902344, 1705.07)]
)
def test_values_of_the_doubling_trick(k, gamma, tau):
    assert round(theory.recommended_discount(2**k), 8) == gamma
    assert round(theory.recommended_window(2**k), 2) == tau


def test_policies_use_the_recommended_parameters():
    for n in (1, 2, 10, 12_345, 100_000):
        for changes in (1, 3, 9):
            # the policy has its own kernel for the doubling trick; the same number to the last bit
            assert theory.recommended_discount(n, changes) == pure(discount_for)(n, changes)
    problem = CascadeDUCB().start(range(10), 3, horizon=100_000).compiled.problem
    assert CascadeDUCB().parameters(problem)["discount"] == theory.recommended_discount(100_000)
    assert CascadeSWUCB().parameters(problem)["window"] == math.ceil(theory.recommended_window(100_000)) == 2146
    assert CascadeSWUCB(n_breakpoints=9).parameters(problem)["window"] == 716


def test_smallest_cases():
    assert theory.recommended_window(1) == 0
    assert theory.recommended_discount(1) == 0.75
    assert theory.recommended_discount(1, 1000) == 0.5  # never outside of what theorem 1 asks for


def test_forms_of_theorem_1():
    gamma = theory.recommended_discount(100_000, 9)
    bias = theory.bias_window(gamma, 0.6)
    appendix = theory.theorem1(**PAPER, form="appendix") - theory.theorem1(**PAPER)
    assert appendix == pytest.approx(2 * 10 / (1 - gamma) + 10 * 9 * (math.ceil(bias) - bias))
    # by hand: n = 100, L = 1, no breakpoint, gamma = 3/4, epsilon = 2/3: eta = 2, ceil(n/4) = 25, gamma^4 = 81/256
    outside = 4 / (1 - 1 / math.e)
    inside = 32 * 2 / 3 / 0.5 / (81 / 256)
    arguments = {"n": 100, "L": 1, "n_breakpoints": 0, "gaps": 0.5, "epsilon": 2 / 3, "discount": 0.75}
    assert theory.theorem1(**arguments) == pytest.approx((outside / math.log(3) + inside) * 25 * math.log(4))
    assert theory.theorem1(**arguments, form="printed") == pytest.approx(
        (outside * math.log(3) + inside) * 25 * math.log(4)
    )


def test_theorem_2_by_hand():
    # n = 100, L = 2, one breakpoint, tau = 30 steps, epsilon = 2/3: eta = 2, ln 30 / ln 3 = 3.1, n / tau = 3.3
    tau = 30.0
    expected = 2 * tau + 2 * math.log(tau) ** 2 / math.log(3)
    expected += 2 * 2 * 4 * 100 / tau  # 2 / ln tau * ceil(ln tau / ln 3) * n ln tau / tau, two items
    expected += (8 * 2 / 3 / 0.5 + 8 * 2 / 3 / 0.25) * 4 * math.log(tau)
    assert theory.theorem2(100, 2, 1, [0.5, 0.25], 2 / 3, window=tau) == pytest.approx(expected)


def test_defaults_are_the_recommended_parameters():
    for changes in (1, 9):
        arguments = {**PAPER, "n_breakpoints": changes}
        gamma, tau = theory.recommended_discount(100_000, changes), theory.recommended_window(100_000, changes)
        assert theory.theorem1(**arguments) == theory.theorem1(**arguments, discount=gamma)
        assert theory.theorem2(**arguments) == theory.theorem2(**arguments, window=tau)
    stationary = {**PAPER, "n_breakpoints": 0}
    assert theory.theorem1(**stationary) < theory.theorem1(**{**PAPER, "n_breakpoints": 1})
    assert theory.theorem2(**stationary) < theory.theorem2(**{**PAPER, "n_breakpoints": 1})


@pytest.mark.parametrize("bound", [theory.theorem1, theory.theorem2])
def test_upper_bounds_are_monotone(bound):
    def at(**changes):
        fixed = {"discount": 0.999} if bound is theory.theorem1 else {"window": 700}
        return bound(**{**PAPER, **fixed, **changes})

    assert at(gaps=0.05) > at(gaps=0.1) > at(gaps=0.5)
    assert at(n_breakpoints=8) < at(n_breakpoints=9) < at(n_breakpoints=10)
    assert at(n=50_000) < at(n=100_000) < at(n=200_000)
    assert at(L=9) < at(L=10) < at(L=11)
    assert at(gaps=[0.1] * 10) == at(gaps=0.1) == at(gaps=np.full(10, 0.1))
    # gamma 1/(1-gamma) and the like are close to constant, so the gap terms grow like sqrt(n) and more
    assert 1.4 < bound(**{**PAPER, "n": 200_000}) / bound(**PAPER) < 1.8


@pytest.mark.parametrize("bound", [theory.theorem1, theory.theorem2])
def test_items_without_a_gap(bound):
    def at(gaps):
        return bound(100_000, len(gaps), 9, gaps, 0.6)

    assert at([0.1, None]) == at([0.1, math.nan]) == at([0.1, np.nan])
    assert at([0.1, None]) < at([0.1, 1.0]) < math.inf
    assert at([0.1, 0.0]) == at([0.0, None]) == math.inf
    # each item with a gap adds the same
    assert at([0.1, 0.1, None]) - at([0.1, None, None]) == pytest.approx(at([0.1] * 3) - at([0.1, 0.1, None]))


def test_lower_bound():
    at = theory.theorem3
    assert at(400_000, 10, 5, 0.2, 0.1) == pytest.approx(2 * at(100_000, 10, 5, 0.2, 0.1))  # the square root of n
    assert at(100_000, 10, 5, 1.0, 0.1) == 0.0
    assert at(1000, 2, 1, 0.5, 0.5) == pytest.approx(math.sqrt(2000 / 3 / math.log(2)))  # kl(0, 1/2) = ln 2
    # below the upper bounds, which hold for its problem
    assert at(100_000, 10, 5, 0.2, 0.1) < theory.theorem2(100_000, 10, 2, 0.1, 0.6)


def test_bound_of_cascade_ucb1():
    environment = BLB(L=4, K=2, p=0.2, delta=0.15)
    gaps = theory.gaps(environment, 100_000)
    assert theory.kveton_ucb1_bound(100_000, 4, gaps) == pytest.approx(
        2 * 12 / 0.15 * math.log(100_000) + math.pi**2 / 3 * 4
    )
    assert theory.kveton_ucb1_bound(1, 4, gaps) == pytest.approx(math.pi**2 / 3 * 4)


def test_kl():
    assert theory.kl(0.3, 0.3) == 0
    assert theory.kl(0, 0.5) == theory.kl(1, 0.5) == pytest.approx(math.log(2))
    assert theory.kl(0.5, 0) == theory.kl(0.5, 1) == theory.kl(1, 0) == math.inf
    assert theory.kl(0, 0) == theory.kl(1, 1) == 0
    assert theory.kl(0.2, 0.7) == pytest.approx(theory.kl(0.8, 0.3))
    assert theory.kl(0.2, 0.7) >= 2 * 0.5**2  # Pinsker


def test_gaps_of_abrupt_by_hand():
    # by default 0, 1 are best and 2, 3, 4 behind by .1, .2, .35; both boosted items are best in a perturbed epoch
    base = [0.5, 0.4, 0.3, 0.2, 0.05]
    environment = Abrupt([base], k=2, period=10, boost=0.9, n_boosted=2)
    assert theory.gaps(environment, 10) == pytest.approx([math.nan, math.nan, 0.1, 0.2, 0.35], nan_ok=True)
    boosted = [a for a in range(5) if environment.attraction(11)[a] == 0.9]
    expected = [0.4, 0.5, 0.1, 0.2, 0.35]  # 0.9 - 0.5 and 0.9 - 0.4 while perturbed; the rest is closer by default
    assert len(boosted) == 2
    assert theory.gaps(environment, 20) == pytest.approx(expected)
    assert theory.smallest_gap(environment, 20) == pytest.approx(0.1)
    # seen by the perturbed epoch alone, the item that is not boosted has the gap 0.9 - base
    other = next(a for a in (2, 3, 4) if a not in boosted)
    assert 0.9 - environment.attraction(11)[other] == pytest.approx(0.9 - base[other])


def test_gaps_with_a_boost_between():
    # one item boosted to 0.45: it takes the second place, and item 1 is behind by .05
    environment = Abrupt([[0.5, 0.4, 0.3]], k=2, period=10, boost=0.45, n_boosted=1)
    assert theory.gaps(environment, 20) == pytest.approx([math.nan, 0.05, 0.1], nan_ok=True)


def test_gaps_of_ties():
    environment = Stationary([[0.3, 0.5, 0.5, 0.5, 0.1]], k=2)
    # 1 and 2 are the best list; 3 ties with it, which no policy can be blamed for, but the bounds are
    assert theory.gaps(environment, 100) == pytest.approx([0.2, math.nan, math.nan, 0.0, 0.4], nan_ok=True)
    assert environment.best(1) == [1, 2]
    assert theory.smallest_gap(environment, 100) == 0
    assert theory.theorem2(100_000, 5, 0, theory.gaps(environment, 100), 0.6) == math.inf


def test_gaps_if_every_item_is_shown():
    environment = Stationary([[0.3, 0.5]], k=2)
    assert np.isnan(theory.gaps(environment, 10)).all()
    assert theory.smallest_gap(environment, 10) == math.inf
    assert theory.theorem1(1000, 2, 0, theory.gaps(environment, 10), 0.6) < math.inf


def test_gaps_of_the_lower_bound_problem():
    environment = LowerBound(L=6, p=0.2, delta=0.1, period=10, exchanged=1)
    assert theory.gaps(environment, 10) == pytest.approx([math.nan] * 3 + [0.1] * 3, nan_ok=True)
    assert theory.gaps(environment, 30) == pytest.approx([0.1, math.nan, math.nan, 0.1, 0.1, 0.1], nan_ok=True)


def test_gaps_follow_query_run_and_seed():
    queries = {"a": [0.5, 0.4, 0.3, 0.2, 0.1], "b": [0.1, 0.2, 0.3, 0.4, 0.5]}
    environment = Abrupt(queries, k=2, period=10, n_boosted=1, boost=0.35)
    np.testing.assert_array_equal(theory.gaps(environment, 10, query="b"), theory.gaps(environment, 10, query=1))
    assert np.flatnonzero(np.isnan(theory.gaps(environment, 10, "a"))).tolist() == [0, 1]
    assert np.flatnonzero(np.isnan(theory.gaps(environment, 10, "b"))).tolist() == [3, 4]

    def of(**where):
        return tuple(np.nan_to_num(theory.gaps(environment, 20, **where), nan=-1))

    # one of three items is boosted, to .05 below the second best
    assert len({of(run=run) for run in range(8)}) == len({of(seed=seed) for seed in range(8)}) == 3
    with pytest.raises(ValueError, match="horizon=0"):
        theory.gaps(environment, 0)


@pytest.mark.parametrize("bound", [theory.theorem1, theory.theorem2])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 0.5}, r"epsilon=0.5: must be a number in \(0.5, 1\)"),
        ({"epsilon": 1.0}, r"epsilon=1.0"),
        ({"epsilon": math.nan}, r"epsilon=nan"),
        ({"n": 0}, r"n=0"),
        ({"n": 1e5}, r"n=100000.0"),
        ({"L": 0}, r"L=0"),
        ({"n_breakpoints": -1}, r"n_breakpoints=-1"),
        ({"n_breakpoints": 100_000}, r"n_breakpoints=100000: must be an integer from 0 to 99999"),
        ({"gaps": [0.1] * 9}, r"gaps has 9 values: .* the L=10 items"),
        ({"gaps": [0.1] * 9 + [-0.1]}, r"gaps\[9\]=-0.1"),
        ({"gaps": 1.5}, r"gaps\[0\]=1.5"),
        ({"gaps": ["0.1"] * 10}, r"gaps\[0\]='0.1'"),
    ],
)
def test_bad_input(bound, change, message):
    with pytest.raises(ValueError, match=message):
        bound(**{**PAPER, **change})


def test_bad_parameters():
    for discount in (0.5, 1.0, math.nan):
        with pytest.raises(ValueError, match="discount="):
            theory.theorem1(**PAPER, discount=discount)
    for window in (1, 0, -5, math.inf):
        with pytest.raises(ValueError, match="window="):
            theory.theorem2(**PAPER, window=window)
    with pytest.raises(ValueError, match="form='appendx': must be one of 'corrected', 'printed', 'appendix'"):
        theory.theorem1(**PAPER, form="appendx")
    with pytest.raises(ValueError, match="n_breakpoints=0"):
        theory.recommended_discount(100, 0)
    with pytest.raises(ValueError, match="n=0"):
        theory.recommended_window(0)
    with pytest.raises(ValueError, match=r"q=1.1"):
        theory.kl(0.5, 1.1)
    with pytest.raises(ValueError, match=r"epsilon=0"):
        theory.bias_window(0.9, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((100, 9, 4, 0.2, 0.1), "L=9: must be even"),
        ((100, 10, 4, 0.2, 0.1), "K=4: must be half of L, 5"),
        ((100, 10, 5, 0.2, 0.3), "delta=0.3"),
        ((100, 10, 5, 0.2, 0.0), "delta=0.0"),
        ((100, 10, 5, 0.0, 0.1), "p=0.0"),
        ((0, 10, 5, 0.2, 0.1), "n=0"),
    ],
)
def test_bad_input_of_the_lower_bound(arguments, message):
    with pytest.raises(ValueError, match=message):
        theory.theorem3(*arguments)


def test_does_not_wait_for_the_compiler():
    code = "import sys, driftrank.theory; sys.exit('numba' in sys.modules or 'driftrank.policies' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1], check=False).returncode == 0
