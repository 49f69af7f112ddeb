"""Logs of a softmax policy that learns: bias, error, coverage and refusals of a fixed list and of a learner in its
shadow, next to those of an independent program (1,000 logs; 200 here).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from driftrank.evaluation.base import Batch, known_estimators, prefix_weights, target_rest
from driftrank.evaluation.cells import Cells
from driftrank.evaluation.checks import LogChecks
from driftrank.evaluation.estimate import How, Model, estimate
from driftrank.evaluation.sums import Sums
from tests.evaluation.worlds import ALPHA, CHANGED, K, L

LOGS, N = 200, 3000
TEMPERATURE, DISCOUNT = 0.1, 0.998
BEST = np.array([0, 1, 2])
CELLS = Cells(windows=1)


class Logs(NamedTuple):
    items: np.ndarray  #: (list, log, position)
    propensities: np.ndarray
    first: np.ndarray  #: (list, log)
    belief: np.ndarray  #: (list, log, item) attraction by discounted labels of earlier lists, with a prior
    shadow: np.ndarray  #: (list, log, position) the list of a greedy learner that has learnt from them
    alpha: np.ndarray  #: (list, item)


def logged(change: bool) -> Logs:
    rng = np.random.default_rng(6)
    alpha = np.where((np.arange(N) < (N // 2 if change else N))[:, None], ALPHA[0], CHANGED[0])
    looks, clicks, log = np.zeros((LOGS, L)), np.zeros((LOGS, L)), np.arange(LOGS)
    items, p = np.zeros((N, LOGS, K), int), np.zeros((N, LOGS, K))
    first, belief, shadow = np.full((N, LOGS), K + 1), np.zeros((N, LOGS, L)), np.zeros((N, LOGS, K), int)
    for t in range(N):
        mean = np.divide(clicks, looks, out=np.ones_like(looks), where=looks > 1e-9)
        belief[t] = (clicks + 0.5) / (looks + 2.0)
        shadow[t] = np.argsort(-mean, axis=1, kind="stable")[:, :K]
        weight = np.exp((mean - 1.0) / TEMPERATURE)
        looks, clicks = looks * DISCOUNT, clicks * DISCOUNT
        reading = np.ones(LOGS, bool)
        for k in range(K):
            chance = weight / weight.sum(axis=1, keepdims=True)
            shown = (np.cumsum(chance, axis=1) < rng.random(LOGS)[:, None]).sum(axis=1).clip(max=L - 1)
            items[t, :, k], p[t, :, k], weight[log, shown] = shown, chance[log, shown], 0.0
            click = reading & (rng.random(LOGS) < alpha[t, shown])
            looks[log, shown] += reading
            clicks[log, shown] += click
            first[t, click] = k + 1
            reading &= ~click
    return Logs(items, p, first, belief, shadow, alpha)


def outcomes(logs: Logs, target: np.ndarray, key: str) -> tuple[np.ndarray, float, float]:
    """Errors of all logs, the share of those not refused whose interval held, and the share refused."""
    value = 1 - np.prod(1 - np.take_along_axis(np.repeat(logs.alpha[:, None], LOGS, 1), target, axis=2), axis=2)
    estimator = known_estimators()[key]
    errors, held, refused = [], [], 0
    bucket = np.arange(N) % CELLS.buckets
    for n in range(LOGS):
        hazard = np.take_along_axis(logs.belief[:, n], target[:, n], axis=1)
        matched = np.cumprod(logs.items[:, n] == target[:, n], axis=1).sum(axis=1)
        weight = prefix_weights(matched, np.full(N, K), logs.propensities[:, n])
        first, rest = logs.first[:, n], target_rest(hazard)
        clicked = first[:, None] == np.arange(1, K + 1)
        cell = CELLS.number(np.zeros(N, bool), np.zeros(N, int), bucket)
        batch = Batch(first, weight, hazard, rest, 1 - rest[:, 0], clicked, "any", cell, np.zeros(N, int))
        scope = Sums.of([batch], {key: estimator}, CELLS, 1).scope(False)
        truth = value[:, n].mean()
        errors.append(scope.replicates(estimator).value - truth)
        found = estimate(scope, estimator, LogChecks(()), How(), Model(0.0, 1.0, (0.0, 1.0)))
        if found.interval != "normal" or found.low is None or found.high is None:
            refused += 1
        else:
            held.append(found.low <= truth <= found.high)
    return np.array(errors), float(np.mean(held)) if held else np.nan, refused / LOGS


@pytest.mark.slow
@pytest.mark.parametrize("change", [False, True])
def test_learners_that_log(change: bool) -> None:
    logs = logged(change)
    fixed = np.broadcast_to(BEST, (N, LOGS, K))
    #: target, estimator: root mean square error, coverage, share refused
    golden = {
        ("fixed", "prefix"): (0.254, None, 1.0) if change else (0.024, 0.957, 0.015),
        ("fixed", "dr"): (0.267, None, 1.0) if change else (0.018, 0.956, 0.015),
        ("shadow", "prefix"): (0.022, 0.964, 0.004) if change else (0.022, 0.957, 0.002),
        ("shadow", "dr"): (0.017, 0.948, 0.004) if change else (0.016, 0.950, 0.002),
    }
    for (target, key), (rmse, cover, refused) in golden.items():
        errors, covered, refusals = outcomes(logs, logs.shadow if target == "shadow" else fixed, key)
        assert refusals == pytest.approx(refused, abs=0.04), (target, key)
        if cover is None:  # the value is refused in every log: its tails are too heavy to be measured
            continue
        assert abs(errors.mean()) < 0.002 + 3 * rmse / np.sqrt(LOGS), (target, key)
        assert np.sqrt((errors**2).mean()) == pytest.approx(rmse, rel=0.2), (target, key)
        assert covered == pytest.approx(cover, abs=0.05), (target, key)
