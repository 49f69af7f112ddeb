"""Policies for several clicks among the users they are for."""

from __future__ import annotations

import pytest

import driftrank as dr
from driftrank.clickmodels import DCM, PBM
from driftrank.environments import Abrupt, Stationary
from driftrank.kernels.rng import users_key
from tests.policies.streams import state

QUERIES = {"q": [0.6, 0.5, 0.35, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.02]}
N = 24_000


def regrets(environment, *specs):
    """Of all, and of random lists."""
    result = dr.simulate([*specs, "Random"], environment, horizon=N, runs=4, seed=1, progress=False, checkpoints=1)
    return dict(zip((*specs, "Random"), (result.regret(label) for label in result.labels), strict=True))


@pytest.fixture(scope="module")
def dcm():
    """The further down a click, the likelier it is the last one."""
    return DCM(stop_after_click=(0.2, 0.5, 0.9))


@pytest.fixture(scope="module")
def pbm():
    return PBM(examination=(1.0, 0.5, 0.25))


@pytest.mark.slow
def test_dcm_in_a_world_that_does_not_change(dcm):
    """A policy for the cascade model puts its best item where the fewest users leave."""
    policy = "DCMKLUCB:stop_after_click=[0.2;0.5;0.9]"
    regret = regrets(Stationary(QUERIES, k=3, click_model=dcm), policy, "DCMKLUCB", "CascadeKLUCB")
    assert regret[policy] < 0.15 * regret["Random"]
    assert regret[policy] < 0.4 * regret["CascadeKLUCB"]
    assert regret[policy] < 0.4 * regret["DCMKLUCB"]  # which takes the first position for the one that counts most


@pytest.mark.slow
def test_learning_down_to_the_last_click_or_the_first(dcm):
    """More labels, or fair ones: it depends on where users leave. See DCMKLUCB's notes."""
    upwards = [f"DCMKLUCB:stop_after_click=[0.2;0.5;0.9],feedback={mode}" for mode in ("first", "last")]
    first, last, _ = regrets(Stationary(QUERIES, k=3, click_model=dcm), *upwards).values()
    assert first < 0.2 * last
    first, last, _ = regrets(
        Stationary(QUERIES, k=3, click_model=DCM()), "DCMKLUCB:feedback=first", "DCMKLUCB"
    ).values()
    assert last < 0.8 * first


def test_the_last_click_overrates_the_bottom(dcm):
    """At the bottom, a skip counts only if nothing was clicked: 0.76 for 0.6."""
    alpha, k = [0.35, 0.5, 0.6], 3
    clicked = (1 - 0.2 * 0.35) * (1 - 0.5 * 0.5) * 0.6
    expected = clicked / (clicked + 0.65 * 0.5 * 0.4)
    learner = dr.DCMKLUCB(stop_after_click=(0.2, 0.5, 0.9)).start(range(k), k)
    for t in range(4000):
        learner.update([0, 1, 2], dcm.simulate(alpha, [0, 1, 2], users_key(1, t)))
    counts = state(learner)
    assert counts["X"][2] / counts["N"][2] == pytest.approx(expected, abs=0.03)
    assert expected == pytest.approx(0.763, abs=1e-3)


@pytest.mark.slow
def test_dcm_that_forgets_when_the_world_changes(dcm):
    policies = [f"{name}:stop_after_click=[0.2;0.5;0.9]" for name in ("DCMKLUCB", "DCMDKLUCB", "GLRTDCMKLUCB")]
    regret = regrets(Abrupt(QUERIES, k=3, period=6000, click_model=dcm), *policies)
    assert all(regret[policy] < 0.5 * regret["Random"] for policy in policies)
    assert all(regret[policy] < 0.7 * regret[policies[0]] for policy in policies[1:])


@pytest.mark.slow
def test_pbm_in_a_world_that_does_not_change(pbm):
    policies = [f"{name}:examination=[1;0.5;0.25]" for name in ("PBMUCB", "PBMPIE")]
    regret = regrets(Stationary(QUERIES, k=3, click_model=pbm), *policies)
    ucb, pie = (regret[policy] for policy in policies)
    assert ucb < 0.05 * regret["Random"]
    assert pie < 0.9 * ucb


@pytest.mark.slow
def test_pbm_that_forgets_when_the_world_changes(pbm):
    policies = [f"{name}:examination=[1;0.5;0.25]" for name in ("PBMUCB", "PBMPIE", "PBMDUCB", "PBMSWPIE")]
    regret = regrets(Abrupt(QUERIES, k=3, period=6000, click_model=pbm), *policies)
    stays_ucb, stays_pie, discounted, windowed = (regret[policy] for policy in policies)
    assert discounted < 0.7 * stays_ucb
    assert windowed < 0.7 * stays_pie
    assert max(discounted, windowed) < 0.3 * regret["Random"]
