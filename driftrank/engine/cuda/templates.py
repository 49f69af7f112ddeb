"""The templates of GPU kernels: one run per thread."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from driftrank.engine.alarm_scoring import watch_size
from driftrank.engine.cuda.views import TILE, float64s, int8s, int32s, int64s, near_float64s, near_int32s, uint64s
from driftrank.kernels import kernel
from driftrank.kernels.structures import Candidates, Ranking


def simulate(
    runs, lanes, first, reach, mark, marks, space, float_slots, int_slots, width,
    keys, settings, queries, fresh, rows, field_sizes, models, model_starts, fresh_floats, fresh_ints, floats, ints,
    checkpoints, count, starts, ends, until, alphas, optimal, best_lists, live, fixed, watch, origins, totals, out,
):  # fmt: skip
    """Advance every run from step ``first`` to the one that all worlds ``reach``.

    Only the first ``lanes`` threads of a warp have a run: when runs are few, threads that diverge should not wait for
    each other. ``settings``, ``queries`` and ``fresh`` give, for each run, its row of parameters, its click model and
    its state before the first step. Memory holds ``space`` segments and ``marks`` checkpoints of a run.
    """
    near_floats = cuda.shared.array(BLOCK_FLOATS, np.float64)
    near_ints = cuda.shared.array(BLOCK_INTS, np.int32)
    near_alpha = cuda.shared.array(BLOCK_ALPHA, np.float64)
    thread = cuda.grid(1)
    run = thread // TILE * lanes + thread % TILE
    if thread % TILE < lanes and run < runs:
        lane = run % TILE
        tile = run - lane  # numbers before the tile, for every number of a run
        setting = int32s(settings, run, 1, 1)[0]
        model = int64s(model_starts, int32s(queries, run, 1, 1)[0], 2, 1)
        p = PARAMETERS(float64s(rows, setting * width, width, 1))
        L = p.L  # a constant in a kernel for one number of items
        template = int32s(fresh, run, 1, 1)[0]
        state = Places(
            near_float64s(near_floats, cuda.threadIdx.x, NEAR_FLOATS, BLOCK),
            near_int32s(near_ints, cuda.threadIdx.x, NEAR_INTS, BLOCK),
            float64s(floats, tile * float_slots + lane, float_slots, TILE),
            int32s(ints, tile * int_slots + lane, int_slots, TILE),
            float64s(fresh_floats, template * float_slots, float_slots, 1),
            int32s(fresh_ints, template * int_slots, int_slots, 1),
        )
        for i in range(NEAR_FLOATS):
            state.near_floats[i] = state.floats[i]
        for i in range(NEAR_INTS):
            state.near_ints[i] = state.ints[i]
        s = STATE(state, int64s(field_sizes, setting * FIELDS, FIELDS, 1))
        items = cuda.local.array(K, np.uint32)
        score = cuda.local.array(K, np.float64)
        memo = cuda.local.array(MEMO, np.float64)
        scratch = cuda.local.array(SCRATCH, np.float64)
        clicks = cuda.local.array(K, np.int8)
        work = cuda.local.array(WORK, np.float64)
        slots = cuda.local.array(PRESENT, np.uint32)
        present = cuda.local.array(PRESENT, np.uint32)
        for i in range(K):
            items[i] = i
        begin = int64s(starts, tile * space + lane, space, TILE)
        end = int64s(ends, tile * space + lane, space, TILE)
        last = int64s(reach, 0, 1, 1)[0]
        segments = int64s(count, run, 1, 1)[0]
        while begin[segments - 1] > last:  # this run got further than the others
            segments -= 1
        int64s(until, run, 1, 1)[0] = end[segments - 1]
        origin = int64s(origins, run, 1, 1)
        origin[0] = ADVANCE(
            p, s, state, EVERYONE(slots, L), present, Ranking(items, score, memo, scratch), clicks,
            uint64s(keys, run, 1, 1)[0], float64s(models, model[0], model[1] - model[0], 1), work, segments, begin,
            float64s(alphas, tile * space * CAPACITY + lane, space * CAPACITY, TILE),
            near_float64s(near_alpha, cuda.threadIdx.x, min(NEAR_ALPHA, L), BLOCK),
            float64s(optimal, tile * space + lane, space, TILE),
            int32s(best_lists, tile * space * K + lane, space * K, TILE),
            int8s(live, tile * space * LIVE + lane, space * LIVE, TILE),
            int32s(fixed, tile * K + lane, K, TILE),
            float64s(watch, tile * WATCH + lane, watch_size(L), TILE), origin[0], first, last,
            int64s(checkpoints, 0, mark + marks + 1, 1), mark,
            float64s(totals, tile * MEASURES + lane, MEASURES, TILE),
            float64s(out, tile * MEASURES * marks + lane, MEASURES * marks, TILE), 0,
        )  # fmt: skip
        for i in range(NEAR_FLOATS):
            state.floats[i] = state.near_floats[i]
        for i in range(NEAR_INTS):
            state.ints[i] = state.near_ints[i]


class Places(NamedTuple):
    """The memory of a state: its first numbers in shared memory during a launch, all of them in global memory before
    and after it; and the state before the first step."""

    near_floats: Any
    near_ints: Any
    floats: Any
    ints: Any
    fresh_floats: Any
    fresh_ints: Any


@kernel
def reset(places):
    """Reset a state to that before the first step."""
    for i in range(places.near_floats.shape[0]):
        places.near_floats[i] = places.fresh_floats[i]
    for i in range(places.near_floats.shape[0], places.floats.shape[0]):
        places.floats[i] = places.fresh_floats[i]
    for i in range(places.near_ints.shape[0]):
        places.near_ints[i] = places.fresh_ints[i]
    for i in range(places.near_ints.shape[0], places.ints.shape[0]):
        places.ints[i] = places.fresh_ints[i]


def everyone(buffer, L):
    """All items as candidates, in a buffer."""
    for a in range(L):
        buffer[a] = a
    return Candidates(buffer[:L], TOKENS, PRIOR, 0.0, 0.0)


@kernel
def fetched(alpha, buffer):
    """Copy the attraction into shared memory."""
    for a in range(alpha.shape[0]):
        buffer[a] = alpha[a]
    return buffer


@kernel
def length_of(lengths, query):
    """The number of items of a query."""
    return int64s(lengths, query, 1, 1)[0]


def unroll(
    runs, lanes, first, last, space, width, keys, queries, row, models, model_starts, bases, base_starts, base_widths,
    lengths, count, starts, ends, until, alphas, optimal, best, live, reach,
):  # fmt: skip
    """Fill in the segments of every run; ``reach`` becomes the last step that all of them cover."""
    thread = cuda.grid(1)
    run = thread // TILE * lanes + thread % TILE
    if thread % TILE < lanes and run < runs:
        lane = run % TILE
        tile = run - lane
        query = int32s(queries, run, 1, 1)[0]
        model = int64s(model_starts, query, 2, 1)
        work = cuda.local.array(WORK, np.float64)
        n, t = UNROLL(
            PARAMETERS(float64s(row, 0, width, 1)), float64s(models, model[0], model[1] - model[0], 1),
            BASE(bases, int64s(base_starts, query, 1, 1)[0], LENGTH(lengths, query),
                 int64s(base_widths, query, 1, 1)[0]),
            uint64s(keys, run, 1, 1)[0], first, last,
            int64s(until, run, 1, 1)[0], int64s(starts, tile * space + lane, space, TILE),
            int64s(ends, tile * space + lane, space, TILE),
            float64s(alphas, tile * space * CAPACITY + lane, space * CAPACITY, TILE),
            float64s(optimal, tile * space + lane, space, TILE),
            int32s(best, tile * space * K + lane, space * K, TILE),
            int8s(live, tile * space * LIVE + lane, space * LIVE, TILE), work,
        )  # fmt: skip
        int64s(count, run, 1, 1)[0] = n
        cuda.atomic.min(int64s(reach, 0, 1, 1), 0, t - 1)
