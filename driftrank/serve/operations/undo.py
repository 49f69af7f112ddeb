"""Undo an operation on a ranker: fold its records again, up to the operation, and restore what they give."""

from __future__ import annotations

from driftrank.serve.answers.feeds import operations_on
from driftrank.serve.core import unique_id
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.records import Imported, Reset, SharedImported, decode
from driftrank.serve.log.store.base import LogOnly
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.slices import Slices
from driftrank.serve.state.checkpoint import DoneOperation
from driftrank.serve.state.state import State
from driftrank.wire import RankerInfo

#: records that are read, or appended, at once
_SLICE = 100


async def undo(service: Service, name: str, number: int, by: str) -> RankerInfo:
    """Bring a ranker, or one of its queries, back to where it was before an operation.

    What it has learnt since is discarded, which is an operation itself.
    """
    found = [entry for entry in operations_on(service, name) if entry.number == number]
    if not found:
        raise Refused(404, "No such operation", f"number={number}: ranker {name!r} has no such operation")
    (operation,) = found
    before = operation.before
    if operation.kind == "created" or (before is None and operation.query is None):
        raise Refused(409, "Cannot be undone", "the ranker did not exist before; delete it instead")
    if operation.discarded is None:
        assert before is not None
        return await service.put_ranker(name, before, by=by, undoes=number)
    state = await _state_before(service, operation)
    ranker = state.rankers[name]
    lost = set(ranker.every_arm())
    if operation.query is None:
        if operation.kind == "changed" and operation.after is not None:
            of_arms = {arm for arm, _ in ranker.discarded_by(operation.after)}
            lost = lost if ranker in of_arms else of_arms  # other arms go on
        current = service.state.rankers.get(name)
        if current is None or current.settings != ranker.settings:
            await service.put_ranker(name, ranker.settings, discard=True, by=by, undoes=number)
        if current is not None and ranker in lost and not current.costs(ranker.settings):
            await service.reset(name, by=by, undoes=number)
    else:
        gone = Reset(name, service.now(), operation.query, gone=True, by=by, steps=0, undoes=number)
        service.ranker(name)
        await service.append([NewRecord(unique_id("reset"), gone)], urgent=True)
    owners = {arm.owner: arm for arm in lost}
    slices = Slices()
    records: list[NewRecord] = []
    for owner, query in [key for key in state.queries if operation.query in (None, key[1]) and key[0] in owners]:
        body = state.queries[owner, query].to_bytes()
        state.queries.drop((owner, query))
        record = Imported(name, query, service.now(), body, owners[owner].label)
        records.append(NewRecord(unique_id("import"), record))
        if slices.over or len(records) == _SLICE:
            await _append(service, records)
            await slices.pause()
            records = []
    for arm in lost:
        if operation.query is None and arm.shared_seq and arm.shared is not None:
            model = SharedImported(name, service.now(), arm.shared.to_bytes(), arm.label)
            records.append(NewRecord(unique_id("import"), model))
    await _append(service, records)
    service.log_operation(name, f"operation {number} undone", by)
    return service.info(name)


async def _append(service: Service, records: list[NewRecord]) -> None:
    if records:
        await service.maintenance.memory_free.wait()
        await service.append(records, urgent=True)


async def _state_before(service: Service, operation: DoneOperation) -> State:
    """The state that the records of the ranker give up to the operation."""
    store, at = service.store, operation.created - 1
    first = await service.read(store.read, at, 1)
    if not first or first[0].seq != operation.created:
        detail = "records from before the operation are no longer in the log (see the setting retention)"
        raise Refused(409, "Cannot be undone", detail)
    state, slices = State(LogOnly(store), Metrics()), Slices()
    while at < operation.number - 1 and (entries := await service.read(store.read, at, _SLICE)):
        for entry in entries:
            record = decode(entry.body)
            if entry.seq < operation.number and record.ranker == operation.ranker:
                state.apply(entry.seq, record)
            if slices.over:
                await slices.pause()
        at = entries[-1].seq
    return state
