"""The cascade doubly robust estimator that stops at the first click: the default."""

from __future__ import annotations

from driftrank.evaluation.base import Batch, Floats, MeanEstimator


class CascadeDR(MeanEstimator):
    r"""The value by a click model, corrected by what users did as long as they had not clicked:

    .. math:: \psi = 1 - S_1 + \sum_{k \le \min(f, K)} W_k (c_k - h_k) S_{k+1},

    where :math:`h_k` is the model's chance of a click at k if there was none above, and :math:`S_{k+1}` its chance
    that the rest of the target's list gets none. Unbiased whatever the model if the propensities are right and users
    read from the top; with the true model its variance is that of the product-limit estimator, the least possible.
    """

    key = "dr"
    assumes = "A1"

    def rows(self, batch: Batch) -> Floats:
        surprise = batch.first_clicks - batch.hazard
        corrections = batch.read * batch.weight[:, 1:] * surprise * batch.rest[:, 1:]
        psi: Floats = batch.lists * (1 - batch.rest[:, 0]) + corrections.sum(axis=1)
        return psi
