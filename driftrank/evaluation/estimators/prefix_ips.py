"""Inverse propensities of prefixes (RIPS)."""

from __future__ import annotations

from typing import ClassVar

from driftrank.evaluation.base import OBJECTIVES, Batch, Floats, MeanEstimator


class PrefixIPS(MeanEstimator):
    r"""The mean of :math:`\sum_k W_k C_k` over clicks: only the items down to a click must be those of the target
    (reward interaction: Li et al., 2018; McInerney et al., 2020). For the objective "any" only the first click counts.
    """

    key = "prefix"
    assumes = "A1"
    objectives: ClassVar[tuple[str, ...]] = OBJECTIVES

    def rows(self, batch: Batch) -> Floats:
        clicks = batch.clicked if batch.objective == "clicks" else batch.first_clicks
        weighted: Floats = (batch.weight[:, 1:] * clicks).sum(axis=1)
        return weighted
