"""PBM: the position-based model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from driftrank.clickmodels.base import RANK, ClickModel
from driftrank.clickmodels.best_list.by_position import missed_value, placed_optimum
from driftrank.clickmodels.fitting.counts import PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.examination_em import fit_examination
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform

#: fitted to the Yandex log
YANDEX = (1.0, 0.959, 0.761, 0.592, 0.457, 0.386, 0.331, 0.284, 0.262, 0.267)


@kernel
def _examination(m, k, K):
    return m[k]


@kernel
def _clicks(m, alpha, items, work):
    total = 0.0
    for k in range(items.shape[0]):
        total += m[k] * alpha[items[k]]
    return total


_any = missed_value(_examination)


class PBM(ClickModel):
    r"""The position-based model: position k is read with probability :math:`\kappa_k`, independently of the
    others, and an item that is read and attracts is clicked (Richardson, Dominowska and Ragno, 2007).

    Objectives: ``"clicks"``, :math:`\sum_k \kappa_k \alpha(R_k)`, and ``"any"``; both are best with the k-th most
    attractive item at the k-th largest :math:`\kappa`.

    Parameters
    ----------
    examination
        :math:`\kappa`, by rank; by default fitted to the Yandex log, for lists of up to 10.

    >>> PBM(examination=(0.5, 1)).best([0.1, 0.9, 0.5], 2)
    [2, 1]
    """

    statistics: ClassVar[str] = "positions"
    needs_lists: ClassVar[bool] = False
    reads_down: ClassVar[bool] = False
    shape: ClassVar[Mapping[str, str]] = {"examination": RANK}

    objective: str = "clicks"
    examination: float | tuple[float, ...] = YANDEX

    values = {"any": _any, "clicks": _clicks}
    optima = {"any": placed_optimum(_examination, _any), "clicks": placed_optimum(_examination, _clicks)}

    @staticmethod
    @kernel
    def click(m, alpha, key, items, clicks):
        total = 0
        for k in range(items.shape[0]):
            a = items[k]
            clicks[k] = 1 if uniform(derive(key, a)) < m[k] * alpha[a] else 0
            total += clicks[k]
        return total

    @staticmethod
    @kernel
    def chance(m, alpha, k, a, b):
        return m[k] * alpha[a]

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return b

    @staticmethod
    @kernel
    def marginals(m, alpha, items, out, work):
        for k in range(items.shape[0]):
            out[k] = m[k] * alpha[items[k]]

    @classmethod
    def estimate(cls, counts: PositionCounts, options: FitOptions) -> Fit:
        r"""EM (:mod:`driftrank.clickmodels.fitting.examination_em`). Only products of attraction and examination
        can be identified, so :math:`\kappa_1 = 1`."""
        rank = counts.rank.astype(np.int64) - 1
        return fit_examination(cls, counts, rank, counts.k, lambda kappa, unknown: kappa, options)
