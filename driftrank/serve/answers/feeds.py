"""Feeds for operators: operations, changes of users, and queries by traffic, by change or by loss. Latest first."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from typing import Literal

from msgspec import structs

from driftrank.serve.core import ServiceCore
from driftrank.serve.state.checkpoint import DoneOperation
from driftrank.serve.state.traffic import ArmTraffic, QueryTraffic
from driftrank.serve.times import moment
from driftrank.wire import ChangeLogged, EndedLists, OperationLogged, QuerySummary

#: the orders of queries
BY = ("traffic", "change", "loss")
By = Literal["traffic", "change", "loss"]


def operations(service: ServiceCore, name: str | None, before: int | None, limit: int) -> list[OperationLogged]:
    """The operations on a ranker, also on a deleted one, or on all: ``limit`` of those before a number."""
    found = operations_on(service, name)
    page = [entry for entry in found if before is None or entry.number < before][:limit]
    return [OperationLogged(**structs.asdict(entry) | {"time": moment(entry.time)}) for entry in page]


def operations_on(service: ServiceCore, name: str | None) -> list[DoneOperation]:
    """All operations on a ranker that are remembered, or on all rankers."""
    service.check_ready()
    found = [entry for entry in reversed(service.state.operations) if name in (None, entry.ranker)]
    if not found and name is not None:
        service.ranker(name)
    return found


def changes(service: ServiceCore, name: str, query: str | None, before: int | None, limit: int) -> list[ChangeLogged]:
    """The changes of a ranker, or of one query: ``limit`` of those before a number."""
    found = [
        change
        for change in reversed(service.ranker(name).changes)
        if query in (None, change.query) and (before is None or change.number < before)
    ]
    return [
        ChangeLogged(
            it.number, moment(it.time), it.query, it.step, it.item, it.everything, _rounded(it.before),
            _rounded(it.after),
        )
        for it in found[:limit]
    ]  # fmt: skip


def top_queries(service: ServiceCore, name: str, by: By, offset: int, limit: int) -> list[QuerySummary]:
    """Queries of a ranker in the order asked for, a page of them; without those that have no place in it."""
    ranker = service.ranker(name)
    traffic = ranker.traffic.queries
    last = {change.query: change.time for change in ranker.changes}
    if by == "change":
        names = sorted((query for query in last if query in traffic), key=last.__getitem__, reverse=True)
    elif by == "loss":
        surely = {query: _sure_loss(its) for query, its in traffic.items() if its.ranked.lists and its.holdout.lists}
        names = sorted(surely, key=surely.__getitem__, reverse=True)
    else:
        today = max((its.day for its in traffic.values()), default=0)
        names = sorted(traffic, key=lambda query: traffic[query].recent_at(today), reverse=True)
    changed = Counter(change.query for change in ranker.changes)
    return [
        _summary(query, traffic[query], changed[query], last.get(query)) for query in names[offset : offset + limit]
    ]


def _summary(query: str, its: QueryTraffic, changes: int, changed: float | None) -> QuerySummary:
    live, holdout = its.ranked, its.holdout
    loss = error = None
    if live.lists and holdout.lists:
        loss = round(holdout.clicks / holdout.lists - live.clicks / live.lists, 6)
        error = round(_error(its), 6)
    return QuerySummary(
        query, moment(its.begun), its.impressions, its.recent, EndedLists(live.lists, live.clicks),
        EndedLists(holdout.lists, holdout.clicks), loss, error, changes, None if changed is None else moment(changed),
    )  # fmt: skip


# of few rankings little is known, even if all or none were clicked: each arm has one more, with half a click


def _sure_loss(its: QueryTraffic) -> float:
    """The loss less twice its standard error."""
    return _mean(its.holdout) - _mean(its.ranked) - 2 * _error(its)


def _mean(arm: ArmTraffic) -> float:
    return (arm.clicks + 0.5) / (arm.lists + 1)


def _error(its: QueryTraffic) -> float:
    """The standard error of the difference of the arms' clicks per ranking."""
    arms = its.ranked, its.holdout
    return sqrt(sum(((arm.squares + 0.5) / (arm.lists + 1) - _mean(arm) ** 2) / arm.lists for arm in arms))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
