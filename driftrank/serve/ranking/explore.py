"""Exploration by rank: an order is shown through a softmax, so that the probability of every list is known.

Places are filled from the top. Of the items that are left, one of rank r (from 0, in the order that is to be shown) is
drawn with probability in proportion to exp(-r / T), the Plackett-Luce model. Given the order, which is settled before
the user acts, these probabilities are exact whatever made it. Only exactly rounded operations are used: the same event
gives the same list on every machine.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from driftrank.kernels.compile import pure
from driftrank.kernels.elementary import exp
from driftrank.kernels.rng import place_uniform

#: a power below this is as good as 0
_NOTHING = 1e-300


class _Weights(NamedTuple):
    """The weights of an order, from its first item on."""

    power: list[float]  #: 1, q, q^2 and so on with q = exp(-1 / T), as long as they count
    total: list[float]  #: by n, the sum of the first n of them

    def at(self, n: int) -> float:
        return self.power[n] if n < len(self.power) else 0.0

    def sum_of(self, n: int) -> float:
        return self.total[min(n, len(self.power))]


@lru_cache(maxsize=64)
def _weights(temperature: float) -> _Weights:
    q = float(pure(exp)(-1.0 / temperature))
    power = [1.0]
    while power[-1] * q > _NOTHING:
        power.append(power[-1] * q)
    return _Weights(power, [0.0, *accumulate(power)])


def draw_ranks(n: int, k: int, temperature: float, key: int, above: int = 0) -> tuple[list[int], list[float]]:
    """The ranks of an order of ``n`` items that are shown at ``k`` places, and their probabilities given those above.

    ``key`` is that of the event's randomness; ``above`` places were filled before with draws of their own.

    >>> ranks, propensities = draw_ranks(3, 2, 0.5, key=7)
    >>> ranks, [round(p, 6) for p in propensities]
    ([0, 1], [0.866813, 0.880797])
    """
    weigh = _weights(temperature)
    skipped: list[int] = []  # ranks above that are left
    begin = 0  # ranks from here on are all left
    ranks, propensities = [], []
    for place in range(above, above + k):
        first = skipped[0] if skipped else begin  # weights are relative to its weight: none of them vanishes
        weights = [weigh.at(rank - first) for rank in skipped]
        passed = sum(weights)
        total = passed + (weigh.at(begin - first) * weigh.sum_of(n - begin) if begin < n else 0.0)
        u = place_uniform(key, place) * total
        if u < passed or begin == n:
            at = 0
            while at < len(skipped) - 1 and u >= weights[at]:
                u -= weights[at]
                at += 1
            rank, weight = skipped.pop(at), weights[at]
        else:
            u -= passed
            rank, weight = begin, weigh.at(begin - first)
            while rank < n - 1 and u >= weight and weigh.at(rank + 1 - first) > 0.0:
                u -= weight
                rank += 1
                weight = weigh.at(rank - first)
            skipped.extend(range(begin, rank))
            begin = rank + 1
        ranks.append(rank)
        propensities.append(weight / total)
    return ranks, propensities


def shown_as_ranked(k: int, temperature: float) -> tuple[float, float]:
    """The probabilities that the first place, and that all of ``k`` places, are as ranked, of many candidates.

    >>> [round(p, 3) for p in shown_as_ranked(3, 0.5)]
    [0.865, 0.646]
    """
    first = 1.0 - _weights(temperature).at(1)
    return first, first**k
