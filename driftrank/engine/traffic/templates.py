"""The templates of Traffic: the lists of one run, what a query learns of its world, what a policy learns of a list."""

# ruff: noqa: F821 - the capital names are bound when a policy is compiled
# mypy: ignore-errors

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.alarm_scoring import count_alarms, note_change
from driftrank.engine.templates import Rows, reset
from driftrank.environments.traffic.world import (
    EPOCH,
    call_order,
    features_of,
    pairs_of,
    query_of,
    refresh,
    turn_to,
)
from driftrank.kernels import kernel
from driftrank.kernels.rng import POLICY, USERS, derive
from driftrank.kernels.structures import Candidates, Described, Event, Ranking

#: places of the measures in ``totals``: those of all environments, the caller's value, those by age and by frequency
_REGRET, _REWARD, _CLICKS, _BASELINE, _AGE, _FREQUENCY = 0, 1, 2, 7, 8, 24


class States(NamedTuple):
    """The states of all queries, a row each, and the state before the first list."""

    floats: NDArray[np.float64]
    ints: NDArray[np.int32]
    fresh_floats: NDArray[np.float64]
    fresh_ints: NDArray[np.int32]
    offsets: NDArray[np.int64]
    features: int  #: the place of the items' features in the floats; -1 if they are not written there
    steps: NDArray[np.int64]  #: lists that a query has learnt from
    seen: NDArray[np.int64]  #: its lists so far
    origin: NDArray[np.int64]  #: steps before its last restart
    frequency: NDArray[np.int8]  #: its group by the number of all its lists
    watch: NDArray[np.float64]  #: the state of the alarm counts
    best: NDArray[np.int32]  #: the best list
    optimal: NDArray[np.float64]  #: its value
    baseline: NDArray[np.float64]  #: the value of the caller's list


class SharedRows(NamedTuple):
    """The memory of the shared model."""

    floats: NDArray[np.float64]
    ints: NDArray[np.int32]
    offsets: NDArray[np.int64]


class Pending(NamedTuple):
    """Lists that the policy has not learnt from, a row each: as many as feedback is late, and one."""

    query: NDArray[np.int64]
    length: NDArray[np.int64]
    key: NDArray[np.uint64]
    items: NDArray[np.uint32]  #: slots
    score: NDArray[np.float64]
    memo: NDArray[np.float64]
    clicks: NDArray[np.int8]
    token: NDArray[np.int64]
    place: NDArray[np.float64]
    dense: NDArray[np.float64]


class Call(NamedTuple):
    """Buffers for the candidates of one list."""

    everyone: NDArray[np.uint32]  #: all slots
    slots: NDArray[np.uint32]  #: in the caller's order
    place: NDArray[np.float64]  #: by slot
    prior: NDArray[np.float64]
    dense: NDArray[np.float64]
    scratch: NDArray[np.float64]
    fixed: NDArray[np.int32]


@kernel
def group_of(n):
    """The group of a number of lists: from 0, 10, 100, 1000 on."""
    if n < 100:
        return 0 if n < 10 else 1
    return 2 if n < 1000 else 3


@kernel
def show_as_given(r, slots, shares):
    """Bring a list of the first candidates into their order: it was made elsewhere, and the policy learns from it.

    The notes of a policy with a shared model do not depend on positions and stay with their items; those of others are
    lost.
    """
    K = r.items.shape[0]
    memos = r.memo.shape[0] // K
    for k in range(K):
        j = k
        while r.items[j] != slots[k]:
            j += 1
        r.items[j], r.items[k] = r.items[k], r.items[j]
        r.score[j], r.score[k] = r.score[k], r.score[j]
        for m in range(memos):
            r.memo[j * memos + m], r.memo[k * memos + m] = r.memo[k * memos + m], r.memo[j * memos + m]
    if not shares:
        for k in range(K):
            r.score[k] = 0.0
        for m in range(r.memo.shape[0]):
            r.memo[m] = -1.0


@kernel
def described(v, w, q, token, place, dense):
    """Items as the shared model sees them; the request has one token, the query's topic, if there are topics."""
    none = place[:0]
    topic = w.topic[q : q + min(1, v.topics)]
    return Described(np.uint64(q), token, place, dense, topic, none, token[:0], w.topic[:0], none, none)


def simulate(
    row, world_row, key, world_key, w, states, shared, pending, call, model, work, first, last, checkpoints, mark,
    totals, out,
):  # fmt: skip
    """Advance one run from list ``first`` to ``last``; measures are copied to ``out`` at every checkpoint."""
    p = PARAMETERS(row)
    v = WORLD_PARAMETERS(world_row)
    h = SHARED(shared.floats, shared.ints, shared.offsets)
    L = call.slots.shape[0]
    memos = pending.memo.shape[1] // pending.items.shape[1]
    late = pending.query.shape[0] - 1
    if first == 1:
        SHARED_INIT(p, h)
    due = checkpoints[mark]
    for i in range(first, last + 1):
        turn_to(v, w, world_key, i)
        q = query_of(w, world_key, i)
        now = i % (late + 1)
        list_key = derive(key, i)
        pending.query[now] = q
        pending.key[now] = derive(list_key, POLICY)
        s = STATE(states.floats[q], states.ints[q], states.offsets)
        at, n = pairs_of(w, q)
        K = min(pending.items.shape[1], n)
        pending.length[now] = K
        token = w.token[at : at + n]
        alpha = w.alpha[at : at + n]
        if w.epoch[q] != w.clock[EPOCH]:
            CATCH_UP(p, s, v, w, world_key, q, states, pending.key[now], call, model, work)
        baseline = states.baseline[q]
        if v.jitter > 0.0:
            call_order(v, w, world_key, i, q, call.slots, call.place)
            baseline = VALUE(model, alpha, call.slots[:K], work)
        going_on, after_click = 0.0, 0.0
        if SHARES:
            for a in range(n):
                features_of(v, w, q, a, call.dense[a * v.d : (a + 1) * v.d])
            x = described(v, w, q, token, call.place[:n], call.dense[: n * v.d])
            going_on, after_click = SHARED_PRIOR(p, h, x, call.prior)
        t = states.steps[q] + 1 - states.origin[q]
        e = Event(t, np.float64(t), pending.key[now])
        r = Ranking(pending.items[now, :K], pending.score[now, :K], pending.memo[now, : K * memos], call.scratch)
        warm = i <= v.warm
        if n < L or warm:  # the row may have items that are not among the candidates
            for k in range(K):
                r.items[k] = call.slots[k]
        RANK(p, s, e, Candidates(call.slots[: K if warm else n], token, call.prior, going_on, after_click), r)
        if warm:
            show_as_given(r, call.slots, SHARES)
        value = VALUE(model, alpha, r.items, work)
        regret = states.optimal[q] - value
        totals[_REGRET] += regret
        totals[_REWARD] += value
        totals[_CLICKS] += CLICK(model, alpha, derive(list_key, USERS), r.items, pending.clicks[now, :K])
        totals[_BASELINE] += baseline
        for at in (_AGE + 4 * group_of(states.seen[q]), _FREQUENCY + 4 * states.frequency[q]):
            totals[at] += 1.0
            totals[at + 1] += regret
            totals[at + 2] += value
            totals[at + 3] += baseline
        states.seen[q] += 1
        for k in range(K):
            a = np.int64(r.items[k])
            pending.token[now, k] = token[a]
            if SHARES:
                pending.place[now, k] = call.place[a]
                features_of(v, w, q, a, pending.dense[now, k * v.d : (k + 1) * v.d])
        if i > late:
            LEARN(p, h, v, w, states, pending, (i - late) % (late + 1), totals)
        if i == due:
            for m in range(totals.shape[0]):
                out[mark * totals.shape[0] + m] = totals[m]
            mark += 1
            due = checkpoints[mark]


def catch_up(p, s, v, w, key, q, states, event_key, call, model, work):
    """Bring a query up to date with its world: first its attraction, then the policy's state."""
    at, n = pairs_of(w, q)
    K = min(call.fixed.shape[0], n)
    fresh = w.epoch[q] == 0
    refresh(v, w, key, q)
    alpha = w.alpha[at : at + n]
    best = states.best[q, :K]
    states.optimal[q] = OPTIMUM(model, alpha, best, work)
    states.baseline[q] = VALUE(model, alpha, call.everyone[:K], work)
    everyone = Candidates(call.everyone[:n], w.token[at : at + n], call.prior, 0.0, 0.0)
    if fresh:
        states.steps[q] = 0
        states.seen[q] = 0
        for i in range(states.watch.shape[1]):
            states.watch[q, i] = 0.0
    if fresh or RESTARTS:
        reset(Rows(states.floats[q], states.ints[q], states.fresh_floats, states.fresh_ints))
        states.origin[q] = states.steps[q]
    t = states.steps[q] + 1 - states.origin[q]
    e = Event(t, np.float64(t), event_key)
    for a in range(n):
        if states.features >= 0 and (fresh or RESTARTS or w.fresh[a] == 2):
            begin = states.features + a * v.d
            features_of(v, w, q, a, states.floats[q, begin : begin + v.d])
        if w.fresh[a] == 2 and not (fresh or RESTARTS):
            FORGET(p, s, e, a)
    if fresh or RESTARTS:
        INIT(p, s, e, everyone)
    REVEAL(p, s, e, everyone, alpha, best, call.fixed)
    note_change(states.watch[q], alpha, w.fresh[:n], states.seen[q] + 1)


def learn(p, h, v, w, states, pending, n, totals):
    """Let the policy learn from a list, if it still has the items."""
    q, K = pending.query[n], pending.length[n]
    at = pairs_of(w, q)[0]
    memos = K * (pending.memo.shape[1] // pending.items.shape[1])
    r = Ranking(pending.items[n, :K], pending.score[n, :K], pending.memo[n, :memos], pending.score[n, :0])
    clicks = pending.clicks[n, :K]
    t = states.steps[q] + 1 - states.origin[q]
    e = Event(t, np.float64(t), pending.key[n])
    observed = OBSERVED(p, e, r, clicks)
    if SHARES:
        x = described(v, w, q, pending.token[n, :K], pending.place[n, :K], pending.dense[n, : K * v.d])
        SHARED_LEARN(p, h, e, r, x, clicks, observed)
    for k in range(K):
        if w.token[at + r.items[k]] != pending.token[n, k]:
            return
    s = STATE(states.floats[q], states.ints[q], states.offsets)
    heard = ALARMED(p, s)
    UPDATE(p, s, e, r, clicks, observed)
    states.steps[q] += 1
    raised = ALARMED(p, s)
    while heard < raised:
        a, everything = ALARM(p, s, heard)
        count_alarms(states.watch[q], a, everything, states.seen[q], totals)
        heard += 1
