"""Base classes of policies: the kernels that they make for a policy with only an index of its own."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from driftrank.kernels import kernel, pure
from driftrank.policies.base import Policy
from driftrank.policies.contract.checks import CHECKS
from driftrank.policies.detecting.cascade_cd import CascadeCD
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.index_policy import IndexPolicy
from driftrank.policies.memory.discounted import Discounted, present
from driftrank.policies.memory.windowed import Windowed
from driftrank.policies.policy_kernels import KernelSignatures, believe_nothing
from driftrank.policies.ranked.base import RankedBandits
from driftrank.policies.registry import parse_policy, policies
from driftrank.policies.several_clicks.dcm import DCMUCB
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from driftrank.policies.stationary.cascade_ts import CascadeTS
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer


class _DiscountedMean(Discounted):
    """The mean with two made-up observations, one of them a click."""

    @staticmethod
    @kernel
    def level(p, s, e):
        return present(p, s, e)[0]

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return (s.X[a] + q) / (s.N[a] + 2.0 * q)

    @staticmethod
    @kernel
    def refresh(p, s, a):
        pass


class _WindowedMean(Windowed):
    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return (s.X[a] + 1.0) / (s.N[a] + 2.0)


@pytest.mark.parametrize("policy", [_DiscountedMean(discount=0.9), _WindowedMean(window=20)], ids=lambda p: p.spec)
@pytest.mark.parametrize("check", ["same_seed_same_run", "rank_is_pure", "state_is_bounded", "items_come_and_go"])
def test_an_index_is_enough(policy, check):
    CHECKS[check](policy)


def test_means_of_a_policy_with_only_an_index():
    windowed = _WindowedMean(window=2).start(["a", "b"], 1)
    discounted = _DiscountedMean(discount=0.5).start(["a", "b"], 1)
    for learner in (windowed, discounted):
        for clicks in (1, 1, 0):
            learner.update(["a"], [clicks])
    assert windowed.scores() == {"a": 0.5, "b": 0.5}
    assert discounted.scores() == {"a": pytest.approx(1.75 / 3.75), "b": 0.5}


def test_base_classes_are_not_listed_as_policies():
    for skeleton in (IndexPolicy, RankedBandits, Discounted, Windowed):
        assert skeleton.__name__ not in policies()
        assert issubclass(skeleton, Policy)
    assert {"CascadeDUCB", "CascadeSWUCB"} <= set(policies())


def test_kernels_written_by_a_parent_are_kept():
    class _Optimist(CascadeTS):
        @staticmethod
        @kernel
        def index(p, s, e, c, a, q):
            return np.inf

    class _Child(CascadeKLUCB):
        pass

    assert _Optimist().kernels().scores is CascadeTS.scores
    assert _Optimist().kernels().rank is not CascadeTS().kernels().rank  # made from the index
    assert _Child().kernels() == CascadeKLUCB().kernels()
    assert _Child().kernels().rank is CascadeKLUCB.rank


def test_equal_kernels_are_one_object():
    assert DCMUCB(feedback="first").kernels() == DCMUCB().kernels()
    assert DCMUCB().kernels().update is CascadeUCB1().kernels().update
    assert DCMUCB().kernels().rank is not CascadeUCB1().kernels().rank  # placed
    assert CascadeSWUCB(window=5).kernels() == CascadeSWUCB().kernels()
    assert CascadeCD(base="ts").kernels() == CascadeCD(base="ts", delta=0.1).kernels()
    assert CascadeCD(base="ts").kernels() != CascadeCD(base="ucbv").kernels()


def test_a_missing_kernel_is_named():
    class _Half(IndexPolicy):
        def fields(self, p):
            return {}

        @staticmethod
        @kernel
        def update(p, s, e, r, clicks, observed):
            pass

    with pytest.raises(TypeError, match="_Half lacks the kernels rank, scores, forget"):
        _Half().start(["a", "b"], 1)


def test_a_plain_function_is_named():
    class _Plain(CascadeKLUCB):
        @staticmethod
        def update(p, s, e, r, clicks, observed):
            pass

    with pytest.raises(TypeError, match=r"_Plain\.update: must be marked @kernel"):
        _Plain().start(["a", "b"], 1)


@pytest.mark.parametrize("name", policies())
def test_kernels_have_the_documented_signatures(name):
    for kind, function in parse_policy(name).kernels()._asdict().items():
        expected = inspect.signature(getattr(KernelSignatures, kind)).parameters
        assert list(inspect.signature(pure(function)).parameters) == list(expected), kind


#: policies whose score is an estimate of the attraction plus a bonus
OPTIMISTIC = """
CUCBBoB CUCBSW CascadeCD CascadeCUSUM CascadeDKLUCB CascadeDUCB CascadeKLUCB CascadeLinUCB CascadeMASTER CascadeMUCB
CascadePHT CascadeSWKLUCB CascadeSWUCB CascadeUCB1 CascadeUCBV DCMDKLUCB DCMDUCB DCMKLUCB DCMSWKLUCB DCMSWUCB DCMUCB
GLRTCascadeKLUCB GLRTCascadeUCB GLRTDCMKLUCB PBMDUCB PBMSWUCB PBMUCB RankedKLUCB RankedUCB1
"""
#: policies that do not estimate attractions
WITHOUT_ESTIMATES = (
    "BatchRank BubbleRank DBGD DynamicOracle PDGD Random RankedEXP3 RankedEXP3S RankedREXP3 StaticOracle TopRank"
)


def test_policies_state_optimism_and_estimates():
    ours = {name: cls for name, cls in policies().items() if cls.__module__.startswith("driftrank.")}  # not tests'
    assert [name for name, cls in ours.items() if cls.optimistic] == OPTIMISTIC.split()
    without = [name for name, cls in ours.items() if cls().kernels().believe is believe_nothing]
    assert without == WITHOUT_ESTIMATES.split()
