"""Introspection: the names of queries, and what was learnt for one."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from msgspec import UNSET, structs

from driftrank.policies.estimates import Belief
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import described_at
from driftrank.policies.learner.shared_model import Prior
from driftrank.serve.answers.reason import intervals, reason
from driftrank.serve.core import ServiceCore, no_query
from driftrank.serve.log.description import unpack_description
from driftrank.serve.ranking.items import given_items, used_by
from driftrank.serve.slices import Slices
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.queries import QueryKey, QueryTable, snapshot_name
from driftrank.serve.state.query import Query
from driftrank.serve.times import moment
from driftrank.wire import Item, ItemId, ItemState, QueryState

#: the orders of items
SORTS = ("estimate", "score", "samples", "last_offered", "last_change", "id")
Sort = Literal["estimate", "score", "samples", "last_offered", "last_change", "id"]
#: items, names in memory and names in the store that take a few milliseconds
_ITEMS, _KEYS, _STORED = 1_000, 2_000, 100


class Introspection:
    """Read access to the queries of a service."""

    def __init__(self, service: ServiceCore) -> None:
        self._service = service

    async def names(self, ranker_name: str, after: str | None, limit: int, arm: str = "") -> list[str]:
        """Names of queries of an arm, sorted, in memory or not. The name of a query may be ""."""
        queries, read = self._service.state.queries, self._service.read
        stored_names = self._service.store.snapshot_names
        found_arm = self._service.arm(ranker_name, arm)
        owner = found_arm.owner
        prefix, slices = snapshot_name(owner, ""), Slices()
        begin = "" if after is None else prefix + after
        found: set[str] = set()
        keys = list(queries)
        for at in range(0, len(keys), _KEYS):
            part = keys[at : at + _KEYS]
            found.update(name for whose, name in part if whose == owner and (after is None or name > after))
            if len(found) > 2 * limit:  # enough for this page, and the next ones begin after it
                found = set(heapq.nsmallest(limit, found))
            if slices.over:
                await slices.pause()
        while stored := await read(stored_names, prefix, begin, min(limit, _STORED)):
            begin = stored[-1]
            keys = [(owner, name.removeprefix(prefix)) for name in stored]
            found.update(await read(_valid, queries, keys, found_arm.since))
            # outdated snapshots do not count, so that only the last page is short
            if sum(prefix + name <= begin for name in found) >= limit:
                break
            if slices.over:
                await slices.pause()
        return sorted(found)[:limit]

    async def state(
        self, ranker_name: str, name: str, offset: int = 0, limit: int = 1000, sort: Sort = "estimate", arm: str = ""
    ) -> QueryState:
        """The state of a query of an arm, item by item: ``limit`` items after the first ``offset``."""
        self._service.arm(ranker_name, arm)
        await self._service.hold(ranker_name, [name])
        ranker = self._service.arm(ranker_name, arm)
        query = self._service.state.query(ranker, name)
        if query is None:
            raise no_query(ranker_name, name)
        now, learner, slices = self._service.now(), query.learner, Slices()
        prior, because = self._prior(ranker, query)
        if prior is not None:
            beliefs = learner.beliefs(list(query.seen), now=now, prior=prior)
        elif len(query.seen) <= _ITEMS:
            beliefs = learner.beliefs(now=now)
        else:
            learner = learner.copy()  # the query may learn meanwhile
            items, beliefs = learner.items, {}
            for at in range(0, len(items), _ITEMS):
                beliefs |= learner.beliefs(items[at : at + _ITEMS], now=now)
                if slices.over:
                    await slices.pause()
        changed, last = _changes(query, learner)
        key = _sort_key(sort, query, changed)
        in_order = sorted(cast(dict[ItemId, Belief], beliefs).items(), key=key, reverse=sort != "id")
        if slices.over:
            await slices.pause()
        places = _places(cast(dict[ItemId, Belief], beliefs))
        page, states = in_order[offset : offset + limit], []
        for (item, b), (low, high) in zip(page, intervals([b for _, b in page]), strict=True):
            change = changed.get(item, _NEVER)
            state = ItemState(
                item, _finite(b.estimate), _finite(b.bonus), _finite(b.samples), _finite(b.score),
                moment(query.last_offered(item)), change.step, b.prior, b.strength, query.places.get(item),
                because.get(item), change.time, low, high,
            )  # fmt: skip
            states.append(structs.replace(state, why=reason(state, places[item], len(in_order))))
        return QueryState(
            ranker_name, name, ranker.spec, query.steps, query.impressions, query.clicks, last.step,
            learner.alarm_count, states, len(in_order), last.time or UNSET,
            query.value if query.value != query.clicks else UNSET,
        )  # fmt: skip

    def _prior(self, ranker: Arm, query: Query) -> tuple[Prior | None, dict[ItemId, dict[str, float]]]:
        """The prior of a query's items, at the places where they were last shown, and what it is made of."""
        if ranker.shared is None or not query.seen:
            return None, {}
        items = list(query.seen)
        prior = query.learner.prior(items, shared=ranker.shared, places=[query.places.get(item, 0) for item in items])
        because = prior.because()
        for n, item in enumerate(items):
            if item in query.described:  # each with the context of its own last list
                one = described_at(prior.described, np.array([n]))
                its = ranker.shared.prior(unpack_description(query.described[item], one))
                prior.counts[2 * n : 2 * n + 2] = its.counts
                (because[n],) = its.because()
        return prior._replace(model=None), dict(zip(items, because, strict=True))

    def best_first(
        self, ranker_name: str, name: str, given: Sequence[ItemId | Item], context: Any = None
    ) -> list[ItemId]:
        """The items by their estimates; equal and unknown ones in the order given, the latter last."""
        limits = self._service.settings
        known_of = given_items("items", given, limits)
        items = known_of.ids
        ranker = self._service.ranker(ranker_name)
        query = self._service.state.query(ranker, name)
        if ranker.shared is not None and items:
            learner = ranker.new_learner(name, ()) if query is None else query.learner
            description = used_by(ranker.policy, known_of, context, limits).description
            prior = learner.prior(items, shared=ranker.shared, **description)
            return learner.greedy(items, len(items), prior=prior)  # type: ignore[return-value]
        known = [] if query is None else [item for item in items if item in query.seen]
        if query is not None and known:
            best = query.learner.greedy(known, len(known))
            return [*best, *(item for item in items if item not in query.seen)]  # type: ignore[list-item]
        return list(items)


def _valid(queries: QueryTable, keys: Sequence[QueryKey], since: int) -> list[str]:
    """The names of the queries with valid snapshots."""
    return [key[1] for key in keys if queries.stored(key, since) is not None]


class _LastChange(NamedTuple):
    """The last change of an item, or of a query."""

    step: int | None
    time: datetime | None  #: None if it was detected by an earlier version


_NEVER = _LastChange(None, None)


def _changes(query: Query, learner: Learner) -> tuple[dict[ItemId, _LastChange], _LastChange]:
    """The last change of each item that has one, and of the query."""
    alarms = learner.alarms
    times = query.change_times[-len(alarms) :] if alarms else []
    changed: dict[ItemId, _LastChange] = {}
    last = _NEVER
    for n, alarm in enumerate(alarms, len(times) - len(alarms)):
        last = _LastChange(alarm.step, moment(times[n]) if n >= 0 else None)
        items = cast(list[ItemId], learner.items if alarm.everything else [alarm.item])
        changed |= dict.fromkeys(items, last)
    return changed, last


def _places(beliefs: dict[ItemId, Belief]) -> dict[ItemId, int]:
    """The places of items, from 1: by score, which is the estimate if chance does the rest; without one, first, as the
    policy would show them."""

    def worth(item: ItemId) -> float:
        its = beliefs[item]
        value = its.score if its.bonus is not None or its.estimate is None else its.estimate
        return math.inf if value is None else value

    return {item: n for n, item in enumerate(sorted(beliefs, key=worth, reverse=True), 1)}


def _sort_key(
    sort: Sort, query: Query, changed: dict[ItemId, _LastChange]
) -> Callable[[tuple[ItemId, Belief]], tuple[Any, ...]]:
    """The order of items, and their beliefs; what is not known is the smallest."""

    def key(entry: tuple[ItemId, Belief]) -> tuple[Any, ...]:
        item, belief = entry
        if sort == "id":  # integers, then strings
            return isinstance(item, str), item
        value: float | None
        if sort == "last_offered":
            value = query.last_offered(item)
        elif sort == "last_change":
            value = changed.get(item, _NEVER).step
        else:
            value = _finite(getattr(belief, sort))
        return (-math.inf if value is None else value,)

    return key


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
