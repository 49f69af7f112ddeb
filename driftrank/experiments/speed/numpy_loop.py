"""CascadeSWUCB as a researcher would write it: plain NumPy, one step at a time.

This is what driftrank's speed is compared with. It is decent NumPy: the index of all items at once, running sums with a
ring buffer, nothing recomputed that need not be.
"""

from __future__ import annotations

import math

import numpy as np

from driftrank.environments.base import Environment
from driftrank.theory import recommended_window


def numpy_swucb(environment: Environment, horizon: int, query: int = 0, run: int = 0, seed: int = 0) -> float:
    """The regret of one run of CascadeSWUCB with the paper's parameters."""
    starts, alphas, optimal = environment.stretches(horizon, query, run, seed)
    ends = [*(starts[1:] - 1), horizon]
    rng = np.random.default_rng([seed, query, run])
    L, K = alphas.shape[1], environment.k
    epsilon, window = 0.5, math.ceil(recommended_window(horizon, 1))
    counts, clicks = np.zeros(L), np.zeros(L)
    shown = np.zeros((window, K), np.int64)
    observed = np.zeros(window, np.int64)
    clicked = np.zeros(window, np.int64)
    regret = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        for start, end, alpha, best in zip(starts, ends, alphas, optimal, strict=True):
            for t in range(start, end + 1):
                index = clicks / counts + np.sqrt(epsilon * math.log(min(t, window)) / counts)
                if not counts.all():  # items not in the window come first, in random order
                    unseen = np.flatnonzero(counts == 0)
                    index[unseen] = 10.0 + rng.random(len(unseen))
                ranking = (-index).argsort()[:K]
                attraction = alpha[ranking]
                attracted = rng.random(K) < attraction
                first = int(attracted.argmax()) if attracted.any() else K
                regret += best - (1.0 - (1.0 - attraction).prod())
                slot = (t - 1) % window
                if t > window:  # the oldest step leaves the window
                    counts[shown[slot, : observed[slot]]] -= 1
                    if clicked[slot] < K:
                        clicks[shown[slot, clicked[slot]]] -= 1
                shown[slot], observed[slot], clicked[slot] = ranking, min(first + 1, K), first
                counts[ranking[: first + 1]] += 1
                if first < K:
                    clicks[ranking[first]] += 1
    return float(regret)
