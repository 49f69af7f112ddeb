"""DBN: the dynamic Bayesian network model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from driftrank.clickmodels.base import ITEM, ONE, ClickModel
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
def _satisfaction(m, alpha, a):
    return alpha[a] * m[1 + a]


@kernel
def _goes_on(m, alpha, k, a):
    return m[0] * (1.0 - alpha[a] * m[1 + a])


@kernel
def _read_on(x, g, k):
    return g[0], g[0] * (1.0 - x[1])


@kernel
def _click_counts(x, g, k, on, off, x_num, x_den, g_num, g_den):
    x_num[0] += 1.0
    x_den[0] += 1.0
    if on + off > 0.0:
        satisfied = off * x[1] / (1.0 - g[0] * (1.0 - x[1]))  # users who leave are satisfied, or leave unsatisfied
        x_num[1] += satisfied
        x_den[1] += 1.0
        g_num[0] += on
        g_den[0] += 1.0 - satisfied


@kernel
def _skip_counts(x, g, k, read, on, off, x_num, x_den, g_num, g_den):
    x_den[0] += read
    g_num[0] += on
    g_den[0] += on + off


@kernel
def _reads_on(m, alpha, k, a, own, clicked):
    satisfied = clicked and uniform(derive(own, 1)) < m[1 + a]
    return not satisfied and uniform(derive(own, 2)) < m[0]


class DBN(ClickModel):
    r"""The dynamic Bayesian network: a click satisfies the user with the item's own probability s, who then leaves; an
    unsatisfied user reads on with probability :math:`\gamma` (Chapelle and Zhang, 2009).

    Objectives: ``"sat"``, the probability that the user leaves satisfied, best with the items of largest
    :math:`\alpha s` in decreasing order; ``"any"``, best with the most attractive items in decreasing order;
    ``"clicks"``, best by a dynamic program (:mod:`driftrank.clickmodels.best_list.chain`).

    Parameters
    ----------
    satisfaction
        s of every item; 0.15 is the mean in the Yandex log.
    continuation
        :math:`\gamma`.

    >>> DBN(satisfaction=(1, 0, 0), continuation=1, objective="clicks").best([0.9, 0.5, 0.45], 2)
    [1, 0]
    """

    statistics: ClassVar[str] = "lists"
    shape: ClassVar[Mapping[str, str]] = {"satisfaction": ITEM, "continuation": ONE}

    objective: str = "sat"
    satisfaction: float | tuple[float, ...] = 0.15
    continuation: float = 0.9

    values = {
        "any": chain_value(attraction_of, unclicked),
        "clicks": chain_value(attraction_of, _goes_on),
        "sat": chain_value(_satisfaction, _goes_on),
    }
    optima = {
        "any": chain_optimum(attraction_of, unclicked),
        "clicks": chain_optimum(attraction_of, _goes_on),
        "sat": chain_optimum(_satisfaction, _goes_on),
    }
    click = staticmethod(reading_user(_reads_on))
    chance = staticmethod(chance_if_read)
    marginals = staticmethod(chain_marginals(_goes_on))

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return m[0] * (1.0 - m[1 + a] if clicked else still_reading(alpha[a], b))

    @classmethod
    def estimate(cls, counts: ListCounts, options: FitOptions) -> Fit:
        """EM over whole lists; hidden are how far the list was read and whether the last click satisfied."""
        return fit_cascade(cls, HiddenKernels(_read_on, _click_counts, _skip_counts), counts, options)
