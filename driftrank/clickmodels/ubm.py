"""UBM: the user browsing model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from driftrank.clickmodels.base import PREVIOUS, ClickModel
from driftrank.clickmodels.best_list.branch_and_bound import searched_optimum
from driftrank.clickmodels.best_list.by_position import missed_value, placed_optimum
from driftrank.clickmodels.fitting.counts import PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions, Numbers
from driftrank.clickmodels.fitting.examination_em import fit_examination
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform

#: fitted to the Yandex log: by rank, then by the rank of the last click above it; at the end without one
YANDEX = (
    (0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 1.000),
    (0.990, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.885),
    (0.461, 1.000, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.523),
    (0.249, 0.659, 1.000, 0.200, 0.200, 0.200, 0.200, 0.200, 0.200, 0.356),
    (0.150, 0.384, 0.713, 1.000, 0.200, 0.200, 0.200, 0.200, 0.200, 0.243),
    (0.101, 0.257, 0.459, 0.762, 1.000, 0.200, 0.200, 0.200, 0.200, 0.188),
    (0.072, 0.176, 0.292, 0.488, 0.782, 1.000, 0.200, 0.200, 0.200, 0.156),
    (0.054, 0.121, 0.207, 0.317, 0.517, 0.792, 0.999, 0.200, 0.200, 0.117),
    (0.039, 0.090, 0.160, 0.244, 0.380, 0.573, 0.873, 0.999, 0.200, 0.097),
    (0.035, 0.084, 0.131, 0.200, 0.304, 0.449, 0.669, 0.961, 1.000, 0.094),
)


@kernel
def _ranks(m):
    """The number of ranks of the table."""
    return np.int64(np.sqrt(m.shape[0]) + 0.5)


@kernel
def _unclicked(m, k, K):
    """The probability that rank ``k`` is read if nothing above it was clicked."""
    return m[k * _ranks(m)]


@kernel
def _fill_marginals(m, alpha, items, out):
    """The probability of a click at every position: the sum over the ranks of the last click above it."""
    n = items.shape[0]
    K = _ranks(m)
    for k in range(n):
        a = items[k]
        total = 0.0
        later = 1.0  # the probability that the last click above k was at j (0: none)
        for j in range(k + 1):  # 0: no click; else the click was at position j - 1
            later = 1.0 if j == 0 else out[j - 1]
            for i in range(j, k):
                later *= 1.0 - m[i * K + j] * alpha[items[i]]
            total += later * m[k * K + j]
        out[k] = total * alpha[a]


@kernel
def _clicks(m, alpha, items, work):
    _fill_marginals(m, alpha, items, work)
    total = 0.0
    for k in range(items.shape[0]):
        total += work[k]
    return total


_any = missed_value(_unclicked)


class UBM(ClickModel):
    r"""The user browsing model: the probability to read rank k depends on k and on the rank of the last click above
    (Dupret and Piwowarski, 2008).

    Objectives: ``"clicks"``, for which no order of the items is best in general and the list is searched for
    (:func:`~driftrank.clickmodels.best_list.branch_and_bound.searched_optimum`); ``"any"``, best with the k-th
    most attractive item at the rank that users without a click are k-th most likely to read.

    Parameters
    ----------
    examination
        By rank, then by the rank of the last click above it; the last number of a row is for no click above. By
        default fitted to the Yandex log, for lists of up to 10.

    >>> UBM(examination=((0, 0.5), (0, 1))).best([0.1, 0.9, 0.5], 2)
    [2, 1]
    """

    reads_down: ClassVar[bool] = False
    statistics: ClassVar[str] = "positions"
    shape: ClassVar[Mapping[str, str]] = {"examination": PREVIOUS}
    first: ClassVar[float] = 0.0  # the belief: the rank of the last click, from 1

    objective: str = "clicks"
    examination: float | tuple[tuple[float, ...], ...] = YANDEX

    values = {"any": _any, "clicks": _clicks}
    optima = {"any": placed_optimum(_unclicked, _any), "clicks": searched_optimum(_clicks)}

    @staticmethod
    @kernel
    def click(m, alpha, key, items, clicks):
        K = _ranks(m)
        total = 0
        last = 0
        for k in range(items.shape[0]):
            a = items[k]
            clicks[k] = 0
            if uniform(derive(key, a)) < m[k * K + last] * alpha[a]:
                clicks[k] = 1
                total += 1
                last = k + 1
        return total

    @staticmethod
    @kernel
    def chance(m, alpha, k, a, b):
        return m[k * _ranks(m) + np.int64(b)] * alpha[a]

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return k + 1.0 if clicked else b

    @staticmethod
    @kernel
    def marginals(m, alpha, items, out, work):
        _fill_marginals(m, alpha, items, out)

    @classmethod
    def estimate(cls, counts: PositionCounts, options: FitOptions) -> Fit:
        """EM (:mod:`driftrank.clickmodels.fitting.examination_em`). Only products of attraction and examination
        can be identified, so the first rank is certainly read. Impossible cells, with the last click below, have the
        mean of the prior."""
        k = counts.k
        below, above = np.tril_indices(k)  # rank r, from 0, after a click at rank p, from 1; p = 0: none
        rank = counts.rank.astype(np.int64) - 1

        def table(cells: Numbers, unknown: float) -> Numbers:
            full = np.full((len(cells), k, k), unknown)
            full[:, below, above - 1] = cells  # p = 0 goes to the end
            return full

        return fit_examination(cls, counts, rank * (rank + 1) // 2 + counts.previous, len(below), table, options)
