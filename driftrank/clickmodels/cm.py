"""CM: the cascade model."""

from __future__ import annotations

from typing import ClassVar

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.best_list.by_position import most_attractive
from driftrank.clickmodels.best_list.chain import chain_marginals, chance_if_read, still_reading
from driftrank.clickmodels.fitting.counts import PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.ratios import RatioCounts, by_pair, fit_ratios
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform


@kernel
def _not_attracted(m, alpha, k, a):
    return 1.0 - alpha[a]


@kernel
def any_click(m, alpha, items, work):
    """The probability of a click if everything is read down to the first one."""
    missed = 1.0
    for i in range(items.shape[0]):
        missed *= 1.0 - alpha[items[i]]
    return 1.0 - missed


@kernel
def best_for_any_click(m, alpha, best, work):
    most_attractive(alpha, best)
    missed = 1.0
    for i in range(best.shape[0]):
        missed *= 1.0 - alpha[best[i]]
    return 1.0 - missed


def _click(m, alpha, key, items, clicks):
    # each item has its own random key, so that whether it attracts this user does not depend on the list
    n = items.shape[0]
    i = 0
    clicked = 0
    while i < n and clicked == 0:
        a = items[i]
        clicked = 1 if uniform(derive(key, a)) < alpha[a] else 0
        clicks[i] = clicked
        i += 1
    while i < n:
        clicks[i] = 0
        i += 1
    return clicked


def _click_of_all(m, alpha, key, items, clicks):
    # the same without an early exit, for GPUs
    clicked = 0
    for i in range(items.shape[0]):
        a = items[i]
        now = 1 if clicked == 0 and uniform(derive(key, a)) < alpha[a] else 0
        clicks[i] = now
        clicked += now
    return clicked


class CM(ClickModel):
    r"""The cascade model: users read from the top, click the first item that attracts them, and leave (Craswell et
    al., 2008).

    The reward of a list is the probability of a click, :math:`1 - \prod_k (1 - \alpha(R(k)))` (eq. 1 in expectation),
    for every objective. It does not depend on the order: the K most attractive items in any order are a best list.

    >>> CM().best([0.1, 0.9, 0.5], 2)
    [1, 2]
    """

    statistics: ClassVar[str] = "ratios"
    values = {"any": any_click, "clicks": any_click, "sat": any_click}
    optima = {"any": best_for_any_click, "clicks": best_for_any_click, "sat": best_for_any_click}
    chance = staticmethod(chance_if_read)
    marginals = staticmethod(chain_marginals(_not_attracted))

    click = staticmethod(kernel(_click, on_gpu=_click_of_all))

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return 0.0 if clicked else still_reading(alpha[a], b)

    @classmethod
    def estimate(cls, counts: PositionCounts, options: FitOptions) -> Fit:
        """Clicks over views, counted down to the first click of every list."""
        read = counts.previous == 0
        clicks, views = by_pair(counts, counts.clicks * read), by_pair(counts, counts.views * read)
        return fit_ratios(cls, counts, {"attraction": RatioCounts(clicks, views)}, options)
