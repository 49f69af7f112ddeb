"""The templates of the GPU: every thread has a run."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from driftrank.engine.cuda.views import TILE, float64s, int8s, int32s, int64s, near_float64s, near_int32s, uint64s
from driftrank.kernels import kernel
from driftrank.kernels.structures import Candidates, Ranking


def simulate(
    runs, lanes, first, reach, mark, marks, room, float_slots, int_slots, width, model_size,
    keys, settings, queries, fresh, rows, models, fresh_floats, fresh_ints, floats, ints, checkpoints, count, starts,
    ends, until, alphas, optimal, best_lists, live, fixed, watch, origins, totals, out,
):  # fmt: skip
    """Take every run from step ``first`` to the one that all worlds ``reach``.

    Of the threads of a warp only the first ``lanes`` have a run: where runs are few, threads that go different ways
    should not have to wait for each other.
    ``settings``, ``queries`` and ``fresh`` say of each run which of the ``rows`` of parameters, of the ``models`` and
    of the states before the first step is its own. ``out`` has room for ``marks`` checkpoints.
    """
    near_floats = cuda.shared.array(BLOCK_FLOATS, np.float64)
    near_ints = cuda.shared.array(BLOCK_INTS, np.int32)
    near_alpha = cuda.shared.array(BLOCK_ALPHA, np.float64)
    thread = cuda.grid(1)
    run = thread // TILE * lanes + thread % TILE
    if thread % TILE < lanes and run < runs:
        lane = run % TILE
        tile = run - lane  # numbers before the tile, for every number of a run
        p = PARAMETERS(float64s(rows, int32s(settings, run, 1, 1)[0] * width, width, 1))
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
        s = STATE(state)
        items = cuda.local.array(K, np.uint32)
        score = cuda.local.array(K, np.float64)
        memo = cuda.local.array(MEMO, np.float64)
        clicks = cuda.local.array(K, np.int8)
        work = cuda.local.array(WORK, np.float64)
        slots = cuda.local.array(PRESENT, np.uint32)
        present = cuda.local.array(PRESENT, np.uint32)
        for i in range(K):
            items[i] = i
        begin = int64s(starts, tile * room + lane, room, TILE)
        end = int64s(ends, tile * room + lane, room, TILE)
        last = int64s(reach, 0, 1, 1)[0]
        stretches = int64s(count, run, 1, 1)[0]
        while begin[stretches - 1] > last:  # this run got further than the others
            stretches -= 1
        int64s(until, run, 1, 1)[0] = end[stretches - 1]
        origin = int64s(origins, run, 1, 1)
        origin[0] = ADVANCE(
            p, s, state, EVERYONE(slots), present, Ranking(items, score, memo), clicks,
            uint64s(keys, run, 1, 1)[0],
            float64s(models, int32s(queries, run, 1, 1)[0] * model_size, model_size, 1), work, stretches, begin,
            float64s(alphas, tile * room * L + lane, room * L, TILE),
            near_float64s(near_alpha, cuda.threadIdx.x, NEAR_ALPHA, BLOCK),
            float64s(optimal, tile * room + lane, room, TILE),
            int32s(best_lists, tile * room * K + lane, room * K, TILE),
            int8s(live, tile * room * LIVE + lane, room * LIVE, TILE),
            int32s(fixed, tile * K + lane, K, TILE),
            float64s(watch, tile * WATCH + lane, WATCH, TILE), origin[0], first, last,
            int64s(checkpoints, 0, mark + marks + 1, 1), mark,
            float64s(totals, tile * MEASURES + lane, MEASURES, TILE),
            float64s(out, tile * MEASURES * marks + lane, MEASURES * marks, TILE), 0,
        )  # fmt: skip
        for i in range(NEAR_FLOATS):
            state.floats[i] = state.near_floats[i]
        for i in range(NEAR_INTS):
            state.ints[i] = state.near_ints[i]


class Places(NamedTuple):
    """Where a state lies: its first numbers near the threads, all of them in the memory of the GPU, from which the near
    ones are fetched and to which they return; and what it is before the first step."""

    near_floats: Any
    near_ints: Any
    floats: Any
    ints: Any
    fresh_floats: Any
    fresh_ints: Any


@kernel
def reset(places):
    """Make a state as it is before the first step."""
    for i in range(places.near_floats.shape[0]):
        places.near_floats[i] = places.fresh_floats[i]
    for i in range(places.near_floats.shape[0], places.floats.shape[0]):
        places.floats[i] = places.fresh_floats[i]
    for i in range(places.near_ints.shape[0]):
        places.near_ints[i] = places.fresh_ints[i]
    for i in range(places.near_ints.shape[0], places.ints.shape[0]):
        places.ints[i] = places.fresh_ints[i]


def everyone(room):
    """All items as candidates, in room for them."""
    for a in range(room.shape[0]):
        room[a] = a
    return Candidates(room, TOKENS)


@kernel
def fetched(alpha, room):
    """Bring the attraction near."""
    for a in range(alpha.shape[0]):
        room[a] = alpha[a]
    return room


def unroll(
    runs, lanes, first, last, room, width, model_size, keys, queries, row, models, bases, base_starts, base_widths,
    count, starts, ends, until, alphas, optimal, best, live, reach,
):  # fmt: skip
    """Fill in the stretches of every run; ``reach`` becomes the step up to which all have them."""
    thread = cuda.grid(1)
    run = thread // TILE * lanes + thread % TILE
    if thread % TILE < lanes and run < runs:
        lane = run % TILE
        tile = run - lane
        query = int32s(queries, run, 1, 1)[0]
        work = cuda.local.array(WORK, np.float64)
        n, t = UNROLL(
            PARAMETERS(float64s(row, 0, width, 1)), float64s(models, query * model_size, model_size, 1),
            BASE(bases, int64s(base_starts, query, 1, 1)[0], L, int64s(base_widths, query, 1, 1)[0]),
            uint64s(keys, run, 1, 1)[0], first, last,
            int64s(until, run, 1, 1)[0], int64s(starts, tile * room + lane, room, TILE),
            int64s(ends, tile * room + lane, room, TILE),
            float64s(alphas, tile * room * L + lane, room * L, TILE),
            float64s(optimal, tile * room + lane, room, TILE),
            int32s(best, tile * room * K + lane, room * K, TILE),
            int8s(live, tile * room * LIVE + lane, room * LIVE, TILE), work,
        )  # fmt: skip
        int64s(count, run, 1, 1)[0] = n
        cuda.atomic.min(int64s(reach, 0, 1, 1), 0, t - 1)
