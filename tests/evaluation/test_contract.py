"""Every estimator keeps the contract, and the contract notices one that does not."""

from __future__ import annotations

import numpy as np
import pytest

from driftrank.evaluation.base import Batch, Estimator, Floats, MeanEstimator, known_estimators
from driftrank.evaluation.contract import check_estimator


@pytest.mark.parametrize("key", known_estimators())
def test_contract(key: str) -> None:
    check_estimator(known_estimators()[key])


class _Clipped(MeanEstimator):
    key, assumes = "clipped", "A1"

    def rows(self, batch: Batch) -> Floats:
        return (np.minimum(batch.weight[:, 1:], 2) * batch.first_clicks).sum(axis=1)


class _PrefixForAll(MeanEstimator):
    """Claims to assume nothing about users."""

    key, assumes = "prefix-for-all", "A0"

    def rows(self, batch: Batch) -> Floats:
        return (batch.weight[:, 1:] * batch.first_clicks).sum(axis=1)


class _CountsRows(MeanEstimator):
    """Right for rows of one list."""

    key, assumes = "rows", "A1"

    def rows(self, batch: Batch) -> Floats:
        corrections = batch.read * batch.weight[:, 1:] * (batch.first_clicks - batch.hazard) * batch.rest[:, 1:]
        return 1 - batch.rest[:, 0] + corrections.sum(axis=1)


class _Sum(Estimator):
    """A sum instead of a mean."""

    key, assumes = "sum", "A0"

    def columns(self, batch: Batch) -> Floats:
        return (batch.weight[:, -1] * batch.reward)[:, None]

    def value(self, totals: Floats, lists: Floats) -> Floats:
        return totals[..., 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_Clipped(), r"_Clipped: .* instead of"),
        (_PrefixForAll(), "choice users"),
        (_CountsRows(), "must add up over the lists of a row"),
        (_Sum(), "must not depend on the number of lists"),
    ],
)
def test_wrong_estimators_are_noticed(wrong: Estimator, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_estimator(wrong)
