"""DCM: the dependent click model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from driftrank.clickmodels.base import RANK, ClickModel
from driftrank.clickmodels.best_list.branch_and_bound import searched_optimum
from driftrank.clickmodels.best_list.by_position import missed_value, placed_optimum
from driftrank.clickmodels.best_list.chain import chain_marginals, chance_if_read, reading_user, still_reading
from driftrank.clickmodels.cm import any_click, best_for_any_click
from driftrank.clickmodels.fitting.cascade_em import fit_cascade
from driftrank.clickmodels.fitting.counts import ListCounts, PositionCounts
from driftrank.clickmodels.fitting.e_step import HiddenKernels, count_read
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.ratios import RatioCounts, by_pair, by_rank, fit_ratios
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform

#: fitted to the Yandex log
YANDEX = (0.656, 0.487, 0.461, 0.463, 0.456, 0.471, 0.503, 0.548, 0.654, 1.0)


@kernel
def _stop(m, k, K):
    return m[k]


@kernel
def _go_on(m, alpha, k, a):
    return 1.0 - m[k] * alpha[a]


@kernel
def _clicks(m, alpha, items, work):
    total = 0.0
    reading = 1.0
    for k in range(items.shape[0]):
        total += reading * alpha[items[k]]
        reading *= 1.0 - m[k] * alpha[items[k]]
    return total


_satisfied = missed_value(_stop)


@kernel
def _read_on(x, g, k):
    return 1.0, 1.0 - g[k]


@kernel
def _click_counts(x, g, k, on, off, x_num, x_den, g_num, g_den):
    x_num[0] += 1.0
    x_den[0] += 1.0
    g_num[k] += off
    g_den[k] += on + off


@kernel
def _reads_on(m, alpha, k, a, own, clicked):
    return not clicked or uniform(derive(own, 1)) >= m[k]


class DCM(ClickModel):
    r"""The dependent click model: after a click at rank k users leave with probability :math:`v_k`, otherwise they
    read on (Guo, Liu and Wang, 2009).

    Objectives: ``"sat"``, the probability to leave after a click, :math:`1 - \prod_k (1 - v_k \alpha(R_k))`, best with
    the k-th most attractive item at the k-th largest v; ``"any"``, as in the cascade model; ``"clicks"``, for which no
    order of the items is best in general and the list is searched for
    (:func:`~driftrank.clickmodels.best_list.branch_and_bound.searched_optimum`).

    Parameters
    ----------
    stop_after_click
        v, by rank; by default fitted to the Yandex log, for lists of up to 10.

    >>> DCM(stop_after_click=(0.2, 0.6)).best([0.1, 0.9, 0.5], 2)
    [2, 1]
    """

    statistics: ClassVar[str] = "ratios"
    exact_statistics: ClassVar[str] = "lists"
    shape: ClassVar[Mapping[str, str]] = {"stop_after_click": RANK}

    objective: str = "sat"
    stop_after_click: float | tuple[float, ...] = YANDEX

    values = {"any": any_click, "clicks": _clicks, "sat": _satisfied}
    optima = {
        "any": best_for_any_click,
        "clicks": searched_optimum(_clicks),
        "sat": placed_optimum(_stop, _satisfied),
    }
    click = staticmethod(reading_user(_reads_on))
    chance = staticmethod(chance_if_read)
    marginals = staticmethod(chain_marginals(_go_on))

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return 1.0 - m[k] if clicked else still_reading(alpha[a], b)

    @classmethod
    def estimate(cls, counts: PositionCounts | ListCounts, options: FitOptions) -> Fit:
        r"""From lists by EM. From positions in closed form (Guo, Liu and Wang, 2009), assuming that nobody reads on
        after the last click: :math:`\alpha` is clicks over views down to it, :math:`v_k` last clicks over clicks."""
        if isinstance(counts, ListCounts):
            return fit_cascade(cls, HiddenKernels(_read_on, _click_counts, count_read), counts, options)
        clicks, last = (by_rank(counts, n, options.per_query) for n in (counts.clicks, counts.last_clicks))
        attraction = RatioCounts(by_pair(counts, counts.clicks), by_pair(counts, counts.examined))
        return fit_ratios(
            cls, counts, {"attraction": attraction, "stop_after_click": RatioCounts(last, clicks)}, options
        )
