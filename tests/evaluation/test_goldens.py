"""Bias and root mean square error over many logs of the world of six items, next to those of an independent program.

The figures are of 400 logs of 5,000 lists; 60 logs here, so errors have an error of 9%.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from driftrank.evaluation.base import Batch, known_estimators, prefix_weights, target_rest
from driftrank.evaluation.labels import PRIOR
from tests.evaluation.worlds import (
    BEST,
    LISTS,
    QUERIES,
    Drawn,
    K,
    L,
    Users,
    cascade,
    choice,
    draw,
    mixed,
    softmax,
    uniform,
    value,
)

LOGS, N = 60, 5000
TARGET = np.array([BEST[query] for query in QUERIES])


def batch(drawn: Drawn) -> Batch:
    """The rows of the best lists, with hazards from every other row."""
    items = LISTS[drawn.number]
    read = drawn.first[:, None] >= np.arange(1, K + 1)
    clicked = drawn.first[:, None] == np.arange(1, K + 1)
    cell = (np.arange(N) % 2)[:, None] * 2 * L + drawn.query[:, None] * L + items
    looks, clicks = (np.bincount(cell[read], x[read], 4 * L).reshape(2, 2, L) for x in (np.ones((N, K)), clicked))
    alpha = (clicks[::-1] + PRIOR[0]) / (looks[::-1] + PRIOR[1])  # of the other half
    wanted = TARGET[drawn.query]
    hazard = alpha[(np.arange(N) % 2)[:, None], drawn.query[:, None], wanted]
    matched = np.cumprod(items == wanted, axis=1).sum(axis=1)
    weight = prefix_weights(matched, np.full(N, K), drawn.propensities)
    pooled = clicks.sum(axis=0) / looks.sum(axis=0)
    model = 1 - np.prod(1 - pooled[drawn.query[:, None], wanted], axis=1)
    return Batch(drawn.first, weight, hazard, target_rest(hazard), model, clicked)


GOLDEN: list[tuple[Users, Callable[[int], np.ndarray], dict[str, tuple[float, float]]]] = [
    (cascade, uniform, {"list": (0.016, 0.138), "self-normalised": (0.005, 0.077), "prefix": (0.002, 0.061),
                        "product-limit": (0.003, 0.048), "published": (0.002, 0.052), "dr": (0.003, 0.047),
                        "direct": (0.0, 0.009)}),
    (cascade, softmax, {"list": (-0.003, 0.036), "self-normalised": (-0.001, 0.021), "prefix": (-0.002, 0.020),
                        "product-limit": (0.0, 0.016), "published": (0.0, 0.017), "dr": (-0.001, 0.016),
                        "direct": (0.0, 0.007)}),
    (mixed, softmax, {"list": (-0.003, 0.035), "prefix": (-0.001, 0.019), "dr": (0.0, 0.016),
                      "direct": (0.021, 0.022)}),
    (choice, softmax, {"list": (-0.003, 0.034), "prefix": (0.025, 0.033), "dr": (0.020, 0.027),
                       "direct": (0.002, 0.008)}),
]  # fmt: skip


@pytest.mark.parametrize(("users", "logging", "expected"), GOLDEN, ids=lambda x: getattr(x, "__name__", ""))
def test_bias_and_error(
    users: Users, logging: Callable[[int], np.ndarray], expected: dict[str, tuple[float, float]]
) -> None:
    rng = np.random.default_rng(12)
    errors: dict[str, list[float]] = {key: [] for key in expected}
    for _ in range(LOGS):
        rows = batch(draw(rng, N, logging, users))
        for key in expected:
            estimator = known_estimators()[key]
            found = estimator.value(estimator.columns(rows).sum(axis=0), np.array(float(N)))
            errors[key].append(float(found) - value(users))
    for key, (bias, rmse) in expected.items():
        found = np.array(errors[key])
        noise = max(found.std(), 0.002)
        assert found.mean() == pytest.approx(bias, abs=4 * noise / np.sqrt(LOGS)), key
        assert np.sqrt((found**2).mean()) == pytest.approx(rmse, rel=0.25, abs=0.002), key
