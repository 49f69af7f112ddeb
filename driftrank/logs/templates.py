"""Templates of logs: generated lists and their clicks, the Yandex text format, the likelihood of labels."""

# ruff: noqa: F821 - the capital names are bound when a click model is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import exp, log
from driftrank.kernels.rng import below, derive, uniform


def impressions(
    key, first, share, base, segment, until, alphas, row_of, models, model, seen, style, order, items, clicks, query,
    slots, mask,
):  # fmt: skip
    """Fill in ``query``, ``slots`` (by position) and ``mask`` (the clicks) of the lists ``first``, ``first + 1``, ...;
    returns the number of clicks.

    ``share`` is the cumulative frequency of the queries; the items of query q are ``base[q] .. base[q+1]-1``. Its
    segments of constant attraction are ``segment[q] .. segment[q+1]-1``; segment s ends at the step ``until[s]``, and
    its attraction begins at ``alphas[row_of[s]]``. The parameters of query q's users are
    ``models[model[q]] .. models[model[q+1]-1]``. ``seen`` counts the lists of every query. ``order`` holds the items of
    each query by decreasing initial attraction.
    """
    K = slots.shape[1]
    total = 0
    for i in range(query.shape[0]):
        own = derive(key, first + i)
        u = uniform(derive(own, 0))
        low = 0
        high = share.shape[0] - 1
        while low < high:  # the first query whose cumulative share is above u
            middle = (low + high) // 2
            if share[middle] > u:
                high = middle
            else:
                low = middle + 1
        q = low
        query[i] = q
        seen[q] += 1
        s = segment[q]
        while until[s] < seen[q]:
            s += 1
        L = base[q + 1] - base[q]
        alpha = alphas[row_of[s] : row_of[s] + L]
        for a in range(L):
            items[a] = order[base[q] + a] if style > 0 else a
        draw = derive(own, 1)
        if style == 0:  # all orders are equally likely
            for k in range(min(K, L - 1)):
                j = k + below(derive(draw, k), L - k)
                items[k], items[j] = items[j], items[k]
        elif style == 1:  # swap neighbours, one pair after the other
            for k in range(L - 1):
                if uniform(derive(draw, k)) < 0.5:
                    items[k], items[k + 1] = items[k + 1], items[k]
        n = min(K, L)
        total += CLICK(models[model[q] : model[q + 1]], alpha, derive(own, 2), items[:n], clicks)
        found = np.int64(0)
        for k in range(K):
            slots[i, k] = items[k] if k < n else -1
            if k < n and clicks[k]:
                found |= np.int64(1) << k
        mask[i] = found
    return total


@kernel
def digits(out, at, number):
    """Write a non-negative number; returns its end."""
    width = 1
    rest = number // 10
    while rest > 0:
        width += 1
        rest //= 10
    for i in range(width):
        out[at + width - 1 - i] = 48 + number % 10
        number //= 10
    return at + width


@kernel
def tab_and(out, at, letter):
    """Write a tab, a character, a tab."""
    out[at] = 9
    out[at + 1] = letter
    out[at + 2] = 9
    return at + 3


def yandex_lines(first, names, ids, query, pairs, mask, out):
    """Write lists and clicks in the format of the Yandex log, one session per list; returns the number of bytes.

    ``pairs`` has the index into ``ids`` for every position.
    """
    at = 0
    for i in range(query.shape[0]):
        at = digits(out, at, first + i)
        at = tab_and(out, at, 48)  # no time has passed
        out[at] = 81  # Q
        out[at + 1] = 9
        at = digits(out, at + 2, names[query[i]])
        at = tab_and(out, at, 48) - 1  # region 0
        for k in range(pairs.shape[1]):
            out[at] = 9
            at = digits(out, at + 1, ids[pairs[i, k]])
        out[at] = 10
        at += 1
        passed = 0
        for k in range(pairs.shape[1]):
            if mask[i] >> k & 1:
                passed += 10
                at = digits(out, at, first + i)
                out[at] = 9
                at = digits(out, at + 1, passed)
                at = tab_and(out, at, 67)  # C
                at = digits(out, at, ids[pairs[i, k]])
                out[at] = 10
                at += 1
    return at


def largest_likelihoods(sums, e, theta, value):
    """Maximise the log-likelihood C ln(theta) + sum of n_k ln(1 - e_k theta) of every row (C, n_1, n_2, ...) of sums.

    It is concave in theta. Newton's steps are in ln(theta), and lead at most half of the way to 1.
    """
    for i in range(sums.shape[0]):
        clicks = sums[i, 0]
        exposed = 0.0
        for k in range(e.shape[0]):
            exposed += sums[i, k + 1] * e[k]
        x = 0.0 if clicks == 0.0 else clicks / (clicks + exposed)
        move = 1.0 if 0.0 < x < 1.0 else 0.0
        tries = 0
        while abs(move) > 1e-9 and tries < 50:
            tries += 1
            slope = clicks
            bend = 0.0
            for k in range(e.shape[0]):
                odds = e[k] * x / max(1.0 - e[k] * x, 1e-12)
                slope -= sums[i, k + 1] * odds
                bend += sums[i, k + 1] * odds * (1.0 + odds)
            move = min(max(slope / bend, -1.0), 1.0)
            x = min(x * exp(move), 0.5 * (x + 1.0))
        theta[i] = x
        value[i] = clicks * log(x) if clicks > 0.0 else 0.0
        for k in range(e.shape[0]):
            if sums[i, k + 1] > 0.0:
                value[i] += sums[i, k + 1] * log(max(1.0 - e[k] * x, 1e-12))


def list_values(models, begin, alphas, segment, slots, length, work, out):
    """Fill in ``out[i, j]``, the value of the first j + 1 items of list ``i``, or of all if it is shorter.

    ``slots`` has the items by position, ``alphas`` the attraction by segment; the parameters of users with lists of n
    items are ``models[begin[n-1]] .. models[begin[n]-1]``.
    """
    for i in range(slots.shape[0]):
        for j in range(out.shape[1]):
            if j < length[i]:
                users = models[begin[j] : begin[j + 1]]
                out[i, j] = VALUE(users, alphas[segment[i]], slots[i, : j + 1], work)
            else:
                out[i, j] = out[i, j - 1]


def list_clicks(key, models, begin, alphas, segment, slots, length, clicks, mask):
    """Fill in ``mask``, the clicks of a user on every list; arguments as for ``list_values``."""
    for i in range(slots.shape[0]):
        n = length[i]
        CLICK(models[begin[n - 1] : begin[n]], alphas[segment[i]], derive(key, i), slots[i, :n], clicks)
        found = np.int64(0)
        for k in range(n):
            if clicks[k]:
                found |= np.int64(1) << k
        mask[i] = found
