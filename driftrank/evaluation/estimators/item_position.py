"""Inverse propensities of items at positions, for logs whose propensities are marginal."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from driftrank.evaluation.base import OBJECTIVES, Batch, Floats, MeanEstimator


class ItemPositionIPS(MeanEstimator):
    r"""The mean over lists of their clicks, each times the ratio of the probabilities of its item at its position,
    target over logging:

    .. math:: \psi = \sum_k \frac{P_e(a_k \text{ at } k)}{P_0(a_k \text{ at } k)} C_k.

    Right if a click depends on the item and its position only (PBM), and wrong for users who stop reading: by .10 of
    .65 in the world of the tests. For the objective "any" only the first click counts, which also depends on the items
    above unless no list has two clicks.
    """

    key = "item-position"
    assumes = "A2"
    objectives: ClassVar[tuple[str, ...]] = OBJECTIVES
    places: ClassVar[bool] = True

    def rows(self, batch: Batch) -> Floats:
        if batch.place is None:
            return np.full(len(batch.first), np.nan)
        clicks = batch.clicked if batch.objective == "clicks" else batch.first_clicks
        weighted: Floats = (batch.place * clicks).sum(axis=1)
        return weighted
