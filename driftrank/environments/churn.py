"""Churn: items come and go."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.validation import check_choice, check_integer


class Churn(QueryEnvironment):
    """From time to time an item is replaced by a new one.

    Every ``period`` steps a random item leaves, and a new one arrives with an attraction drawn from the query's default
    values.

    Parameters
    ----------
    period
        Steps between two arrivals.
    announced
        True: policies are notified that an item is new, so that they can forget its predecessor. Otherwise only its
        attraction changes.
    absent
        Number of items that are absent at any time and cannot be shown. With 0 the new item takes the place of the one
        that leaves; otherwise that of an absent one.

    Notes
    -----
    The attraction at step t costs O(1) per arrival before t, or O(L) if items are absent.

    >>> env = Churn([[0.5, 0.4, 0.3, 0.2, 0.1]], k=2, absent=2)
    >>> len(env.present(1)), len(set(env.present(1)) & set(env.present(2001)))
    (3, 2)
    """

    kind: ClassVar[str] = "abrupt"

    period: int = 2000
    announced: bool = True
    absent: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("period", self.period, 1)
        check_choice("announced", self.announced, (True, False))
        check_integer("absent", self.absent, 0)
        for name, alpha in self.queries.attraction.items():
            if self.absent > len(alpha) - self.k:
                raise ValueError(
                    f"absent={self.absent!r}: must be an integer from 0 to {len(alpha) - self.k}, the items of query "
                    f"{name!r} without the {self.k} to be shown"
                )

    @property
    def churns(self) -> bool:  # type: ignore[override]
        """True if arrivals are announced or items are absent."""
        return self.announced or self.absent > 0

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        L = base.shape[0]
        for a in range(L):
            alpha[a] = base[a]
        _mark_absent(p, key, alpha)
        arrivals = (t - 1) // p.period
        for n in range(1, arrivals + 1):
            a = _replace(p, derive(key, n), alpha)
            alpha[a] = base[below(derive(derive(key, n), 2), L)]
        for a in range(L):
            alpha[a] = max(alpha[a], 0.0)
        return (arrivals + 1) * p.period + 1

    @staticmethod
    @kernel
    def live(p, base, key, t, there):
        for a in range(base.shape[0]):
            there[a] = 1
        _mark_absent(p, key, there)
        arrivals = (t - 1) // p.period
        arrival = -1
        if p.absent > 0:
            for n in range(1, arrivals + 1):
                arrival = _replace(p, derive(key, n), there)
        elif arrivals > 0:
            arrival = _replace(p, derive(key, arrivals), there)
        for a in range(base.shape[0]):
            there[a] = max(there[a], 0)
        if p.announced and arrivals > 0 and t == arrivals * p.period + 1:
            there[arrival] = 2


@kernel
def _nth(marks, absent, n):
    """The n-th absent or present item; absent ones have a negative mark."""
    for a in range(marks.shape[0]):
        if (marks[a] < 0) == absent:
            if n == 0:
                return a
            n -= 1
    return -1


@kernel
def _mark_absent(p, key, marks):
    """Mark the items that are absent at the start."""
    for n in range(p.absent):
        marks[_nth(marks, False, below(derive(derive(key, 0), n), marks.shape[0] - n))] = -1


@kernel
def _replace(p, key, marks):
    """Let one item leave and another arrive; returns the one that arrives."""
    L = marks.shape[0]
    if p.absent == 0:
        return below(derive(key, 0), L)
    leaves = _nth(marks, False, below(derive(key, 0), L - p.absent))
    arrives = _nth(marks, True, below(derive(key, 1), p.absent))
    marks[leaves] = -1
    marks[arrives] = 1
    return arrives
