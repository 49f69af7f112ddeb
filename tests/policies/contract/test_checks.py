"""Every policy keeps the contract, and the contract notices when one does not."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from driftrank.kernels import kernel
from driftrank.kernels.layout import field
from driftrank.kernels.rng import derive, uniform
from driftrank.kernels.top_k import insert
from driftrank.policies.contract.checks import CHECKS, applicable, check_policy, same_lists
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from driftrank.policies.registry import policies
from driftrank.policies.stationary.random import Random
from tests.reference import reference_of, references

OURS = {name: cls for name, cls in policies().items() if cls.__module__.startswith("driftrank.")}


@pytest.mark.parametrize(
    ("name", "check"),
    [(name, check) for name, cls in OURS.items() for check in applicable(cls()) if check != "beats_random"],
)
def test_contract(name, check):
    """All checks but beats_random, which takes many steps: tests/policies/test_compiled.py."""
    CHECKS[check](OURS[name]())


@pytest.mark.parametrize("name", [name for name, cls in OURS.items() if not cls.oracle])
def test_same_lists_as_the_plain_version(name):
    assert name in references(), f"{name} has no plain version in tests/reference"
    policy = OURS[name]()
    for L, K in ((6, 3), (4, 1), (3, 3)):
        same_lists(policy, reference_of(policy), L=L, K=K)


def test_every_plain_version_has_its_policy():
    assert set(references()) <= set(OURS)


class _Leader(IndexPolicy):
    """Follow the leader: a sound policy, of which the others here are broken copies."""

    def fields(self, p):
        return {"N": field("L"), "X": field("L")}

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return (s.X[a] + 1.0) / (s.N[a] + 1.0)

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            s.N[r.items[i]] += 1.0
            s.X[r.items[i]] += clicks[i]

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        s.N[a] = 0.0
        s.X[a] = 0.0


class _RankChangesState(_Leader):
    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        s.N[a] += 1e-18  # too little to change a list
        return (s.X[a] + 1.0) / (s.N[a] + 1.0)


class _ShowsAnItemTwice(_Leader):
    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        for i in range(r.items.shape[0]):
            r.items[i] = c.items[0]
            r.score[i] = 0.0


class _IgnoresCandidates(_Leader):
    @staticmethod
    @kernel
    def rank(p, s, e, c, r):
        filled = 0
        for a in range(p.L):
            filled = insert(r, 0, filled, r.items.shape[0], s.X[a] / (s.N[a] + 1.0), np.uint32(a), e, c, p.ties)


class _DividesZeroByZero(_Leader):
    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return s.X[a] / s.N[a]


class _KeysOnSlots(_Leader):
    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return uniform(derive(e.key, a))


class _HiddenRandomness(_Leader):
    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return np.random.random()  # noqa: NPY002


class _WritesTooFar(_Leader):
    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        s.X[p.L] = 1.0


class _RemembersItemsThatLeft(_Leader):
    @staticmethod
    @kernel
    def forget(p, s, e, a):
        pass


class _ClaimsToCopeWithChange(_Leader):
    """Forgetting is not implemented: it would need thousands of steps to give up yesterday's best item."""

    claims: ClassVar[tuple[str, ...]] = ("abrupt",)


class _ClaimsToLearn(Random):
    claims: ClassVar[tuple[str, ...]] = ("stationary",)


class _ClaimsTheUnknown(Random):
    claims: ClassVar[tuple[str, ...]] = ("weightless",)


class _LearnsFromTheScore(_Leader):
    """What it was ranked by is lost with a plain list; a policy must ask for a memo, and cope when that is lost."""

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            s.N[r.items[i]] += r.score[i]


_SHARED_PRIOR, _UPDATE = PriorRegimeTS.shared_prior, PriorRegimeTS.update


class _Sharing(PriorRegimeTS):
    """A sound policy with a shared model, for the broken ones."""

    hash_bits: int = 4


class _PriorChangesTheModel(_Sharing):
    @staticmethod
    @kernel
    def shared_prior(p, h, x, out):
        h.labels[0] += 1.0
        return _SHARED_PRIOR(p, h, x, out)


class _ImproperPrior(_Sharing):
    @staticmethod
    @kernel
    def shared_prior(p, h, x, out):
        out[:] = 0.0
        return 1.0, 0.0


class _DependsOnTheSlots(_Sharing):
    """What a query learns must not depend on the number of items that have a state."""

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        _UPDATE(p, s, e, r, clicks, observed)
        s.unseen[1] = 0.5 * (p.L > 4)


class _LearnsFromChance(_Sharing):
    @staticmethod
    @kernel
    def shared_learn(p, h, e, r, x, clicks, observed):
        h.nu[0] = 1.0 + np.random.random()  # noqa: NPY002


class _ChecksNothing(_Leader):
    width: float = 1.0


@pytest.mark.interpreted
@pytest.mark.parametrize(
    "check", [name for name in CHECKS if name not in ("spec_round_trips", "save_and_load_change_nothing")]
)
def test_a_sound_policy_passes(check):
    CHECKS[check](_Leader())


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("policy", "check", "message"),
    [
        (_RankChangesState, "rank_is_pure", "changed the state"),
        (_ShowsAnItemTwice, "lists_are_valid", "twice"),
        (_IgnoresCandidates, "candidates_are_respected", "distinct items"),
        (_IgnoresCandidates, "items_come_and_go", "only candidate"),
        (_DividesZeroByZero, "numbers_are_finite", "NaN"),
        (_KeysOnSlots, "permuted_items_behave_permuted", "another order"),
        (_HiddenRandomness, "same_seed_same_run", "different lists"),
        (_HiddenRandomness, "rank_is_pure", "two calls of rank"),
        pytest.param(_WritesTooFar, "state_is_bounded", "outside", marks=pytest.mark.compiled),  # Python checks bounds
        (_RemembersItemsThatLeft, "item_that_returns_is_new", "added again"),
        pytest.param(_ClaimsToCopeWithChange, "beats_random", "abrupt", marks=pytest.mark.compiled),
        pytest.param(_ClaimsToLearn, "beats_random", "stationary", marks=pytest.mark.compiled),
        (_ClaimsTheUnknown, "beats_random", "weightless"),
        (_LearnsFromTheScore, "late_and_lost_feedback", "plain list"),
        (_PriorChangesTheModel, "prior_is_pure", "changed the model"),
        (_ImproperPrior, "prior_is_pure", "not a proper prior"),
        (_LearnsFromChance, "folds_are_independent", "shared model differs"),
        (_DependsOnTheSlots, "state_of_observed_items_suffices", "all items have a state"),
        (_ChecksNothing, "bad_values_are_refused", "width="),
        (_Leader, "spec_round_trips", "unknown policy"),  # private, so its name says nothing
    ],
)
def test_a_broken_policy_fails_the_right_check(policy, check, message):
    with pytest.raises(AssertionError, match=f"^{policy.__name__}: {check}: .*{message}"):
        CHECKS[check](policy())


def test_check_policy_runs_every_check():
    assert set(applicable(Random())) == set(CHECKS)
    with pytest.raises(AssertionError, match=r"^_ClaimsToLearn: "):
        check_policy(_ClaimsToLearn())


def test_check_policy_compares_with_the_plain_version():
    check_policy(Random(), reference=reference_of(Random()))

    class Wrong:
        def __init__(self, L, K, horizon):
            self.K = K

        def rank(self, t, key):
            return list(range(self.K))

        def update(self, t, ranking, clicks):
            pass

    with pytest.raises(AssertionError, match="plain version"):
        check_policy(Random(), reference=Wrong)
