"""Expectation maximisation as it is usually written: dictionaries, and a loop over sessions in plain Python.

A session is ``(query, items, clicks)``, with a click (0 or 1) for every item. Ratios start at the prior (a, b).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

Session = tuple[Hashable, Sequence[Hashable], Sequence[int]]


class _Ratio:
    """A probability as a ratio, to which successes and trials are added."""

    def __init__(self, a, b):
        self.successes, self.trials = a, b

    def add(self, success, trial=1.0):
        self.successes += success
        self.trials += trial

    @property
    def value(self):
        return min(max(self.successes / self.trials, 1e-6), 1 - 1e-6)


def _fresh(prior):
    return defaultdict(lambda: _Ratio(*prior))


def _cells(clicks, by_previous):
    """The key of the examination at every rank, counted from 1: the rank, or the rank and that of the last click."""
    previous = 0
    for rank, click in enumerate(clicks, start=1):
        yield (rank, previous) if by_previous else rank
        if click:
            previous = rank


def fit_examination(sessions, by_previous, prior=(1, 2), iterations=50, start=0.5):
    """PBM, or UBM where examination goes ``by_previous`` click. Returns attraction by (query, item), examination."""
    first = (1, 0) if by_previous else 1
    alpha, kappa = defaultdict(lambda: start), defaultdict(lambda: start)
    kappa[first] = 1.0
    for _ in range(iterations):
        new_alpha, new_kappa = _fresh(prior), _fresh(prior)
        for query, items, clicks in sessions:
            for item, click, cell in zip(items, clicks, _cells(clicks, by_previous), strict=True):
                a, k = alpha[query, item], kappa[cell]
                if click:
                    new_alpha[query, item].add(1.0)
                    new_kappa[cell].add(1.0)
                else:
                    new_alpha[query, item].add((1 - k) * a / (1 - k * a))
                    new_kappa[cell].add(k * (1 - a) / (1 - k * a))
        alpha.update({key: ratio.value for key, ratio in new_alpha.items()})
        kappa.update({key: ratio.value for key, ratio in new_kappa.items() if key != first})
    return dict(alpha), dict(kappa)


def fit_pbm(sessions, **options):
    return fit_examination(sessions, by_previous=False, **options)


def fit_ubm(sessions, **options):
    return fit_examination(sessions, by_previous=True, **options)


def fit_dbn(sessions, prior=(1, 2), iterations=50, start=0.5):
    """Returns attraction and satisfaction by (query, item), continuation."""
    alpha, sat = defaultdict(lambda: start), defaultdict(lambda: start)
    gamma = start
    for _ in range(iterations):
        new_alpha, new_sat, new_gamma = _fresh(prior), _fresh(prior), _Ratio(*prior)
        for query, items, clicks in sessions:
            keys = [(query, item) for item in items]
            a, s = [alpha[key] for key in keys], [sat[key] for key in keys]
            n = len(keys)
            # states: 1 he reads rank r, 0 he has left; step[r][i][j]: from i to j, with the click at r as it was
            step = []
            for r in range(n):
                if clicks[r]:
                    on = a[r] * (1 - s[r]) * gamma
                    step.append([[0.0, 0.0], [a[r] - on, on]])
                else:
                    step.append([[1.0, 0.0], [(1 - a[r]) * (1 - gamma), (1 - a[r]) * gamma]])
            forward = [[0.0, 1.0]]
            for r in range(n):
                forward.append([sum(forward[r][i] * step[r][i][j] for i in (0, 1)) for j in (0, 1)])
            backward = [[1.0, 1.0]]
            for r in reversed(range(n)):
                backward.insert(0, [sum(step[r][i][j] * backward[0][j] for j in (0, 1)) for i in (0, 1)])
            total = backward[0][1]
            for r, key in enumerate(keys):
                read = forward[r][1] * backward[r][1] / total
                new_alpha[key].add(clicks[r], read)
                satisfied = forward[r][1] * a[r] * s[r] * backward[r + 1][0] / total if clicks[r] else 0.0
                if clicks[r]:
                    new_sat[key].add(satisfied)
                if r < n - 1:
                    on = forward[r][1] * step[r][1][1] * backward[r + 1][1] / total
                    new_gamma.add(on, read - satisfied)
        alpha.update({key: ratio.value for key, ratio in new_alpha.items()})
        sat.update({key: ratio.value for key, ratio in new_sat.items()})
        gamma = new_gamma.value
    return dict(alpha), dict(sat), gamma
