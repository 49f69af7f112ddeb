"""Churn: items come and go."""

from __future__ import annotations

from typing import ClassVar

from driftrank.environments.base import QueryEnvironment
from driftrank.kernels import kernel
from driftrank.kernels.rng import below, derive
from driftrank.validation import check_choice, check_integer


class Churn(QueryEnvironment):
    """Every now and then an item gives way to a new one.

    Every ``period`` steps a random item leaves, and a new one arrives whose attraction is one of the query's default
    values, drawn anew.

    Parameters
    ----------
    period
        Steps between two arrivals.
    announced
        Whether policies are told that an item is new, so that they can forget what they knew of the one before it.
        Otherwise its attraction just changes.
    absent
        How many items are away at any time, and cannot be shown. With 0 the new item takes the place of the one that
        leaves; otherwise that of one that has been away.

    The attraction at step t takes O(1) work for every arrival before t, or O(L) where items are absent.

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
        """Without announcements and absences, policies need not hear of anything."""
        return self.announced or self.absent > 0

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        L = base.shape[0]
        for a in range(L):
            alpha[a] = base[a]
        _send_away(p, key, alpha)
        arrivals = (t - 1) // p.period
        for n in range(1, arrivals + 1):
            a = _turn_over(p, derive(key, n), alpha)
            alpha[a] = base[below(derive(derive(key, n), 2), L)]
        for a in range(L):
            alpha[a] = max(alpha[a], 0.0)
        return (arrivals + 1) * p.period + 1

    @staticmethod
    @kernel
    def live(p, base, key, t, there):
        for a in range(base.shape[0]):
            there[a] = 1
        _send_away(p, key, there)
        arrivals = (t - 1) // p.period
        arrival = -1
        if p.absent > 0:
            for n in range(1, arrivals + 1):
                arrival = _turn_over(p, derive(key, n), there)
        elif arrivals > 0:
            arrival = _turn_over(p, derive(key, arrivals), there)
        for a in range(base.shape[0]):
            there[a] = max(there[a], 0)
        if p.announced and arrivals > 0 and t == arrivals * p.period + 1:
            there[arrival] = 2


@kernel
def _nth(marks, away, n):
    """The n-th item that is away, or that is there; those away have a negative mark."""
    for a in range(marks.shape[0]):
        if (marks[a] < 0) == away:
            if n == 0:
                return a
            n -= 1
    return -1


@kernel
def _send_away(p, key, marks):
    """Who is away at first."""
    for n in range(p.absent):
        marks[_nth(marks, False, below(derive(derive(key, 0), n), marks.shape[0] - n))] = -1


@kernel
def _turn_over(p, key, marks):
    """An item leaves and another arrives; returns the one that arrives."""
    L = marks.shape[0]
    if p.absent == 0:
        return below(derive(key, 0), L)
    leaves = _nth(marks, False, below(derive(key, 0), L - p.absent))
    arrives = _nth(marks, True, below(derive(key, 1), p.absent))
    marks[leaves] = -1
    marks[arrives] = 1
    return arrives
