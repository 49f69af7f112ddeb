"""Skeletons of policies: what they give to a policy that brings only its own index."""

from __future__ import annotations

import numpy as np
import pytest

from driftrank.kernels import kernel, pure
from driftrank.policies.base import IndexPolicy, Policy
from driftrank.policies.cascade_klucb import CascadeKLUCB
from driftrank.policies.cascade_ts import CascadeTS
from driftrank.policies.checks import CHECKS
from driftrank.policies.discounted import Discounted, present
from driftrank.policies.ranked import RankedBandits
from driftrank.policies.registry import policies
from driftrank.policies.windowed import Windowed


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

    @staticmethod
    @kernel
    def refresh(p, s, a):
        pass


@pytest.mark.parametrize("policy", [_DiscountedMean(discount=0.9), _WindowedMean(window=20)], ids=lambda p: p.spec)
@pytest.mark.parametrize("check", ["same_seed_same_run", "rank_is_pure", "state_is_bounded", "items_come_and_go"])
def test_an_index_is_enough(policy, check):
    CHECKS[check](policy)


def test_means_of_a_policy_made_of_a_skeleton():
    windowed = _WindowedMean(window=2).start(["a", "b"], 1)
    discounted = _DiscountedMean(discount=0.5).start(["a", "b"], 1)
    for learner in (windowed, discounted):
        for clicks in (1, 1, 0):
            learner.update(["a"], [clicks])
    assert windowed.scores() == {"a": 0.5, "b": 0.5}
    assert discounted.scores() == {"a": pytest.approx(1.75 / 3.75), "b": 0.5}


def test_skeletons_are_no_policies():
    for skeleton in (IndexPolicy, RankedBandits, Discounted, Windowed):
        assert skeleton.__name__ not in policies()
        assert issubclass(skeleton, Policy)
    assert {"CascadeDUCB", "CascadeSWUCB"} <= set(policies())


def test_what_a_parent_wrote_by_hand_is_kept():
    class _Optimist(CascadeTS):
        @staticmethod
        @kernel
        def index(p, s, e, c, a, q):
            return np.inf

    class _Child(CascadeKLUCB):
        pass

    assert _Optimist.scores is CascadeTS.scores  # by hand
    assert _Optimist.rank is not CascadeTS.rank  # made from the index
    assert _Child.rank is CascadeKLUCB.rank
    assert pure(_Child.scores).made
