"""SDBN: the simplified dynamic Bayesian network model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ITEM
from driftrank.clickmodels.dbn import DBN
from driftrank.clickmodels.fitting.cascade_em import fit_cascade
from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
from driftrank.clickmodels.fitting.e_step import HiddenKernels, count_read
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.ratios import RatioCounts, by_pair, fit_ratios
from driftrank.kernels import kernel


@kernel
def _read_on(x, g, k):
    return 1.0, 1.0 - x[1]


@kernel
def _click_counts(x, g, k, on, off, x_num, x_den, g_num, g_den):
    x_num[0] += 1.0
    x_den[0] += 1.0
    x_num[1] += off
    x_den[1] += on + off


class SDBN(DBN):
    r"""The simplified dynamic Bayesian network: :class:`DBN` in which only satisfied users leave,
    :math:`\gamma = 1` (Chapelle and Zhang, 2009).

    Every item above the last click has been read, which makes fitting easy. Objectives: ``"sat"``, best with the
    items of largest :math:`\alpha s`, in any order; ``"any"``, as in the cascade model; ``"clicks"``, by a dynamic
    program, items that satisfy less first.

    Parameters
    ----------
    satisfaction
        s of every item.

    >>> SDBN(satisfaction=(0.9, 0.1, 0.5)).best([0.5, 0.9, 0.6], 2)
    [0, 2]
    """

    statistics: ClassVar[str] = "ratios"
    exact_statistics: ClassVar[str] = "lists"
    shape: ClassVar[Mapping[str, str]] = {"satisfaction": ITEM}
    continuation: ClassVar[float] = 1.0  # type: ignore[misc]

    def row(self, L: int, K: int) -> NDArray[np.float64]:
        return np.append(1.0, super().row(L, K))

    @classmethod
    def estimate(cls, counts: PositionCounts | ListCounts, options: FitOptions) -> Fit:
        r"""From lists by EM. From positions in closed form (Chapelle and Zhang, 2009), assuming that nobody reads on
        after the last click: :math:`\alpha` is clicks over views down to the last click, s last clicks over clicks."""
        if isinstance(counts, ListCounts):
            return fit_cascade(cls, HiddenKernels(_read_on, _click_counts, count_read), counts, options)
        clicks, last = by_pair(counts, counts.clicks), by_pair(counts, counts.last_clicks)
        attraction = RatioCounts(clicks, by_pair(counts, counts.examined))
        return fit_ratios(cls, counts, {"attraction": attraction, "satisfaction": RatioCounts(last, clicks)}, options)
