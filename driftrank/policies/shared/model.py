r"""The shared model: an additive logistic model of attraction, with hashed weights and a choice between nested models.

The logit of the attraction of an item in a request is a sum over columns: the *curve* over its place in the caller's
order, or the *bias* if there is none, and the caller's *score*; the *query*; the *item* and its *features*, dense and
named; *crosses* of what is known of the request, its tokens and named features, with the item and its named features.
Model 0 has curve or bias and score only, model 1 also the query, model 2 also item and features, model 3 also crosses.
They run side by side, and lists use the one whose prequential likelihood is best; the simpler one in doubt. That makes
sharing safe if there is nothing to share.

Named features (:mod:`driftrank.policies.shared.named_features`) have hashed weights, among those of items.

Every weight has a mean and a variance; those of the curve have a full covariance. A label y of a pair that had S clicks
in n observations moves all weights of a model in one Kalman step on the pair's own predictive,

.. math::
    \omega = \frac{\nu}{\nu + n}, \quad p = \omega m + \frac{S}{\nu + n}, \quad g = \omega m (1 - m), \quad
    R = p (1 - p) + g^2 v, \quad w \mathrel{+}= V x \, g \, \frac{y - p}{R}, \quad
    V \mathrel{-}= V x x^T V \, \frac{g^2}{R},

with m and v the model's attraction and the variance of its logit. So a pair counts for about :math:`\nu` observations,
however often it was seen, and cannot drown the others. A floor on the variances lets weights move for ever.

Policies that use it have the memo of :mod:`~driftrank.policies.shared.memo` and the parameters ``hash_bits``,
``dense``, ``shrink_strength``, ``stops`` and ``feedback``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.layout import Field, field, integers
from driftrank.kernels.rng import derive
from driftrank.kernels.structures import Described
from driftrank.policies.shared.memo import MEMO, memo_lost
from driftrank.policies.shared.named_features import (
    SCALE,
    SCALE_BITS,
    learn_scales,
    named_at,
    named_weight,
    scale_named,
)
from driftrank.policies.shared.place_curve import (
    FIRST_CURVE,
    FIRST_SPREAD,
    KNOTS,
    SPREAD,
    curve_at,
    knot_below,
    move_curve,
)
from driftrank.policies.shared.reading import READING, after_click_of, count_reading, going_on_of
from driftrank.policies.shared.strength import FIRST_STRENGTH, GRID, LEAST, MOST, shrunk_strength, weigh_strength

#: nested models
MODELS = 4
#: the first model that has the column of the query; those of items and features; those of crosses
_WITH_QUERY, _WITH_ITEMS, _WITH_CROSSES = 1, 2, 3
#: kinds of hashed columns: branches of their hashes
_QUERY, _ITEM, _CROSS, _FEATURE, _FEATURE_CROSS = 1, 2, 3, 4, 5
#: the variance of a weight before any label. Features and crosses are divided by the square root of their number.
_BIAS_VARIANCE, _QUERY_VARIANCE, _ITEM_VARIANCE, _CROSS_VARIANCE, _DENSE_VARIANCE = 4.0, 0.25, 1.0, 0.5, 1.0
_SCORE_VARIANCE = 0.25
#: the smallest variances, which they keep for ever
_FLOOR, _DENSE_FLOOR = 0.02, 0.004
#: pairs observed more often do not move strengths and evidence: they say more about changes
_MOST_OBSERVATIONS = 32.0
#: the part of the evidence that is forgotten at every label
_FORGET = 1e-5
#: a larger model must be better by this much, in nats
_MARGIN = 3.0
#: scaled features are clipped to this absolute value, logits of labels to the other
_MOST_FEATURE, _MOST_LOGIT = 5.0, 12.0
#: the range of a prior's mean
_LEAST_MEAN = 1e-4
_LEAST_CLICK = 1e-6
_PI_8 = 0.39269908169872414


def shared_fields(p: Mapping[str, Any]) -> dict[str, Field]:
    """The fields of the model. Hashed and dense weights are pairs of mean and variance."""
    size = 2 ** p["hash_bits"]
    return {
        "bias": field(MODELS, 2),
        "curve": field(MODELS, KNOTS),
        "spread": field(MODELS, SPREAD),
        "gain": field(KNOTS),
        "grid": field(MODELS, len(GRID), fill=1.0 / len(GRID)),
        "nu": field(MODELS, fill=FIRST_STRENGTH),
        "evidence": field(MODELS),
        "reading": field(4, fill=READING),
        "labels": field(1),
        "squares": field(p["dense"]),
        "dense": field(MODELS - _WITH_ITEMS, p["dense"], 2),
        "query": field(MODELS - _WITH_QUERY, size, 2),
        "item": field(MODELS - _WITH_ITEMS, size, 2),
        "cross": field(MODELS - _WITH_CROSSES, size, 2),
        "use": integers(1),
        "score": field(MODELS, 2),
        "scale": field(2 ** min(p["hash_bits"], SCALE_BITS), SCALE),
    }


@kernel
def shared_init(p, h):
    """Set the means and variances before any label."""
    for j in range(MODELS):
        for k in range(KNOTS):
            h.curve[j * KNOTS + k] = FIRST_CURVE[k]
        for k in range(SPREAD):
            h.spread[j * SPREAD + k] = FIRST_SPREAD[k]
    _fill(h.bias, _BIAS_VARIANCE)
    _fill(h.dense, _DENSE_VARIANCE)
    _fill(h.query, _QUERY_VARIANCE)
    _fill(h.item, _ITEM_VARIANCE)
    _fill(h.cross, _CROSS_VARIANCE)
    _fill(h.score, _SCORE_VARIANCE)


@kernel
def shared_prior(p, h, x, out):
    """Write the prior of every described item, from the model in use."""
    j = np.int64(h.use[0])
    q = _column(p, _QUERY, x.query, 0)
    scale_named(p, h, x, 0, x.named.shape[0])
    for i in range(x.item.shape[0]):
        k, f = _knot(x.place[i])
        eta, v = _logit(p, h, j, x, i, k, f, q, _column(p, _ITEM, x.item[i], 0))
        m = min(max(_sigmoid(eta / np.sqrt(1.0 + _PI_8 * v)), _LEAST_MEAN), 1.0 - _LEAST_MEAN)
        nu = shrunk_strength(h.nu[j], m, v) if p.shrink_strength else h.nu[j]
        nu = min(max(nu, LEAST), MOST)
        out[2 * i] = nu * m
        out[2 * i + 1] = nu * (1.0 - m)
    if p.stops:
        return going_on_of(h.reading), after_click_of(h.reading)
    return 1.0, 0.0


@kernel
def shared_learn(p, h, e, r, x, clicks, observed):
    """Learn the labels of a list, in the order of their display, and how far it was read."""
    if memo_lost(r):
        return
    q = _column(p, _QUERY, x.query, 0)
    for i in range(observed):
        n = r.memo[MEMO * i + 3]
        if n >= 0.0:
            _learn_label(p, h, x, i, q, r.memo[MEMO * i + 2], n, clicks[i])
    count_reading(p, r, clicks, h.reading)


@kernel
def _learn_label(p, h, x, i, q, S, n, y):
    a = _column(p, _ITEM, x.item[i], 0)
    k, f = _knot(x.place[i])
    named_begin, named_end, context_begin, context_end = named_at(x, i)
    scale_named(p, h, x, named_begin, named_end)
    scale_named(p, h, x, context_begin, context_end)
    use = 0
    for j in range(MODELS):
        eta, v = _logit(p, h, j, x, i, k, f, q, a)
        eta = min(max(eta, -_MOST_LOGIT), _MOST_LOGIT)
        nu = h.nu[j]  # before the label: the weight of a label must not depend on it
        if n <= _MOST_OBSERVATIONS:
            one = _sigmoid(eta / np.sqrt(1.0 + _PI_8 * v))
            if n > 0.0:
                one = weigh_strength(p, h, j, one, v, S, n, y)
            h.evidence[j] = (1.0 - _FORGET) * h.evidence[j] + log(one if y else 1.0 - one)
        m = _sigmoid(eta)
        omega = nu / (nu + n)
        click = min(max(omega * m + S / (nu + n), _LEAST_CLICK), 1.0 - _LEAST_CLICK)
        g = omega * m * (1.0 - m)
        R = click * (1.0 - click) + g * g * v
        _move(p, h, j, x, i, k, f, q, a, g * (y - click) / R, g * g / R)
        if h.evidence[j] > h.evidence[use] + _MARGIN:
            use = j
    h.use[0] = use
    d = x.dense.shape[0] // x.item.shape[0]
    for c in range(d):
        h.squares[c] += x.dense[i * d + c] * x.dense[i * d + c]
    if d > 0:
        h.labels[0] += 1.0
    learn_scales(p, h, x, named_begin, named_end)
    learn_scales(p, h, x, context_begin, context_end)


@kernel
def _knot(place):
    """The place on the curve, as :func:`knot_below` gives it; -1 if there is no place."""
    if place > 0.0:
        return knot_below(place)
    return -1, 0.0


@kernel
def _logit(p, h, j, x, i, k, f, q, a):
    """Mean and variance of the logit of model ``j`` for described item ``i``; ``k`` and ``f`` are its place on the
    curve, ``q`` and ``a`` the hashed columns of query and item."""
    if k >= 0:
        eta, v = curve_at(h, j, k, f)
    else:
        eta = h.bias[2 * j]
        v = h.bias[2 * j + 1]
    if x.score.shape[0] > 0:
        eta += h.score[2 * j] * x.score[i]
        v += h.score[2 * j + 1] * x.score[i] * x.score[i]
    size = np.int64(1) << p.hash_bits
    if j >= _WITH_QUERY:
        w = 2 * ((j - _WITH_QUERY) * size + q)
        eta += h.query[w]
        v += h.query[w + 1]
    if j >= _WITH_ITEMS:
        w = 2 * ((j - _WITH_ITEMS) * size + a)
        eta += h.item[w]
        v += h.item[w + 1]
        d = x.dense.shape[0] // x.item.shape[0]
        for c in range(d):
            w = 2 * ((j - _WITH_ITEMS) * p.dense + c)
            value = _scaled(h, x.dense[i * d + c], c, d)
            eta += h.dense[w] * value
            v += h.dense[w + 1] * value * value
        begin, end, context_begin, context_end = named_at(x, i)
        unit = named_weight(end - begin)
        for c in range(begin, end):
            w = 2 * ((j - _WITH_ITEMS) * size + _column(p, _FEATURE, x.named[c], 0))
            value = x.scaled[c] * unit
            eta += h.item[w] * value
            v += h.item[w + 1] * value * value
        of_request = x.crosses.shape[0] + context_end - context_begin
        if j >= _WITH_CROSSES and of_request > 0:
            first = (j - _WITH_CROSSES) * size
            unit = 1.0 / np.sqrt(np.float64(of_request * (1 + end - begin)))
            for t in range(of_request):
                token, factor = _of_request(x, t, context_begin)
                factor *= unit
                w = 2 * (first + _column(p, _CROSS, token, x.item[i]))
                eta += h.cross[w] * factor
                v += h.cross[w + 1] * factor * factor
                for c in range(begin, end):
                    w = 2 * (first + _column(p, _FEATURE_CROSS, token, x.named[c]))
                    value = x.scaled[c] * factor
                    eta += h.cross[w] * value
                    v += h.cross[w + 1] * value * value
    return eta, v


@kernel
def _move(p, h, j, x, i, k, f, q, a, step, shrink):
    """Move all weights of described item ``i`` in model ``j``."""
    if k >= 0:
        move_curve(h, j, k, f, step, shrink)
    else:
        _move_weight(h.bias, 2 * j, 1.0, step, shrink, _FLOOR)
    if x.score.shape[0] > 0:
        _move_weight(h.score, 2 * j, x.score[i], step, shrink, _DENSE_FLOOR)
    size = np.int64(1) << p.hash_bits
    if j >= _WITH_QUERY:
        _move_weight(h.query, 2 * ((j - _WITH_QUERY) * size + q), 1.0, step, shrink, _FLOOR)
    if j >= _WITH_ITEMS:
        _move_weight(h.item, 2 * ((j - _WITH_ITEMS) * size + a), 1.0, step, shrink, _FLOOR)
        d = x.dense.shape[0] // x.item.shape[0]
        for c in range(d):
            value = _scaled(h, x.dense[i * d + c], c, d)
            _move_weight(h.dense, 2 * ((j - _WITH_ITEMS) * p.dense + c), value, step, shrink, _DENSE_FLOOR)
        begin, end, context_begin, context_end = named_at(x, i)
        unit = named_weight(end - begin)
        for c in range(begin, end):
            w = (j - _WITH_ITEMS) * size + _column(p, _FEATURE, x.named[c], 0)
            _move_weight(h.item, 2 * w, x.scaled[c] * unit, step, shrink, _FLOOR)
        of_request = x.crosses.shape[0] + context_end - context_begin
        if j >= _WITH_CROSSES and of_request > 0:
            first = (j - _WITH_CROSSES) * size
            unit = 1.0 / np.sqrt(np.float64(of_request * (1 + end - begin)))
            for t in range(of_request):
                token, factor = _of_request(x, t, context_begin)
                factor *= unit
                w = first + _column(p, _CROSS, token, x.item[i])
                _move_weight(h.cross, 2 * w, factor, step, shrink, _FLOOR)
                for c in range(begin, end):
                    w = first + _column(p, _FEATURE_CROSS, token, x.named[c])
                    _move_weight(h.cross, 2 * w, x.scaled[c] * factor, step, shrink, _FLOOR)


@kernel
def _of_request(x, t, context_begin):
    """Token and value of what is known of the request, number ``t``: its tokens, then its named features."""
    n = x.crosses.shape[0]
    if t < n:
        return x.crosses[t], 1.0
    return x.named[context_begin + t - n], x.scaled[context_begin + t - n]


@kernel
def _move_weight(weights, w, value, step, shrink, floor):
    """Move one weight; a variance of 0 stays, and with it the weight."""
    variance = weights[w + 1]
    weights[w] += variance * value * step
    less = variance * (1.0 - variance * value * value * shrink)
    weights[w + 1] = less if less > floor else min(variance, floor)


@kernel
def _scaled(h, value, c, d):
    """Feature ``c`` of ``d``, divided by its root mean square over the labels so far."""
    value /= np.sqrt((1.0 + h.squares[c]) / (1.0 + h.labels[0]))
    return min(max(value, -_MOST_FEATURE), _MOST_FEATURE) / np.sqrt(np.float64(d))


@kernel
def _column(p, kind, a, b):
    """The hashed column of a pair of keys."""
    mask = (np.uint64(1) << np.uint64(p.hash_bits)) - np.uint64(1)
    return np.int64(derive(derive(np.uint64(kind), a), b) & mask)


@kernel
def _fill(weights, variance):
    """Set all variances of pairs (mean, variance)."""
    for w in range(1, weights.shape[0], 2):
        weights[w] = variance


@kernel
def _sigmoid(z):
    return 1.0 / (1.0 + exp(-z))


def contributions(p: Mapping[str, Any], h: Mapping[str, NDArray[Any]], x: Described) -> list[dict[str, float]]:
    """By described item, the parts of its logit in the model in use: place or bias, score, query, item, features,
    crosses."""
    row, state = SimpleNamespace(**p), SimpleNamespace(**{name: values.ravel() for name, values in h.items()})
    j, size = int(state.use[0]), 1 << int(p["hash_bits"])
    d = len(x.dense) // max(1, len(x.item))
    scale_named(row, state, x, 0, len(x.named))
    out = []
    for i in range(len(x.item)):
        k, f = _knot(x.place[i])
        part = {"place": float(curve_at(state, j, k, f)[0])} if k >= 0 else {"bias": float(state.bias[2 * j])}
        if len(x.score):
            part["score"] = float(state.score[2 * j] * x.score[i])
        if j >= _WITH_QUERY:
            part["query"] = float(h["query"][j - _WITH_QUERY, _column(row, _QUERY, x.query, 0), 0])
        begin, end, context_begin, context_end = named_at(x, i)
        if j >= _WITH_ITEMS:
            weights = h["item"].reshape(-1, size, 2)[j - _WITH_ITEMS, :, 0]
            part["item"] = float(weights[_column(row, _ITEM, x.item[i], 0)])
            values = [_scaled(state, x.dense[i * d + c], c, d) for c in range(d)]
            named = [weights[_column(row, _FEATURE, x.named[c], 0)] * x.scaled[c] for c in range(begin, end)]
            if values or named:
                dense = float(h["dense"][j - _WITH_ITEMS, :d, 0] @ values)
                part["features"] = dense + float(sum(named) * named_weight(end - begin))
        m = len(x.crosses) + context_end - context_begin
        if j >= _WITH_CROSSES and m:
            weights = h["cross"].reshape(-1, size, 2)[j - _WITH_CROSSES, :, 0]
            total = 0.0
            for t in range(m):
                token, factor = _of_request(x, t, context_begin)
                crossed = [_column(row, _FEATURE_CROSS, token, x.named[c]) for c in range(begin, end)]
                total += weights[_column(row, _CROSS, token, x.item[i])] * factor
                total += (weights[crossed] @ x.scaled[begin:end]) * factor
            part["crosses"] = float(total / np.sqrt(m * (1 + end - begin)))
        out.append(part)
    return out


def summary(p: Mapping[str, Any], h: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The model in use: its columns, the strength of its priors, how often users go on, attraction by place."""
    state = SimpleNamespace(**{name: values.ravel() for name, values in h.items()})
    j = int(state.use[0])
    columns = ["place"] + ["score"] * int(state.score[2 * j + 1] < _SCORE_VARIANCE)  # of any label
    columns += ["query"] * (j >= _WITH_QUERY) + ["item", "features"] * (j >= _WITH_ITEMS)
    curve = {}
    for k in range(KNOTS):
        eta, v = curve_at(state, j, *_knot(float(2**k)))
        curve[2**k] = float(_sigmoid(eta / np.sqrt(1.0 + _PI_8 * v)))
    return {
        "columns": columns + ["crosses"] * (j >= _WITH_CROSSES),
        "strength": float(min(max(state.nu[j], LEAST), MOST)),
        "going_on": float(going_on_of(state.reading)) if p["stops"] else 1.0,
        "after_click": float(after_click_of(state.reading)) if p["stops"] else 0.0,
        "places": curve,
    }
