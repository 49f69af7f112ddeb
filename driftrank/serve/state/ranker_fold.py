"""Changes of rankers, resets and imports of queries, folded into the state.

The functions take the state, the number of the record and the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.log.records import Imported, RankerDeleted, RankerSet, Reset, SharedImported
from driftrank.serve.settings.ranker import arms_of, settings_of_arm
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.checkpoint import DoneOperation
from driftrank.serve.state.query import Query
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state_data import StateData, log_not_learnt

#: operations that are remembered
_OPERATIONS = 1000


def ranker_set(state: StateData, seq: int, record: RankerSet) -> None:
    """A ranker is created or changed."""
    ranker = state.rankers.get(record.ranker)
    if ranker is None:
        state.rankers[record.ranker] = Ranker(record.ranker, record.settings, seq, chosen=record.chosen)
        _note_operation(state, seq, record, "created", state.rankers[record.ranker], after=record.settings)
        return
    before, after = ranker.settings, record.settings
    new_k = before.k != after.k
    begins: list[str] = []  # names of arms; the ranker's own has none
    for name, arm in [("", ranker), *ranker.arms.items()]:
        if name and name not in arms_of(after):
            begins.append(name)
            continue
        costs = arm.costs(settings_of_arm(after, name) if name else after)
        if costs or (new_k and not record.keep):
            begins.append(name)
        elif new_k:
            arm.sizes.append((seq, after.k))
    changing = [arm for arm in map(ranker.arm, begins) if arm is not None]
    _restart(state, ranker, seq, changing)
    ranker.set(after, chosen=record.chosen, seq=seq)
    # to remove an arm that has learnt nothing discards nothing
    discarded = (record.steps or 0) if "" in begins or record.steps else None
    _note_operation(state, seq, record, "changed", ranker, before=before, after=after, discarded=discarded)


def ranker_deleted(state: StateData, seq: int, record: RankerDeleted) -> None:
    """A ranker is deleted."""
    ranker = state.rankers.pop(record.ranker, None)
    if ranker is not None:
        _note_operation(state, seq, record, "deleted", ranker, before=ranker.settings, discarded=record.steps)
        for arm in ranker.every_arm():
            arm.gone = True
            _drop_queries(state, arm)
        state.metrics.forget(record.ranker)


def reset(state: StateData, seq: int, record: Reset) -> None:
    """All queries of a ranker, or one, begin again."""
    ranker = state.rankers.get(record.ranker)
    if ranker is None:
        return
    if record.query is None:
        _note_operation(state, seq, record, "reset", ranker, before=ranker.settings, discarded=record.steps)
        _restart(state, ranker, seq, ranker.every_arm())
        return
    kind = "deleted" if record.gone else "reset"
    _note_operation(state, seq, record, kind, ranker, query=record.query, discarded=record.steps)
    ranker.traffic.forget(record.query)
    if any(change.query == record.query for change in ranker.changes):
        ranker.changes = [change for change in ranker.changes if change.query != record.query]
        state.changes_stored = False
    state.found = [(name, it) for name, it in state.found if (name, it.query) != (record.ranker, record.query)]
    for arm in ranker.every_arm():
        _reset_query(state, seq, arm, record.query, gone=record.gone)


def imported(state: StateData, seq: int, record: Imported) -> None:
    """The state of a query comes from elsewhere."""
    arm = state.arm_of(record)
    if arm is None or not state.queries.holds((arm.owner, record.query)):
        return
    query = state.query(arm, record.query)
    if query is not None and query.seq >= seq:
        return
    try:
        fresh = Query.from_bytes(record.state)
        fresh.fit(arm.policy, arm.settings.k)
    except ValueError as error:  # unknown here, or the ranker has changed since the request
        log_not_learnt(seq, error)
        return
    fresh.since = fresh.seq = fresh.resized = seq
    fresh.offered = None  # of another log, or of a time before it
    arm.queries += query is None
    arm.steps += fresh.steps - (query.steps if query else 0)
    arm.clicks += fresh.clicks - (query.clicks if query else 0)
    arm.value += fresh.value - (query.value if query else 0.0)
    arm.impressions += fresh.impressions - (query.impressions if query else 0)
    state.queries.replace((arm.owner, record.query), fresh)


def shared_imported(state: StateData, seq: int, record: SharedImported) -> None:
    """A shared model comes from elsewhere."""
    arm = state.arm_of(record)
    if arm is None:
        return
    try:
        model = SharedModel.from_bytes(record.state)
        if model.policy != arm.policy:
            raise ValueError(f"the shared model of {model.policy.spec}")
    except ValueError as error:
        log_not_learnt(seq, error)
        return
    arm.restore_shared(model, seq)
    arm.shared_stored = 0


def _reset_query(state: StateData, seq: int, arm: Arm, name: str, *, gone: bool) -> None:
    query = state.query(arm, name) if state.queries.holds((arm.owner, name)) else None
    if query is None or query.seq >= seq:
        return
    key = (arm.owner, name)
    if gone or arm.policy.contextual:  # features are not kept without what was learnt with them
        arm.queries -= 1
        state.queries.delete(key)
        return
    fresh = Query(arm.new_learner(name, list(query.seen)), seq)
    if not fresh.learner.open:
        fresh.seen, fresh.all_seen, fresh.sweep = query.seen, query.all_seen, query.sweep
    fresh.measure()
    state.queries.replace(key, fresh)


def _restart(state: StateData, ranker: Ranker, seq: int, arms: Iterable[Arm]) -> None:
    """Begin new generations of some arms of a ranker."""
    for arm in arms:
        arm.restart(seq)
        _drop_queries(state, arm)
        ranker.experiment.forget({arm.label} if arm.label else {"live", "shadow", "safe"})
    ranker.experiment.begin(ranker.split, ranker.planned, seq)


def _drop_queries(state: StateData, arm: Arm) -> None:
    state.outdated.add(arm.owner)
    state.queries.drop_ranker(arm.owner)


def _note_operation(
    state: StateData, seq: int, record: RankerSet | RankerDeleted | Reset, kind: Any, ranker: Ranker, **more: Any
) -> None:
    undoes = getattr(record, "undoes", 0) or None
    entry = DoneOperation(
        seq, record.time, record.ranker, kind, record.by or "unknown", undoes=undoes, created=ranker.created, **more
    )
    state.operations.append(entry)
    del state.operations[:-_OPERATIONS]
