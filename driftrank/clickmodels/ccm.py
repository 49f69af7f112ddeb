"""CCM: the click chain model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from driftrank.clickmodels.base import ONE, ClickModel
from driftrank.clickmodels.best_list.chain import (
    attraction_of,
    chain_marginals,
    chain_optimum,
    chain_value,
    chance_if_read,
    reading_user,
    still_reading,
    unclicked,
)
from driftrank.clickmodels.fitting.cascade_em import fit_cascade
from driftrank.clickmodels.fitting.counts import ListCounts
from driftrank.clickmodels.fitting.e_step import HiddenKernels
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform


@kernel
def _goes_on_clicked(m, alpha, a):
    """After a click: the item is relevant with the probability of its attraction."""
    return m[1] * (1.0 - alpha[a]) + m[2] * alpha[a]


@kernel
def _goes_on(m, alpha, k, a):
    return m[0] * (1.0 - alpha[a]) + alpha[a] * _goes_on_clicked(m, alpha, a)


@kernel
def _read_on(x, g, k):
    return g[0], g[1] * (1.0 - x[0]) + g[2] * x[0]


@kernel
def _click_counts(x, g, k, on, off, x_num, x_den, g_num, g_den):
    x_num[0] += 1.0
    x_den[0] += 1.0
    if on + off > 0.0:
        go_on = g[1] * (1.0 - x[0]) + g[2] * x[0]
        relevant_on = on * x[0] * g[2] / go_on
        relevant = relevant_on + off * x[0] * (1.0 - g[2]) / (1.0 - go_on)
        x_num[0] += relevant  # the click is one observation of attraction, the relevance a second
        x_den[0] += 1.0
        g_num[1] += on - relevant_on
        g_den[1] += 1.0 - relevant
        g_num[2] += relevant_on
        g_den[2] += relevant


@kernel
def _skip_counts(x, g, k, read, on, off, x_num, x_den, g_num, g_den):
    x_den[0] += read
    g_num[0] += on
    g_den[0] += on + off


@kernel
def _reads_on(m, alpha, k, a, own, clicked):
    chance = m[0]
    if clicked:
        chance = m[2] if uniform(derive(own, 1)) < alpha[a] else m[1]
    return uniform(derive(own, 2)) < chance


class CCM(ClickModel):
    r"""The click chain model: users read on with probability :math:`\tau_1` after an item that they did not click,
    :math:`\tau_2` after a click on one that is not relevant, :math:`\tau_3` after a relevant one; an item is relevant
    with the probability of its attraction (Guo et al., 2009).

    Objectives: ``"clicks"``, best by a dynamic program (:mod:`driftrank.clickmodels.best_list.chain`), and ``"any"``,
    best with the most attractive items in decreasing order.

    Parameters
    ----------
    continue_no_click, continue_click_not_relevant, continue_click_relevant
        :math:`\tau_1, \tau_2, \tau_3`; the last two are fitted to the Yandex log, rounded.

    >>> CCM().best([0.1, 0.9, 0.5], 2)
    [2, 1]
    """

    statistics: ClassVar[str] = "lists"
    shape: ClassVar[Mapping[str, str]] = {
        "continue_no_click": ONE,
        "continue_click_not_relevant": ONE,
        "continue_click_relevant": ONE,
    }

    objective: str = "clicks"
    continue_no_click: float = 0.9
    continue_click_not_relevant: float = 0.94
    continue_click_relevant: float = 0.0

    values = {"any": chain_value(attraction_of, unclicked), "clicks": chain_value(attraction_of, _goes_on)}
    optima = {"any": chain_optimum(attraction_of, unclicked), "clicks": chain_optimum(attraction_of, _goes_on)}
    click = staticmethod(reading_user(_reads_on))
    chance = staticmethod(chance_if_read)
    marginals = staticmethod(chain_marginals(_goes_on))

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return _goes_on_clicked(m, alpha, a) if clicked else m[0] * still_reading(alpha[a], b)

    @classmethod
    def estimate(cls, counts: ListCounts, options: FitOptions) -> Fit:
        """EM over whole lists; hidden are how far the list was read and which clicked items were relevant."""
        return fit_cascade(cls, HiddenKernels(_read_on, _click_counts, _skip_counts), counts, options)
