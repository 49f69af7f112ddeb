r"""Fit the models in which the click probability is attraction times examination, :math:`P(C = 1) = \alpha_a \kappa_i`.

Examination depends on a cell i: the rank (PBM), or the rank and that of the last click above it (UBM). The complete
data are the clicks and the examinations; given no click, an item was examined with probability
:math:`e = \kappa (1-\alpha) / (1 - \kappa \alpha)`. With n views and c clicks in a row, that is
x = c + (n - c) e times: :math:`\kappa_i = \sum x / \sum n` and :math:`\alpha_a = \sum c / \sum x`. Only products can
be identified, so the cell of the first rank is fixed at 1. The log-likelihood is concave in the logarithms of the
parameters: it has one maximum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.fitting import templates
from driftrank.clickmodels.fitting.counts import PositionCounts
from driftrank.clickmodels.fitting.em import (
    Expected,
    FitOptions,
    Indices,
    Numbers,
    blocks_of,
    in_parts,
    prior_mean,
    run_em,
    run_parts,
)
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.clickmodels.fitting.intervals import EDGE, parabola_interval, pseudo_count_interval
from driftrank.kernels.compile import specialise


class PositionData:
    """The rows of a log, one per pair and cell, sorted; the E-step over them."""

    def __init__(self, counts: PositionCounts, cell: NDArray[np.int64], cells: int, per_query: bool) -> None:
        pairs = counts.pairs
        self.cells, self.per_query, self.queries = cells, per_query, len(pairs.queries)
        key = counts.pair.astype(np.int64) * cells + cell
        order = np.argsort(key, kind="stable") if np.any(np.diff(key) < 0) else np.arange(len(key))
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))  # the first row of every (pair, cell)
        first = key[order][begins]
        self.pair, self.cell = first // cells, (first % cells).astype(np.int32)
        self.views = _add_up(counts.views[order], begins)
        self.clicks = _add_up(counts.clicks[order], begins)
        self.pair_starts = pairs.starts
        self.row_starts = np.searchsorted(self.pair, np.arange(len(pairs) + 1))
        self.group = np.arange(self.queries) if per_query else np.zeros(self.queries, np.int64)
        self.groups = self.queries if per_query else 1
        self.rows_of_query = np.diff(self.row_starts[self.pair_starts])
        size = self.groups * cells
        self.slot = self.group[pairs.query[self.pair]] * cells + self.cell  # of a row, among the cells of all groups
        self.pair_views = np.bincount(self.pair, self.views, len(pairs))
        self.pair_clicks = np.bincount(self.pair, self.clicks, len(pairs))
        self.cell_views = np.bincount(self.slot, self.views, size)
        self.cell_clicks = np.bincount(self.slot, self.clicks, size)
        self.step = specialise(templates.examination_pass, {})

    def expect(self, theta: Numbers, queries: Indices) -> Expected:
        pairs = len(self.pair_views)
        alpha, kappa = theta[:pairs], theta[pairs:].reshape(self.groups, self.cells)
        parts = in_parts(queries, self.rows_of_query)
        examined, fit = np.zeros(pairs), np.zeros(self.queries)
        sums = np.zeros((self.groups if self.per_query else max(1, len(parts)), self.cells))

        def work(n: int) -> None:
            self.step(
                parts[n], self.pair_starts, self.row_starts, self.cell, self.views, self.clicks, self.pair_clicks,
                alpha, kappa, self.group, not self.per_query, n, examined, sums, fit,
            )  # fmt: skip

        run_parts(work, parts)
        if not self.per_query:
            sums = sums.sum(axis=0)
        of_cells = self.cell_clicks * np.log(theta[pairs:])  # the part of ln alpha kappa that the pass leaves out
        if self.per_query:
            fit += of_cells.reshape(self.groups, self.cells).sum(axis=1)
        else:
            fit[0] += of_cells.sum()
        successes = np.concatenate([self.pair_clicks, sums.ravel()])
        return Expected(successes, np.concatenate([examined, self.cell_views]), fit)

    def variances(self, theta: Numbers, fixed: NDArray[np.bool_], b: Numbers) -> tuple[Numbers, Numbers]:
        """Variances of the logits of attraction and examination; ``b`` are the trials of every parameter's prior."""
        step = specialise(templates.examination_information, {})
        pairs = len(self.pair_views)
        alpha, kappa = theta[:pairs], theta[pairs:].reshape(self.groups, self.cells)
        item_extra = b[:pairs] * alpha * (1 - alpha)
        of_prior = b[pairs:].reshape(self.groups, self.cells)
        of_items, of_cells = np.zeros(pairs), np.zeros((self.groups, self.cells))
        cross = np.zeros(self.cells)
        for g in range(self.groups):
            schur = np.diag(np.where(fixed, 0.0, of_prior[g] * kappa[g] * (1 - kappa[g])))
            first, last = (g, g + 1) if self.per_query else (0, self.queries)
            step(
                first, last, self.pair_starts, self.row_starts, self.cell, self.views, alpha, kappa[g], fixed,
                item_extra, schur, cross, of_items,
            )  # fmt: skip
            of_cells[g] = np.diagonal(schur)
        return of_items, of_cells


def fit_examination(
    model: type[ClickModel],
    counts: PositionCounts,
    cell: NDArray[np.int64],
    cells: int,
    table: Callable[[Numbers, float], Numbers],
    options: FitOptions,
) -> Fit:
    """Run EM, starting from the click-through rates and 1/2.

    Parameters
    ----------
    cell
        The cell of each row. Cell 0, of the first rank, is certainly read.
    table
        Maps (groups, cells) to the parameter of the model, and a number for entries without a cell.
    """
    rows = PositionData(counts, cell, cells, options.per_query)
    pairs = len(counts.pairs)
    prior = options.attraction(rows.pair_clicks.sum(), rows.pair_views.sum())
    a, b = (
        np.concatenate([np.full(pairs, of_items), np.full(rows.groups * cells, other)])
        for of_items, other in zip(prior, options.others, strict=True)
    )
    fixed = np.arange(cells) == 0
    held = np.concatenate([np.zeros(pairs, bool), np.tile(fixed, rows.groups)])
    start = np.full(pairs + rows.groups * cells, 0.5)
    start[:pairs] = (rows.pair_clicks + 1) / (rows.pair_views + 2)
    start[held] = 1.0
    blocks = blocks_of(counts.pairs.query, rows.queries, 1, cells, options.per_query)
    result = run_em(rows.expect, start, held, blocks, (a, b), options)
    theta, found = result.theta, result.expected
    of_items, of_cells = rows.variances(theta, fixed, b)
    score = (found.successes + a - theta * (found.trials + b))[pairs:].reshape(rows.groups, cells)
    alpha, kappa = theta[:pairs], theta[pairs:].reshape(rows.groups, cells)
    low, high = parabola_interval(np.minimum(kappa, 1 - EDGE), of_cells, score, options.level)
    ends = pseudo_count_interval(alpha, of_items, prior, options.level)
    return Fit.of(
        model,
        counts,
        rows.pair_views,
        {"attraction": alpha, "examination": table(kappa, prior_mean(options.others))},
        {"attraction": ends[0], "examination": table(np.where(fixed, 1.0, low), 0.0)},
        {"attraction": ends[1], "examination": table(np.where(fixed, 1.0, high), 1.0)},
        options,
        prior,
        result,
    )


def _add_up(values: NDArray[np.int64], begins: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.add.reduceat(values.astype(np.int64), begins) if len(begins) else np.zeros(0, np.int64)
