"""A list of the best items by their means, with some explorers.

The scratch buffer of a list holds, by slot, the draws and the means of all candidates, then K draws and K slots of the
best items, then the slots of explorers.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.rng import derive

#: tie-breaking of equal means; order: that of the candidates
TIES = ("random", "order")
_RANDOM = 0


@kernel
def keep_best(r, filled, u, a, e, c, ties):
    """Offer item ``a`` with mean ``u`` to the list ``r``, whose first ``filled`` positions are taken. Returns the new
    ``filled``."""
    i = filled
    if filled < r.items.shape[0]:
        filled += 1
    else:
        i -= 1
        if not _before(u, a, r.score[i], r.items[i], e, c, ties):
            return filled
    while i > 0 and _before(u, a, r.score[i - 1], r.items[i - 1], e, c, ties):
        r.items[i] = r.items[i - 1]
        r.score[i] = r.score[i - 1]
        i -= 1
    r.items[i] = a
    r.score[i] = u
    return filled


@kernel
def _before(u, a, v, b, e, c, ties):
    """True if item ``a`` with mean ``u``, which was offered later, goes before item ``b`` with mean ``v``."""
    if u == v and ties == _RANDOM:
        return derive(e.key, c.token[a]) < derive(e.key, c.token[b])
    return u > v


@kernel
def put_explorers(p, c, r, going_on):
    """Put explorers into the list ``r`` of the best items: candidates that Thompson sampling would show in their place.

    Of the candidates outside the list those with the largest draws explore, if their draws are among the K largest of
    all. With a shared model, which says how users read, an explorer stands where a look at it costs least; without one
    before the first item whose mean is below its draw.
    """
    K = r.items.shape[0]
    slots = c.token.shape[0]
    theta = r.scratch[:slots]
    mean = r.scratch[slots : 2 * slots]
    drawn = r.scratch[2 * slots : 2 * slots + K]
    best = r.scratch[2 * slots + K : 2 * slots + 2 * K]
    explorers = r.scratch[2 * slots + 2 * K :]
    least = np.inf
    for i in range(K):
        a = np.int64(r.items[i])
        best[i] = a
        drawn[i] = theta[a]
        least = min(least, theta[a])
        theta[a] = -1.0  # not outside
    found = 0
    for j in range(c.items.shape[0]):
        a = np.int64(c.items[j])
        u = theta[a]
        if u > least:
            found = _keep_explorer(theta, explorers, found, min(p.explore_max, K), u, a)
    n = 0
    while n < found and _larger(drawn, theta[np.int64(explorers[n])]) + n < K:
        n += 1
    if n == 0:
        return
    end = K - n
    i = min(p.explore_from - 1, end)
    for x in range(n):
        a = np.int64(explorers[x])
        if c.going_on > 0.0:
            i = _cheapest_place(mean, r.items, i, end, mean[a], going_on)
        else:
            while i < end and r.score[i] >= theta[a]:
                i += 1
        for m in range(end, i, -1):
            r.items[m] = r.items[m - 1]
            r.score[m] = r.score[m - 1]
        r.items[i] = a
        r.score[i] = theta[a]
        end += 1
        i += 1
    if p.guard and list_value(mean, r.items, K, going_on) < list_value(mean, c.items, K, going_on):
        for i in range(K):
            r.items[i] = np.int64(best[i])
            r.score[i] = mean[np.int64(best[i])]


@kernel
def _keep_explorer(theta, explorers, found, most, u, a):
    """Offer item ``a`` with draw ``u`` to at most ``most`` explorers, largest first. Returns their number."""
    i = found
    if found < most:
        found += 1
    else:
        i -= 1
        if i < 0 or u <= theta[np.int64(explorers[i])]:
            return found
    while i > 0 and u > theta[np.int64(explorers[i - 1])]:
        explorers[i] = explorers[i - 1]
        i -= 1
    explorers[i] = a
    return found


@kernel
def _larger(values, u):
    """The number of values above ``u``."""
    n = 0
    for i in range(values.shape[0]):
        n += values[i] > u
    return n


@kernel
def _cheapest_place(mean, items, first, end, m, going_on):
    """The position from ``first`` to ``end`` at which a look at an explorer of mean ``m`` costs the fewest clicks.

    The explorer takes the place of the last of ``end + 1`` items. What it costs is what the list is then worth less;
    a look is as probable as it is that the user reads so far.
    """
    worth = list_value(mean, items, end + 1, going_on)
    least = np.inf
    place = first
    for i in range(first, end + 1):
        value = 0.0
        reading = 1.0
        looks = 1.0
        for j in range(end + 1):
            alpha = m
            if j == i:
                looks = reading
            else:
                alpha = mean[np.int64(items[j if j < i else j - 1])]
            value += reading * alpha
            reading *= (1.0 - alpha) * going_on
        cost = (worth - value) / looks if looks > 0.0 else np.inf
        if cost < least:
            least = cost
            place = i
    return place


@kernel
def list_value(mean, items, K, going_on):
    """The expected clicks of the first K of these items, for users who click once at most."""
    value = 0.0
    reading = 1.0
    for i in range(K):
        alpha = mean[np.int64(items[i])]
        value += reading * alpha
        reading *= (1.0 - alpha) * going_on
    return value
