"""The cascade doubly robust estimator as published (Kiyohara et al., WSDM 2022), for comparison."""

from __future__ import annotations

import numpy as np

from driftrank.evaluation.base import Batch, Floats, MeanEstimator


class PublishedCascadeDR(MeanEstimator):
    r"""Conditions on the items above but not on their clicks, and so continues after the first one:

    .. math:: \psi = \sum_k W_k (c_k - Q_k) + W_{k-1} \mathrm E_e Q_k,

    where :math:`Q_k` is the model's chance of a first click at k or below, given the first k items. Has the same mean
    as :class:`CascadeDR`, and more variance: by 7% in the world of the tests.
    """

    key = "published"
    assumes = "A1"

    def rows(self, batch: Batch) -> Floats:
        keep = 1 - batch.hazard
        above = np.cumprod(np.column_stack([np.ones(len(keep)), keep]), axis=1)[:, :-1]  # no click above k
        click = above * (1 - keep * batch.rest[:, 1:])
        expected = above * (1 - batch.rest[:, :-1])
        terms = batch.weight[:, 1:] * (batch.first_clicks - click) + batch.weight[:, :-1] * expected
        psi: Floats = terms.sum(axis=1)
        return psi
