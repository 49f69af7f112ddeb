"""Templates: passes over the counts of a log, for estimates, their intervals, and evaluation."""

# ruff: noqa: F821 - the capital names are bound when a click model is compiled
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from driftrank.clickmodels.fitting.e_step import list_length
from driftrank.kernels import kernel
from driftrank.kernels.elementary import log

# ---- steps of EM


def maximise(theta, successes, trials, fixed, block, live, a, b, edge, value, out):
    """The M-step of all parameters of live blocks; adds the logarithms of their priors (a, b) to ``value``."""
    for i in range(theta.shape[0]):
        j = block[i]
        if live[j] and not fixed[i]:
            old = theta[i]
            of = trials[i] + b[i]
            new = (successes[i] + a[i]) / of if of > 0.0 else old
            out[i] = min(max(new, edge), 1.0 - edge)
            if b[i] > 0.0:
                value[j] += a[i] * log(old) + (b[i] - a[i]) * log(1.0 - old)


def stride(at, once, twice, block, live, square_r, square_v):
    """By block, the squared lengths of the first of two steps, r, and of its difference to the second, v."""
    for i in range(at.shape[0]):
        j = block[i]
        if live[j]:
            r = once[i] - at[i]
            v = twice[i] - once[i] - r
            square_r[j] += r * r
            square_v[j] += v * v


def leap(at, once, twice, fixed, block, live, length, edge, far):
    """Take the long step of length s of each block: to at + 2 s r + s^2 v."""
    for i in range(at.shape[0]):
        j = block[i]
        if live[j] and not fixed[i]:
            s = length[j]
            r = once[i] - at[i]
            v = twice[i] - once[i] - r
            far[i] = min(max(at[i] + s * (2.0 * r + s * v), edge), 1.0 - edge)


def largest_move(at, once, block, live, moved):
    """By block, the largest change of a parameter in a step."""
    for i in range(at.shape[0]):
        j = block[i]
        if live[j]:
            moved[j] = max(moved[j], abs(once[i] - at[i]))


# ---- models that multiply attraction and examination: PBM, UBM


def examination_pass(
    queries, pair_starts, row_starts, cell, views, clicks, pair_clicks, alpha, kappa, group, shared, part, examined,
    cell_sums, fit,
):  # fmt: skip
    """E-step over the rows of these queries: expected examinations of each item and cell, and the log-likelihood.

    ``cell_sums`` has a row for every group or, if all queries share theirs, for every part of the work. The caller adds
    the clicks' logarithms of ``kappa``, which need no pass.
    """
    for i in range(queries.shape[0]):
        q = queries[i]
        row = kappa[group[q]]
        sums = cell_sums[part if shared else group[q]]
        missed = 0.0
        for p in range(pair_starts[q], pair_starts[q + 1]):
            a = alpha[p]
            read = 0.0
            for n in range(row_starts[p], row_starts[p + 1]):
                k = row[cell[n]]
                c = np.float64(clicks[n])
                d = np.float64(views[n]) - c
                rest = 1.0 - k * a
                x = c + d * (k * (1.0 - a) / rest)
                read += x
                sums[cell[n]] += x
                missed += d * log(rest)
            examined[p] = read
            missed += pair_clicks[p] * log(a)
        fit[q] = missed


def examination_information(
    first, last, pair_starts, row_starts, cell, views, alpha, kappa, fixed, item_extra, schur, cross, item_variance,
):  # fmt: skip
    """Variances on the logit scale by the Fisher information given the lists, for queries that share ``kappa``.

    The block of the items is diagonal, so they are eliminated one by one; ``schur`` holds the information on
    the cells beyond the rows at first, and the covariance of the cells at the end. ``cross`` is a buffer for one item.
    """
    cells = kappa.shape[0]
    for p in range(pair_starts[first], pair_starts[last]):
        own = _item_information(p, row_starts, cell, views, alpha, kappa, fixed, item_extra, cross)
        for n in range(row_starts[p], row_starts[p + 1]):
            i = cell[n]
            k = kappa[i]
            if not fixed[i]:
                u = views[n] * (k * alpha[p]) / (1.0 - k * alpha[p])
                schur[i, i] += u * (1.0 - k) * (1.0 - k)
        if own > 0.0:
            for n in range(row_starts[p], row_starts[p + 1]):
                i = cell[n]
                if cross[i] != 0.0:
                    for m in range(row_starts[p], row_starts[p + 1]):
                        schur[i, cell[m]] -= cross[i] * cross[cell[m]] / own
    _invert(schur, cells)
    for p in range(pair_starts[first], pair_starts[last]):
        own = _item_information(p, row_starts, cell, views, alpha, kappa, fixed, item_extra, cross)
        item_variance[p] = np.inf
        if own > 0.0:
            spread = 0.0
            for n in range(row_starts[p], row_starts[p + 1]):
                i = cell[n]
                if cross[i] != 0.0:
                    for m in range(row_starts[p], row_starts[p + 1]):
                        if cross[cell[m]] != 0.0:
                            spread += cross[i] * schur[i, cell[m]] * cross[cell[m]]
            item_variance[p] = 1.0 / own + spread / (own * own)


@kernel
def _item_information(p, row_starts, cell, views, alpha, kappa, fixed, item_extra, cross):
    """An item's own information; fills in that shared with every cell (a cell is one row of an item)."""
    a = alpha[p]
    own = item_extra[p]
    for n in range(row_starts[p], row_starts[p + 1]):
        i = cell[n]
        k = kappa[i]
        u = views[n] * (k * a) / (1.0 - k * a)
        own += u * (1.0 - a) * (1.0 - a)
        cross[i] = 0.0 if fixed[i] else u * (1.0 - a) * (1.0 - k)
    return own


@kernel
def _invert(matrix, size):
    """Invert a symmetric matrix, given by its lower triangle, in place; rows without information, which have no pivot,
    become infinite on the diagonal and 0 elsewhere."""
    _decompose(matrix, size)
    for j in range(size):  # the lower triangle becomes the inverse of the Cholesky factor
        if matrix[j, j] > 0.0:
            for i in range(j + 1, size):
                total = 0.0
                for m in range(j, i):
                    total += matrix[i, m] * (1.0 / matrix[j, j] if m == j else matrix[m, j])
                matrix[i, j] = -total / matrix[i, i] if matrix[i, i] > 0.0 else 0.0
    for j in range(size):
        if matrix[j, j] > 0.0:
            matrix[j, j] = 1.0 / matrix[j, j]
    for i in range(size):
        for j in range(i + 1):
            total = 0.0
            for m in range(i, size):
                total += matrix[m, i] * matrix[m, j]
            matrix[j, i] = total  # j <= i: the upper triangle is free
    for i in range(size):
        if not matrix[i, i] > 0.0:
            matrix[i, i] = np.inf
        for j in range(i):
            matrix[i, j] = matrix[j, i]


@kernel
def _decompose(matrix, size):
    """The Cholesky factor of a symmetric matrix, in its lower triangle; 0 in the columns that have no pivot."""
    for j in range(size):
        whole = matrix[j, j]
        pivot = whole
        for m in range(j):
            pivot -= matrix[j, m] * matrix[j, m]
        if pivot > 1e-10 * whole:
            root = np.sqrt(pivot)
            matrix[j, j] = root
            for i in range(j + 1, size):
                total = matrix[i, j]
                for m in range(j):
                    total -= matrix[i, m] * matrix[j, m]
                matrix[i, j] = total / root
        else:
            for i in range(j, size):
                matrix[i, j] = 0.0
            for m in range(j):
                matrix[j, m] = 0.0


# ---- models in which users read from the top and leave unobserved: DBN, CCM; DCM, SDBN


def chain_pass(
    queries, list_starts, slots, mask, lists, x, g, group, shared, part, back, num, den, own_num, own_den, item_num,
    item_den, group_num, group_den, fit,
):  # fmt: skip
    """E-step over the lists of these queries: expected successes and trials of all parameters, the log-likelihood.

    ``group_num`` and ``group_den`` have a row for every group or, if all queries share theirs, for every part of the
    work; ``back``, ``num``, ``den``, ``own_num`` and ``own_den`` are buffers for one list.
    """
    for i in range(queries.shape[0]):
        q = queries[i]
        row = g[group[q]]
        to = part if shared else group[q]
        total = 0.0
        for n in range(list_starts[q], list_starts[q + 1]):
            w = np.float64(lists[n])
            total += w * EXPECT(slots[n], mask[n], x, row, back, num, den, own_num, own_den)
            for k in range(slots.shape[1]):
                p = slots[n, k]
                if p < 0:
                    break
                for j in range(x.shape[1]):
                    item_num[p, j] += w * num[k, j]
                    item_den[p, j] += w * den[k, j]
            for j in range(g.shape[1]):
                group_num[to, j] += w * own_num[j]
                group_den[to, j] += w * own_den[j]
        fit[q] = total


def chain_information(
    first, last, pair_starts, list_starts, slots, mask, lists, x, g, item_extra, back, num, den, own_num, own_den,
    matrix, border, schur, item_variance, solved,
):  # fmt: skip
    """Variances on the logit scale by the outer products of the lists' scores, for queries that share ``g``.

    Each query has a block of its own (``matrix``) with a border of the shared parameters; blocks are eliminated one
    after the other. For a query with more parameters than ``matrix`` has rows, only the diagonal is used.
    ``item_extra`` and ``schur`` hold the information beyond the scores at first; ``schur`` is the covariance of the
    group's parameters at the end. ``solved`` is a buffer with a row of them for every parameter of an item.
    """
    per = x.shape[1]
    shared = g.shape[0]
    for q in range(first, last):
        origin = pair_starts[q]
        size = (pair_starts[q + 1] - origin) * per
        dense = size <= matrix.shape[0]
        for i in range(size):
            item_variance[origin * per + i] = item_extra[origin * per + i]
            for j in range(shared):
                solved[origin * per + i, j] = 0.0
        if dense:
            for i in range(size):
                for j in range(i + 1):
                    matrix[i, j] = 0.0
                matrix[i, i] = item_extra[origin * per + i]
        for n in range(list_starts[q], list_starts[q + 1]):
            w = np.float64(lists[n])
            EXPECT(slots[n], mask[n], x, g, back, num, den, own_num, own_den)
            for j in range(shared):
                own_num[j] -= g[j] * own_den[j]  # the score of the group's parameters
            for j in range(shared):
                for i in range(j + 1):
                    schur[j, i] += w * own_num[j] * own_num[i]
            for k in range(slots.shape[1]):
                p = slots[n, k]
                if p < 0:
                    break
                for j in range(per):
                    num[k, j] -= x[p, j] * den[k, j]  # the score of the item's
                    score = w * num[k, j]
                    if score == 0.0:
                        continue
                    i = p * per + j
                    for m in range(shared):
                        solved[i, m] += score * own_num[m]
                    if not dense:
                        item_variance[i] += score * num[k, j]
                        continue
                    i -= origin * per
                    for h in range(k + 1):
                        for m in range(per if h < k else j + 1):
                            other = (slots[n, h] - origin) * per + m
                            matrix[max(i, other), min(i, other)] += score * num[h, m]
        if dense:
            _invert(matrix, size)
            for i in range(size):
                item_variance[origin * per + i] = matrix[i, i]
            for j in range(shared):
                for i in range(size):
                    border[i] = solved[origin * per + i, j]
                for i in range(size):
                    total = 0.0
                    for m in range(size):
                        if matrix[m, m] < np.inf and matrix[i, i] < np.inf:
                            total += matrix[i, m] * border[m]
                    solved[origin * per + i, j] = total
                for h in range(j, shared):
                    total = 0.0
                    for i in range(size):
                        total += solved[origin * per + i, j] * (border[i] if h == j else solved[origin * per + i, h])
                    schur[h, j] -= total
        else:
            for i in range(origin * per, origin * per + size):
                own = item_variance[i]
                item_variance[i] = 1.0 / own if own > 0.0 else np.inf
                for j in range(shared):
                    if own > 0.0:
                        for h in range(j, shared):
                            schur[h, j] -= solved[i, j] * solved[i, h] / own
                for j in range(shared):
                    solved[i, j] = solved[i, j] / own if own > 0.0 else 0.0
    _invert(schur, shared)
    for i in range(pair_starts[first] * per, pair_starts[last] * per):
        for j in range(shared):
            for h in range(shared):
                if schur[j, j] < np.inf and schur[h, h] < np.inf:
                    item_variance[i] += solved[i, j] * schur[j, h] * solved[i, h]


# ---- evaluation of any click model


def evaluation_pass(
    pair_starts, query, slots, mask, lists, alpha, group, head, before, item_rows, m, work, items, marginal, fit,
    shown, missed, missed_given,
):  # fmt: skip
    """The log-likelihood of every list; by rank the number of lists, and -sum ln P of the click or no click there: by
    the marginal probability, and by that given the clicks above.

    ``head`` holds the parameters ``m`` of every group without those of items, which follow after the first
    ``before`` numbers.
    """
    now = -1
    for n in range(slots.shape[0]):
        q = query[n]
        first = pair_starts[q]
        L = pair_starts[q + 1] - first
        if q != now:
            now = q
            g = head[group[q]]
            for j in range(before):
                m[j] = g[j]
            for j in range(item_rows.shape[0]):
                for a in range(L):
                    m[before + j * L + a] = item_rows[j, first + a]
            for j in range(before, g.shape[0]):
                m[item_rows.shape[0] * L + j] = g[j]
        row = m[: head.shape[1] + item_rows.shape[0] * L]
        own = alpha[first : first + L]
        length = list_length(slots[n])
        for k in range(length):
            items[k] = slots[n, k] - first
        MARGINALS(row, own, items[:length], marginal, work)
        w = np.float64(lists[n])
        b = FIRST
        total = 0.0
        for k in range(length):
            clicked = (mask[n] >> k) & 1
            p = CHANCE(row, own, k, items[k], b)
            surprise = -log(max(p if clicked else 1.0 - p, FLOOR))
            total += surprise
            shown[k] += w
            missed_given[k] += w * surprise
            p = marginal[k]
            missed[k] -= w * log(max(p if clicked else 1.0 - p, FLOOR))
            b = AFTER(row, own, k, items[k], b, clicked)
        fit[n] = -total
