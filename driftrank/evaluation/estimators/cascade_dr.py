"""The cascade doubly robust estimator that stops at the first click: the default."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftrank.evaluation.base import Batch, Floats, MeanEstimator


@dataclass(frozen=True)
class CascadeDR(MeanEstimator):
    r"""The value by a click model, corrected by what users did as long as they had not clicked:

    .. math:: \psi = 1 - S_1 + \sum_{k \le \min(f, K)} W_k (c_k - h_k) S_{k+1},

    where :math:`h_k` is the model's chance of a click at k if there was none above, and :math:`S_{k+1}` its chance
    that the rest of the target's list gets none. Unbiased whatever the model if the propensities are right and users
    read from the top; with the true model its variance is that of the product-limit estimator, the least possible.

    ``clip`` leaves out corrections with a larger weight, so that the model stands in for them: less noise, and the
    model's error, which no interval has. For comparisons of estimators only.
    """

    key = "dr"
    assumes = "A1"

    clip: float = math.inf

    @property
    def name(self) -> str:
        return f"dr, clip {self.clip:g}" if self.clipped else self.key

    @property
    def clipped(self) -> bool:
        return self.clip < math.inf

    def columns(self, batch: Batch) -> Floats:
        if not self.clipped:
            return super().columns(batch)
        return np.column_stack([self.rows(batch), np.where(batch.stopped > self.clip, batch.stopped, 0.0)])

    def rows(self, batch: Batch) -> Floats:
        surprise = batch.first_clicks - batch.hazard
        weight = np.where(batch.weight[:, 1:] <= self.clip, batch.weight[:, 1:], 0.0)
        corrections = batch.read * weight * surprise * batch.rest[:, 1:]
        psi: Floats = batch.lists * (1 - batch.rest[:, 0]) + corrections.sum(axis=1)
        return psi
