"""Inverse propensities of whole lists: unbiased for all users, and noisy."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from driftrank.evaluation.base import OBJECTIVES, Batch, Estimator, Floats, MeanEstimator


class ListIPS(MeanEstimator):
    r"""The mean of :math:`W_K r`: the reward of a list times the ratio of its probabilities, target over logging."""

    key = "list"
    assumes = "A0"
    objectives: ClassVar[tuple[str, ...]] = OBJECTIVES

    def rows(self, batch: Batch) -> Floats:
        weighted: Floats = batch.weight[:, -1] * batch.reward
        return weighted


class SelfNormalisedIPS(Estimator):
    r"""The weighted mean :math:`\sum W_K r / \sum W_K`; its bias vanishes with the number of lists."""

    key = "self-normalised"
    assumes = "A0"
    objectives: ClassVar[tuple[str, ...]] = OBJECTIVES

    def columns(self, batch: Batch) -> Floats:
        return np.column_stack([batch.weight[:, -1] * batch.reward, batch.weight[:, -1]])

    def value(self, totals: Floats, lists: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return totals[..., 0] / totals[..., 1]
