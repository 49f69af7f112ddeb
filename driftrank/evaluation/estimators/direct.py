"""The direct method: the value by a click model alone."""

from __future__ import annotations

from typing import ClassVar

from driftrank.evaluation.base import Batch, Floats, MeanEstimator


class DirectMethod(MeanEstimator):
    """The mean over lists of the target's value by the fitted click model; needs no propensities.

    An item's clicks count wherever it stood, so the error is small, if the model is right. The sums show the mix of
    queries only: the error of the fit is added by :func:`driftrank.evaluation.labels.fit_variance`.
    """

    key = "direct"
    assumes = "A3"
    weighs: ClassVar[bool] = False

    def rows(self, batch: Batch) -> Floats:
        value: Floats = batch.lists * batch.model
        return value
