"""The product-limit estimator: Kaplan and Meier's, over positions."""

from __future__ import annotations

import numpy as np

from driftrank.evaluation.base import Batch, Estimator, Floats


class ProductLimit(Estimator):
    r"""One minus the product of :math:`1 - h_k`, where :math:`h_k` is the weighted share of clicks at k among the lists
    whose first k items are those of the target and that have no click above:

    .. math:: n_k = \sum W_k 1\{f \ge k\}, \quad d_k = \sum W_k 1\{f = k\}, \quad V = 1 - \prod_k (1 - d_k/n_k).

    Needs no model, and stays in [0, 1]. Too sure with fewer than 100 effective lists.
    """

    key = "product-limit"
    assumes = "A1"

    def columns(self, batch: Batch) -> Floats:
        weight = batch.weight[:, 1:]
        return np.hstack([weight * batch.read, weight * batch.first_clicks])

    def value(self, totals: Floats, lists: Floats) -> Floats:
        at_risk, clicks = np.split(totals, 2, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            value: Floats = 1 - np.prod(1 - clicks / at_risk, axis=-1)
        return value
