"""The world of Traffic: the catalogue, the queries and their candidates in one run.

Everything is a function of the run's key, so that attraction does not depend on which queries came before. It is
computed when it is needed: the catalogue at the beginning of every day, a query when it comes for the first time or
after a change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.traffic.stream import QueryStream
from driftrank.kernels import kernel
from driftrank.kernels.distributions import normal
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import (
    CALL_ORDER,
    CALLER_ORDER,
    CANDIDATES,
    CROSS_EFFECT,
    FEATURE_WEIGHTS,
    ITEM_EFFECT,
    ITEM_FEATURES,
    ITEM_SHIFT,
    NEW_ITEM,
    OWN_EFFECT,
    OWN_SHIFT,
    QUERY_EFFECT,
    QUERY_SHIFT,
    QUERY_STREAM,
    QUERY_TOPIC,
    SHOCK,
    SHOCKED_ITEM,
    SHUFFLE,
    TOPIC_ITEMS,
    below,
    derive,
    uniform,
)

#: values of the parameters ``shape`` and ``caller``
SHAPES = ("logistic", "exponential")
CALLERS = ("noisy", "perfect", "random", "reversed", "none", "logged")
_EXPONENTIAL = 1
_NOISY, _PERFECT, _REVERSED, NO_ORDER, _LOGGED = 0, 1, 3, 4, 5

#: the part of a query's own effects that a local shift draws again
SHIFTED = 0.3
#: items that a shock raises, and the first day of shocks
SHOCKED, FIRST_SHOCK = 3, 3
#: the largest logit of an attraction that is given: one of 0 or 1 has none
MOST_LOGIT = 40.0
#: the largest factor of a query's attraction if the shape is exponential
MOST_LEVEL = 2.0

#: places in ``clock``: days that have begun, changes so far, 1 after the shuffle, 1 after the rise
_DAY, EPOCH, _SHUFFLED, _RISEN = range(4)


class World(NamedTuple):
    """The state of one run. Items stand at *places* of the catalogue; a new one takes the place of an old one."""

    clock: NDArray[np.int64]
    # of the stream
    order: NDArray[np.int32]  #: the query of every list; empty: queries are drawn
    listed: NDArray[np.int32]  #: by query and candidate: its place in the catalogue; empty: candidates are drawn
    given: NDArray[np.float64]  #: the same for the attraction on the first day; NaN: it is generated
    begins: NDArray[np.int64]  #: the first pair of every query, and the number of pairs
    cumulated: NDArray[np.float64]  #: weights of queries, summed up
    pool: NDArray[np.int32]  #: by topic: the places that its candidates are drawn from
    weights: NDArray[np.float64]  #: of features
    # by place in the catalogue
    generation: NDArray[np.int32]  #: items that stood there before
    born: NDArray[np.int32]  #: the day on which the present one came
    effect: NDArray[np.float64]  #: of the item
    linear: NDArray[np.float64]  #: of its features
    first: NDArray[np.float64]  #: both on the first day
    dense: NDArray[np.float64]  #: d features each
    drawn: NDArray[np.int32]  #: the query that drew it last
    # by query
    epoch: NDArray[np.int64]  #: ``clock[EPOCH]`` when its attraction was computed; 0: it never came
    day: NDArray[np.int32]  #: the same for the day
    level: NDArray[np.float64]
    topic: NDArray[np.uint64]
    # by query and slot; slots are in the caller's order
    place: NDArray[np.int32]
    token: NDArray[np.int64]
    own: NDArray[np.float64]  #: own effect of the pair
    own_day: NDArray[np.int32]  #: the day on which it was drawn
    alpha: NDArray[np.float64]
    # buffers for one query
    fresh: NDArray[np.int8]  #: by slot: 2 if its item is new since the query came last, otherwise 1
    sorted: NDArray[np.int32]
    score: NDArray[np.float64]


def new_world(p: Any, stream: QueryStream | None = None) -> World:
    """The memory of a world with these parameters."""
    begins = np.arange(p.n_queries + 1, dtype=np.int64) * p.candidates if stream is None else stream.begins
    items, pairs = p.items, int(begins[-1])
    floats, ints = np.zeros, lambda n: np.zeros(n, np.int32)
    logged = (ints(0), ints(0), floats(0))
    if stream is not None:
        logged = (stream.order, stream.pairs, stream.attraction if stream.known else floats(0))
    return World(
        np.zeros(4, np.int64), *logged, begins, floats(p.n_queries), ints(p.topics * p.topic_items), floats(p.d),
        ints(items), ints(items), floats(items), floats(items), floats(items), floats(items * p.d), ints(items),
        np.zeros(p.n_queries, np.int64), ints(p.n_queries), floats(p.n_queries), np.zeros(p.n_queries, np.uint64),
        ints(pairs), np.zeros(pairs, np.int64), floats(pairs), ints(pairs), floats(pairs),
        np.zeros(p.candidates, np.int8), ints(p.candidates), floats(p.candidates),
    )  # fmt: skip


@kernel
def pairs_of(w, q):
    """The number of the first pair of a query, and of its pairs."""
    return w.begins[q], w.begins[q + 1] - w.begins[q]


@kernel
def moves(p):
    """True if attraction may change at the beginning of a day."""
    return p.new > 0.0 or p.shift > 0.0 or p.query_shift > 0.0 or p.shock > 0.0


@kernel
def begin_world(p, w, key):
    """Make the catalogue and the topics of the first day; no query has come yet."""
    for i in range(w.clock.shape[0]):
        w.clock[i] = 0
    w.clock[EPOCH] = 1
    total = 0.0
    for q in range(p.n_queries):
        total += exp(-p.zipf * log(q + 1.0))
        w.cumulated[q] = total
        w.epoch[q] = 0
    square = 0.0
    for j in range(p.d):
        w.weights[j] = normal(derive(derive(key, FEATURE_WEIGHTS), j))
        square += w.weights[j] * w.weights[j]
    for j in range(p.d):
        w.weights[j] /= np.sqrt(square)
    for c in range(p.items):
        w.generation[c] = 0
        w.drawn[c] = 0
        _make_item(p, w, key, c, 0)
        w.first[c] = _shared_effect(p, w, c)
    for topic in range(p.topics if p.topic_items > 0 else 0):
        own = derive(derive(key, TOPIC_ITEMS), topic)
        _draw_places(p, w, own, -1 - topic, w.pool[topic * p.topic_items : (topic + 1) * p.topic_items])


@kernel
def turn_to(p, w, key, i):
    """Advance the world to list ``i``."""
    day = (i - 1) // p.day
    while w.clock[_DAY] < day:
        w.clock[_DAY] += 1
        _new_day(p, w, key, w.clock[_DAY])
        if moves(p):
            w.clock[EPOCH] += 1
    if p.shuffle > 0 and i > p.shuffle and w.clock[_SHUFFLED] == 0:
        w.clock[_SHUFFLED] = 1
        w.clock[EPOCH] += 1
    if p.rise > 0 and i > p.rise and w.clock[_RISEN] == 0:
        w.clock[_RISEN] = 1
        w.clock[EPOCH] += 1


@kernel
def query_of(w, key, i):
    """The query of list ``i``. A stream that is shorter begins again."""
    if w.order.shape[0] > 0:
        return np.int64(w.order[(i - 1) % w.order.shape[0]])
    high = w.cumulated.shape[0] - 1
    u = uniform(derive(derive(key, QUERY_STREAM), i)) * w.cumulated[high]
    low = 0
    while low < high:
        middle = (low + high) // 2
        if w.cumulated[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def refresh(p, w, key, q):
    """Compute the attraction of a query's candidates now, and mark those that are new to it (``w.fresh``)."""
    at, n = pairs_of(w, q)
    if w.epoch[q] == 0:
        _first_list(p, w, key, q)
    elif p.query_shift > 0.0 or p.shock > 0.0:
        _catch_up(p, w, key, q)
    w.epoch[q] = w.clock[EPOCH]
    w.day[q] = w.clock[_DAY]
    for a in range(n):
        c = w.place[at + a]
        token = _token(p, w, c)
        w.fresh[a] = 1
        if token != w.token[at + a]:
            w.fresh[a] = 2
            w.token[at + a] = token
            if w.born[c] >= w.own_day[at + a]:
                _draw_own(p, w, key, q, at + a, w.born[c])
        w.alpha[at + a] = _attraction(p, w, key, q, at + a, _shared_effect(p, w, c))
    if w.clock[_SHUFFLED]:
        own = derive(derive(key, SHUFFLE), q)
        for a in range(n - 1, 0, -1):
            b = below(derive(own, a), a + 1)
            w.alpha[at + a], w.alpha[at + b] = w.alpha[at + b], w.alpha[at + a]
    if w.clock[_RISEN] and p.riser <= n:
        w.alpha[at + p.riser - 1] = p.risen


@kernel
def call_order(p, w, key, i, q, slots, place):
    """Write the caller's order at list ``i``: the slots in this order, and the place of every slot, from 1."""
    at, n = pairs_of(w, q)
    own = derive(derive(key, CALL_ORDER), i)
    order = w.sorted[:n]
    for a in range(n):
        order[a] = a
        w.score[a] = a + p.jitter * normal(derive(own, w.token[at + a]))
    _sort(order, w.score)
    for j in range(n):
        slots[j] = order[j]
        if p.caller != NO_ORDER:
            place[order[j]] = j + 1.0


@kernel
def features_of(p, w, q, a, out):
    """Write the features of the item in slot ``a`` of a query."""
    c = w.place[w.begins[q] + a]
    for j in range(p.d):
        out[j] = w.dense[c * p.d + j]


@kernel
def _token(p, w, c):
    """The number of the item at place ``c``, which no other item has."""
    return np.int64(c) + np.int64(p.items) * w.generation[c]


@kernel
def _make_item(p, w, key, c, day):
    """Make the item at place ``c``."""
    w.born[c] = day
    token = _token(p, w, c)
    w.effect[c] = normal(derive(derive(derive(key, ITEM_EFFECT), token), day))
    own = derive(derive(key, ITEM_FEATURES), token)
    w.linear[c] = 0.0
    for j in range(p.d):
        x = normal(derive(own, j))
        w.dense[c * p.d + j] = x
        w.linear[c] += x * w.weights[j]


@kernel
def _shared_effect(p, w, c):
    return np.sqrt(p.item_share) * w.effect[c] + np.sqrt(p.feature_share) * w.linear[c]


@kernel
def _new_day(p, w, key, day):
    """Replace items of the catalogue, and draw effects again."""
    shifts = p.shift > 0.0 and day % p.shift_days == 0
    if p.new == 0.0 and not shifts:
        return
    new = derive(derive(key, NEW_ITEM), day)
    shift = derive(derive(key, ITEM_SHIFT), day)
    for c in range(p.items):
        if p.new > 0.0 and uniform(derive(new, c)) < p.new:
            w.generation[c] += 1
            _make_item(p, w, key, c, day)
        elif shifts and uniform(derive(shift, c)) < p.shift:
            w.effect[c] = normal(derive(derive(derive(key, ITEM_EFFECT), _token(p, w, c)), day))


@kernel
def _draw_places(p, w, key, drawer, out):
    """Draw distinct places, low ones more often: the probability of place c is about in proportion to c^-1/2."""
    found = 0
    tries = 0
    while found < out.shape[0]:
        u = uniform(derive(key, tries))
        tries += 1
        c = np.int64(u * u * p.items)
        if w.drawn[c] != drawer:
            w.drawn[c] = drawer
            out[found] = c
            found += 1


@kernel
def _draw_from_pool(p, w, key, drawer, topic, out):
    """Draw distinct places from those of a topic."""
    found = 0
    tries = 0
    while found < out.shape[0]:
        c = w.pool[topic * p.topic_items + below(derive(key, tries), p.topic_items)]
        tries += 1
        if w.drawn[c] != drawer:
            w.drawn[c] = drawer
            out[found] = c
            found += 1


@kernel
def _first_list(p, w, key, q):
    """Draw topic, level and candidates of a query, in the caller's order, as they are on the first day."""
    at, n = pairs_of(w, q)
    topic = below(derive(derive(key, QUERY_TOPIC), q), p.topics)
    w.topic[q] = np.uint64(topic)
    x = normal(derive(derive(key, QUERY_EFFECT), q)) * p.query_sd
    w.level[q] = min(exp(x), MOST_LEVEL) if p.shape == _EXPONENTIAL else p.level + x
    places = w.place[at : at + n]
    order = w.sorted[:n]
    own = derive(derive(key, CANDIDATES), q)
    if w.listed.shape[0] > 0:
        for a in range(n):
            places[a] = w.listed[at + a]
    elif p.catalogue == 0:
        for a in range(n):
            places[a] = at + a
    elif p.topic_items > 0:
        _draw_from_pool(p, w, own, q + 1, topic, places)
    else:
        _draw_places(p, w, own, q + 1, places)
    for a in range(n):
        w.token[at + a] = np.int64(places[a])
        if p.shape == _EXPONENTIAL:
            w.own[at + a] = p.top * exp(-a / p.tau) + p.floor
        else:
            _draw_own(p, w, key, q, at + a, 0)
        if w.given.shape[0] > 0 and w.given[at + a] >= 0.0:
            _take_own(p, w, key, q, at + a, w.first[places[a]], w.given[at + a])
        order[a] = a
        w.score[a] = -_attraction(p, w, key, q, at + a, w.first[places[a]])
    _sort(order, w.score)  # best first
    own = derive(derive(key, CALLER_ORDER), q)
    for j in range(n):
        u = derive(own, w.token[at + order[j]])
        if p.caller == _LOGGED:
            w.score[j] = order[j]
        elif p.caller == _PERFECT:
            w.score[j] = j
        elif p.caller == _REVERSED:
            w.score[j] = -j
        else:
            w.score[j] = j + p.noise * normal(u) if p.caller == _NOISY else uniform(u)
    _sort(order, w.score)
    for j in range(n):  # first the own effects, then the places, by way of the buffer
        w.score[j] = w.own[at + order[j]]
    for j in range(n):
        w.own[at + j] = w.score[j]
        w.own_day[at + j] = 0
        w.score[j] = places[order[j]]
    for j in range(n):
        places[j] = np.int32(w.score[j])
        w.token[at + j] = np.int64(places[j])
    w.day[q] = 0
    if p.query_shift > 0.0 or p.shock > 0.0:
        _catch_up(p, w, key, q)


@kernel
def _catch_up(p, w, key, q):
    """Let the days pass since a query's attraction was computed: local shifts and shocks."""
    at, n = pairs_of(w, q)
    for day in range(w.day[q] + 1, w.clock[_DAY] + 1):
        if p.query_shift > 0.0 and uniform(derive(derive(derive(key, QUERY_SHIFT), day), q)) < p.query_shift:
            own = derive(derive(derive(key, OWN_SHIFT), day), q)
            for a in range(n):
                if uniform(derive(own, w.place[at + a])) < SHIFTED:
                    _draw_own(p, w, key, q, at + a, day)
        if day >= FIRST_SHOCK and uniform(derive(derive(derive(key, SHOCK), day), q)) < p.shock:
            own = derive(derive(derive(key, SHOCKED_ITEM), day), q)
            for j in range(SHOCKED):
                a = below(derive(own, j), n)
                w.own[at + a] = p.shock_size
                w.own_day[at + a] = day


@kernel
def _draw_own(p, w, key, q, pair, day):
    """Draw the own effect of a pair: as a logit, or as the attraction of a random rank."""
    if p.shape == _EXPONENTIAL:
        rank = below(derive(derive(derive(key, OWN_EFFECT), w.token[pair]), day), pairs_of(w, q)[1])
        w.own[pair] = p.top * exp(-rank / p.tau) + p.floor
        w.own_day[pair] = day
        return
    own = 1.0 - p.item_share - p.feature_share - p.token_share
    u = derive(derive(derive(derive(key, OWN_EFFECT), q), w.place[pair]), day)
    w.own[pair] = p.scale * np.sqrt(max(own, 0.0)) * normal(u)
    w.own_day[pair] = day


@kernel
def _take_own(p, w, key, q, pair, shared, alpha):
    """Set the own effect of a pair so that its attraction is ``alpha`` if its item has this shared effect."""
    if p.shape == _EXPONENTIAL:
        w.own[pair] = alpha / w.level[q]
        return
    logit = MOST_LOGIT if alpha > 0.5 else -MOST_LOGIT
    if alpha > 0.0 and alpha < 1.0:
        logit = min(max(log(alpha / (1.0 - alpha)), -MOST_LOGIT), MOST_LOGIT)
    w.own[pair] = logit - w.level[q] - p.scale * _effect(p, w, key, q, pair, shared)


@kernel
def _effect(p, w, key, q, pair, shared):
    """The shared effect of an item in a pair: with that of the query's topic, and its sign."""
    if p.token_share > 0.0:
        u = derive(derive(derive(key, CROSS_EFFECT), w.topic[q]), w.token[pair])
        shared += np.sqrt(p.token_share) * normal(u)
    return -shared if q < p.misleading else shared


@kernel
def _attraction(p, w, key, q, pair, shared):
    """The attraction of a pair whose item has this shared effect."""
    if p.shape == _EXPONENTIAL:
        return min(w.level[q] * w.own[pair], 1.0)
    return 1.0 / (1.0 + exp(-(w.level[q] + p.scale * _effect(p, w, key, q, pair, shared) + w.own[pair])))


@kernel
def _sort(order, score):
    """Sort by score, smallest first; equal ones keep their order."""
    for i in range(1, order.shape[0]):
        a = order[i]
        u = score[i]
        j = i
        while j > 0 and score[j - 1] > u:
            order[j] = order[j - 1]
            score[j] = score[j - 1]
            j -= 1
        order[j] = a
        score[j] = u
