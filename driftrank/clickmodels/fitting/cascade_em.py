"""Fit the models in which users read from the top and leave unobserved: EM over whole lists.

The hidden state and the E-step of one list are in :mod:`driftrank.clickmodels.fitting.e_step`.
"""

from __future__ import annotations

import numpy as np

from driftrank.clickmodels.base import ITEM, ONE, RANK, ClickModel
from driftrank.clickmodels.fitting import templates
from driftrank.clickmodels.fitting.counts import ListCounts
from driftrank.clickmodels.fitting.e_step import HiddenKernels, expectation
from driftrank.clickmodels.fitting.em import (
    Expected,
    FitOptions,
    Indices,
    Numbers,
    blocks_of,
    in_parts,
    run_em,
    run_parts,
)
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.intervals import parabola_interval, pseudo_count_interval
from driftrank.clickmodels.fitting.sorted_lists import SortedLists
from driftrank.kernels.compile import specialise

#: the information matrix of a query with more item parameters than this is taken to be diagonal
_LARGEST = 400


class _ListData:
    """The lists of a log, and the E-step over them."""

    def __init__(
        self, counts: ListCounts, hidden: HiddenKernels, per_item: int, per_group: int, per_query: bool
    ) -> None:
        self.lists = SortedLists(counts)
        self.pairs, self.queries, self.k = len(counts.pairs), len(counts.pairs.queries), counts.k
        self.per_item, self.per_group, self.per_query = per_item, per_group, per_query
        self.pair_starts = counts.pairs.starts
        self.group = np.arange(self.queries) if per_query else np.zeros(self.queries, np.int64)
        self.groups = self.queries if per_query else 1
        self.size = self.pairs * per_item  # of the item part of a parameter vector
        self.rows_of_query = np.diff(self.lists.starts) * counts.k
        self.bindings = {"EXPECT": expectation(hidden)}
        self.step = specialise(templates.chain_pass, self.bindings)

    def buffers(self) -> tuple[Numbers, ...]:
        """Buffers for the E-step of one list."""
        per = (self.k, self.per_item)
        return np.zeros(self.k + 1), np.zeros(per), np.zeros(per), np.zeros(self.per_group), np.zeros(self.per_group)

    def split(self, theta: Numbers) -> tuple[Numbers, Numbers]:
        return (
            theta[: self.size].reshape(self.pairs, self.per_item),
            theta[self.size :].reshape(self.groups, self.per_group),
        )

    def expect(self, theta: Numbers, queries: Indices) -> Expected:
        x, g = self.split(theta)
        parts = in_parts(queries, self.rows_of_query)
        of_items = np.zeros((2, self.pairs, self.per_item))
        of_groups = np.zeros((2, self.groups if self.per_query else max(1, len(parts)), self.per_group))
        fit = np.zeros(self.queries)
        lists = self.lists

        def work(n: int) -> None:
            self.step(
                parts[n], lists.starts, lists.slots, lists.mask, lists.lists, x, g, self.group, not self.per_query, n,
                *self.buffers(), of_items[0], of_items[1], of_groups[0], of_groups[1], fit,
            )  # fmt: skip

        run_parts(work, parts)
        if not self.per_query:
            of_groups = of_groups.sum(axis=1)
        found = [np.concatenate([i.ravel(), g.ravel()]) for i, g in zip(of_items, of_groups, strict=True)]
        return Expected(found[0], found[1], fit)

    def variances(self, theta: Numbers, extra: Numbers) -> Numbers:
        """Variances of the logits of all parameters; ``extra`` is information beyond the products of scores."""
        step = specialise(templates.chain_information, self.bindings)
        x, g = self.split(theta)
        item_extra, group_extra = extra[: self.size], extra[self.size :].reshape(self.groups, self.per_group)
        widest = int(np.diff(self.pair_starts).max(initial=0)) * self.per_item
        size = min(widest, _LARGEST)
        matrix, border = np.zeros((size, size)), np.zeros(size)
        of_items, of_groups = np.zeros(self.size), np.zeros((self.groups, self.per_group))
        solved = np.zeros((self.size, self.per_group))
        lists = self.lists
        for n in range(self.groups):
            schur = np.diag(group_extra[n])
            first, last = (n, n + 1) if self.per_query else (0, self.queries)
            step(
                first, last, self.pair_starts, lists.starts, lists.slots, lists.mask, lists.lists, x, g[n], item_extra,
                *self.buffers(), matrix, border, schur, of_items, solved,
            )  # fmt: skip
            of_groups[n] = np.diagonal(schur)
        return np.concatenate([of_items, of_groups.ravel()])


def fit_cascade(model: type[ClickModel], hidden: HiddenKernels, counts: ListCounts, options: FitOptions) -> Fit:
    """Run EM, starting from the click-through rates and 1/2. An item has its attraction and the model's parameters of
    items, a group all others, in the order of the model's ``shape``."""
    width = {ITEM: 1, ONE: 1, RANK: counts.k}
    per_item = 1 + sum(kind == ITEM for kind in model.shape.values())
    per_group = sum(width[kind] for kind in model.shape.values() if kind != ITEM)
    data = _ListData(counts, hidden, per_item, per_group, options.per_query)
    views, clicks = data.lists.per_pair(data.pairs)
    prior = options.attraction(clicks.sum(), views.sum())
    a, b = (np.full(data.size + data.groups * per_group, other) for other in options.others)
    a[: data.size : per_item], b[: data.size : per_item] = prior
    start = np.full(data.size + data.groups * per_group, 0.5)
    start[: data.size : per_item] = (clicks + 1) / (views + 2)
    blocks = blocks_of(counts.pairs.query, data.queries, per_item, per_group, options.per_query)
    result = run_em(data.expect, start, np.zeros(len(start), bool), blocks, (a, b), options)
    theta, found = result.theta, result.expected
    # products of scores estimate the information on the scale of the probability; on that of the logit it has a term
    # proportional to the score, which is not 0 with a prior or at the edges
    seen = found.successes - theta * found.trials
    variance = data.variances(theta, b * theta * (1 - theta) - seen * (1 - 2 * theta))
    low, high = parabola_interval(theta, variance, seen + a - theta * b, options.level)
    attraction = slice(0, data.size, per_item)
    low[attraction], high[attraction] = pseudo_count_interval(
        theta[attraction], variance[attraction], prior, options.level
    )

    def named(values: Numbers) -> dict[str, Numbers]:
        of_items, of_groups = data.split(values)
        parts = {"attraction": of_items[:, 0]}
        i, g = 1, 0
        for name, kind in model.shape.items():
            if kind == ITEM:
                parts[name] = of_items[:, i]
                i += 1
            else:
                parts[name] = of_groups[:, g] if kind == ONE else of_groups[:, g : g + width[kind]]
                g += width[kind]
        return parts

    return Fit.of(model, counts, views, named(theta), named(low), named(high), options, prior, result)
