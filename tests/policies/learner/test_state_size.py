"""How much a policy remembers: what its documentation says, also after a million steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import driftrank as dr
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.registry import policies

N = 10**6
D = 10  # features
ALL = {name: cls() for name, cls in policies().items() if cls.__module__.startswith("driftrank.") and not cls.oracle}


def tau(n):
    return math.ceil(2 * math.sqrt(n * math.log(n)))


def drift_window(L, K, n):
    return math.ceil(L ** (1 / 3) * n ** (2 / 3) * K ** (-1 / 3))


def bob(L, K, n):
    J = int(math.log2(math.ceil(math.sqrt(L * K * n)))) + 1
    return 4 * L + J + 5 + 2 ** (J - 1) * K + 4


#: numbers in a state, from the items L, the positions K and the horizon n: what the docstrings say
FORMULAS = {
    "BatchRank": lambda L, K, n: 2 * L + K + 4 * L + 2 * K + 1,
    "BubbleRank": lambda L, K, n: L * L + 2 * L,
    "CUCBBoB": bob,
    "CUCBSW": lambda L, K, n: 4 * L + 3 + drift_window(L, K, n) * K + 2,
    "CascadeCD": lambda L, K, n: 267 * L + 136,
    "CascadeCUSUM": lambda L, K, n: 10 * L + 136,
    "CascadeDKLUCB": lambda L, K, n: 4 * L + 6,
    "CascadeDTS": lambda L, K, n: 2 * L + 6,
    "CascadeDUCB": lambda L, K, n: 4 * L + 6,
    "CascadeKLUCB": lambda L, K, n: 4 * L,
    "CascadeLinTS": lambda L, K, n: 2 * L * D + 2 * D * D + 4 * D + 5,
    "CascadeLinUCB": lambda L, K, n: 2 * L * D + 3 * L + 3 * D * D + 3 * D + 5,
    "CascadeMASTER": lambda L, K, n: 2 * L * (int(math.log2(n)) + 2) + 3 * int(math.log2(n)) + 139,
    "CascadeMUCB": lambda L, K, n: L * (50 + 10) + 136,
    "CascadePHT": lambda L, K, n: 10 * L + 136,
    "CascadeRegimeTS": lambda L, K, n: 5 * L * 17 + 3 * L + 2 * 4 * L + 3 * 4 + 70 + L + 67,
    "CascadeSWKLUCB": lambda L, K, n: 4 * L + 3 + tau(n) * K + 2,
    "CascadeSWTS": lambda L, K, n: 4 * L + 3 + tau(n) * K + 2,
    "CascadeSWUCB": lambda L, K, n: 4 * L + 3 + tau(n) * K + 2,
    "CascadeSoftmax": lambda L, K, n: 4 * L + K + 8,
    "CascadeTS": lambda L, K, n: 4 * L,
    "CascadeUCB1": lambda L, K, n: 4 * L,
    "CascadeUCBV": lambda L, K, n: 5 * L,
    "DBGD": lambda L, K, n: L * D + 2 * D + 1,
    "DCMDKLUCB": lambda L, K, n: 4 * L + 6 + K,
    "DCMDUCB": lambda L, K, n: 4 * L + 6 + K,
    "DCMKLUCB": lambda L, K, n: 4 * L + K,
    "DCMSWKLUCB": lambda L, K, n: 4 * L + 3 + tau(n) * K + K + 2,
    "DCMSWUCB": lambda L, K, n: 4 * L + 3 + tau(n) * K + K + 2,
    "DCMUCB": lambda L, K, n: 4 * L + K,
    "GLRTCascadeKLUCB": lambda L, K, n: 267 * L + 136,
    "GLRTCascadeUCB": lambda L, K, n: 267 * L + 136,
    "GLRTDCMKLUCB": lambda L, K, n: 267 * L + 136 + K,
    "PDGD": lambda L, K, n: L * D + D + 2 * K + 1,
    "PBMDPIE": lambda L, K, n: 2 * K * L + 2 * L + K + 6 + L + K,
    "PBMDUCB": lambda L, K, n: 2 * K * L + 2 * L + K + 6 + K,
    "PBMPIE": lambda L, K, n: 2 * K * L + 2 * L + K + L + K,
    "PBMSWPIE": lambda L, K, n: 2 * K * L + 2 * L + K + 3 + tau(n) * K + L + K + 2,
    "PBMSWUCB": lambda L, K, n: 2 * K * L + 2 * L + K + 3 + tau(n) * K + K + 2,
    "PBMUCB": lambda L, K, n: 2 * K * L + 2 * L + K + K,
    "PriorRegimeTS": lambda L, K, n: 5 * L * 9 + 2 * L + 2 * 4 * L + 3 * 4 + 76 + 2 * L + 68,
    "Random": lambda L, K, n: 0,
    "RankedEXP3": lambda L, K, n: 2 * K * L + K + L,
    "RankedEXP3S": lambda L, K, n: K * L + 3 + L,
    "RankedKLUCB": lambda L, K, n: 4 * K * L + K,
    "RankedREXP3": lambda L, K, n: 2 * K * L + K + 4 + L,
    "RankedUCB1": lambda L, K, n: 4 * K * L,
    "TSCascade": lambda L, K, n: 5 * L,
    "TopRank": lambda L, K, n: 2 * L * L + 5 * L,
}
#: these compare every item with every other
QUADRATIC = {"BubbleRank", "TopRank"}
NEED_A_HORIZON = {"BatchRank", "BubbleRank", "TopRank"}


def size(policy: Policy, L: int, K: int, n: int) -> int:
    return sum(CompiledPolicy.of(policy, RankingProblem(L, K, n, n, D if policy.contextual else 0)).layout.sizes)


def test_every_policy_has_a_formula():
    assert set(FORMULAS) == set(ALL)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize(("L", "K"), [(10, 3), (1000, 20)])
def test_a_state_has_the_size_that_is_documented(name, L, K):
    assert size(ALL[name], L, K, N) == FORMULAS[name](L, K, N)


@pytest.mark.parametrize("name", FORMULAS)
def test_states_grow_with_the_items_and_no_faster(name):
    factor = size(ALL[name], 2000, 20, N) / max(1, size(ALL[name], 1000, 20, N))
    assert factor < (4.01 if name in QUADRATIC else 2.01)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_thousand_items_and_twenty_positions(name):
    """They work."""
    policy, L, K = ALL[name], 1000, 20
    features = np.random.default_rng(0).random((L, D)) if policy.contextual else None
    learner = policy.start(range(L), K, features=features, seed=0, horizon=1000)
    for _ in range(3):
        ranking = learner.rank()
        assert len(set(ranking)) == K
        learner.update(ranking, clicks=4)
    assert not np.isnan(list(learner.scores().values())).any()


@pytest.mark.parametrize("name", ["CascadeRegimeTS", "GLRTCascadeKLUCB", "CascadeSWUCB"])
def test_a_million_steps(name, yandex40):
    """Nothing overflows: regret in the tenth hundred thousand is what it was in the second."""
    query = next(iter(yandex40))
    env = dr.environments.Abrupt({query: yandex40[query]}, k=3)
    result = dr.simulate([name], env, horizon=N, checkpoints=10, progress=False)
    early, late = result.regret(name, 100_000, 200_000), result.regret(name, 900_000, N)
    assert 0 < late < 2 * early + 100


@pytest.mark.parametrize("name", sorted(set(FORMULAS) - NEED_A_HORIZON))
def test_without_a_horizon_a_state_stays_below_that_of_the_next_power_of_two(name):
    """A learner makes room as it goes, at most for twice the steps it has made."""
    learner = ALL[name].start(range(10), 3, features=np.eye(10) if ALL[name].contextual else None)
    learner.steps = N
    learner._grow()
    assert sum(learner.compiled.layout.sizes) <= FORMULAS[name](10, 3, 4 * N)
