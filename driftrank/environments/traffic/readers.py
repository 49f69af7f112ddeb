"""Readers: the users of Traffic, who may stop, overlook low positions, or click several times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from driftrank.clickmodels.base import ONE, RANK, ClickModel
from driftrank.clickmodels.best_list.by_position import most_attractive
from driftrank.clickmodels.best_list.chain import still_reading
from driftrank.kernels import kernel
from driftrank.kernels.rng import derive, uniform


@kernel
def _expected_clicks(m, alpha, items, work):
    total = 0.0
    reading = 1.0
    for k in range(items.shape[0]):
        x = m[2 + k] * alpha[items[k]]
        total += reading * x
        reading *= m[0] * (1.0 - x) + m[1] * x
    return total


@kernel
def _best(m, alpha, best, work):
    # exchanging two neighbours, or an item for a more attractive one, shows it if examination does not increase
    most_attractive(alpha, best)
    return _expected_clicks(m, alpha, best, work)


class Readers(ClickModel):
    r"""Users who read from the top: position k is examined with probability :math:`\kappa_k`; an item that is examined
    and attracts is clicked. They read on with probability ``going_on`` after no click, ``after_click`` after one.

    The value of a list is the expected number of clicks. With examination that does not increase, the most attractive
    items in decreasing order are best. Special cases, user by user: :class:`~driftrank.clickmodels.CM` by default,
    :class:`~driftrank.clickmodels.DBN` with satisfaction 1 and continuation ``going_on``, and
    :class:`~driftrank.clickmodels.PBM` with ``after_click=1``.

    >>> Readers(going_on=0.5).reward([0.5, 0.5], [0, 1])
    0.625
    """

    abstract: ClassVar[bool] = True  # not listed: Traffic makes it of its own parameters, and it cannot be fitted
    shape: ClassVar[Mapping[str, str]] = {"going_on": ONE, "after_click": ONE, "examination": RANK}

    objective: str = "clicks"
    going_on: float = 1.0
    after_click: float = 0.0
    examination: float | tuple[float, ...] = 1.0

    values = {"clicks": _expected_clicks}
    optima = {"clicks": _best}

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.examination, tuple) and (np.diff(self.examination) > 0).any():
            raise ValueError(f"examination={self.examination!r}: must not increase")

    @staticmethod
    @kernel
    def click(m, alpha, key, items, clicks):
        total = 0
        reading = True
        for k in range(items.shape[0]):
            a = items[k]
            clicks[k] = 0
            if reading:
                # each item has its own random key, so that whether it attracts this user does not depend on the list
                own = derive(key, a)
                clicks[k] = 1 if uniform(own) < m[2 + k] * alpha[a] else 0
                total += clicks[k]
                reading = uniform(derive(own, 2)) < m[1 if clicks[k] else 0]
        return total

    @staticmethod
    @kernel
    def chance(m, alpha, k, a, b):
        return b * m[2 + k] * alpha[a]

    @staticmethod
    @kernel
    def after(m, alpha, k, a, b, clicked):
        return m[1] if clicked else m[0] * still_reading(m[2 + k] * alpha[a], b)

    @staticmethod
    @kernel
    def marginals(m, alpha, items, out, work):
        reading = 1.0
        for k in range(items.shape[0]):
            x = m[2 + k] * alpha[items[k]]
            out[k] = reading * x
            reading *= m[0] * (1.0 - x) + m[1] * x
