"""Kveton's table for the stationary problem B_LB (Kveton et al., 2015, tables 1 and 2), within 6%."""

from __future__ import annotations

import pytest

import driftrank as dr
from tests.quick import others_are_slow

# L, K, delta, order: printed regret of CascadeUCB1 and CascadeKLUCB after 100,000 steps
TABLE = [
    (16, 2, 0.15, "decreasing", 1290.1, 357.9),
    (16, 8, 0.15, "decreasing", 574.8, 149.1),
    (16, 4, 0.075, "decreasing", 1520.4, 538.5),
    (16, 8, 0.15, "increasing", 181.4, 60.4),
]


@pytest.mark.parametrize(("L", "K", "delta", "order", "ucb1", "klucb"), others_are_slow(TABLE, TABLE[:1]))
def test_kveton(L: int, K: int, delta: float, order: str, ucb1: float, klucb: float) -> None:
    env = dr.environments.BLB(L=L, K=K, p=0.2, delta=delta)
    policies = [dr.CascadeUCB1(order=order), dr.CascadeKLUCB(order=order)]
    result = dr.simulate(policies, env, horizon=100_000, runs=20, progress=False)
    assert result.regret("CascadeUCB1") == pytest.approx(ucb1, rel=0.06)
    assert result.regret("CascadeKLUCB") == pytest.approx(klucb, rel=0.06)
