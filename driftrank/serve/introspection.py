"""Introspection: the names of queries, and what was learnt for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from msgspec import UNSET

from driftrank.policies.estimates import Belief
from driftrank.policies.learner.ranked_items import described_at
from driftrank.policies.learner.shared_model import Prior
from driftrank.serve.items import given_items, used_by
from driftrank.serve.log.description import unpack_description
from driftrank.serve.service import Service, no_query
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.queries import snapshot_name
from driftrank.serve.state.query import Query
from driftrank.wire import Item, ItemId, ItemState, QueryState


class Introspection:
    """Read access to the queries of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def names(self, ranker_name: str, after: str | None, limit: int, arm: str = "") -> list[str]:
        """Names of queries of an arm, sorted, in memory or not. The name of a query may be ""."""
        queries, store = self._service.state.queries, self._service.store
        found_arm = self._service.arm(ranker_name, arm)
        owner = found_arm.owner
        prefix = snapshot_name(owner, "")
        begin = "" if after is None else prefix + after
        found = {name for whose, name in queries if whose == owner and (after is None or name > after)}
        while stored := store.snapshot_names(prefix, begin, limit):
            begin = stored[-1]
            names = [name.removeprefix(prefix) for name in stored]
            found.update(name for name in names if queries.stored((owner, name), found_arm.since) is not None)
            # outdated snapshots do not count, so that only the last page is short
            if sum(prefix + name <= begin for name in found) >= limit:
                break
        return sorted(found)[:limit]

    def state(self, ranker_name: str, name: str, offset: int = 0, limit: int = 1000, arm: str = "") -> QueryState:
        """The state of a query of an arm, item by item: ``limit`` items after the best ``offset``."""
        ranker = self._service.arm(ranker_name, arm)
        query = self._service.state.query(ranker, name)
        if query is None:
            raise no_query(ranker_name, name)
        learner = query.learner
        prior, because = self._prior(ranker, query)
        beliefs = learner.beliefs(list(query.seen) if prior else None, now=self._service.now(), prior=prior)
        changed: dict[Any, int] = {}
        last = None
        for alarm in learner.alarms:
            last = alarm.step
            for item in learner.items if alarm.everything else [alarm.item]:
                changed[item] = alarm.step
        best_first = sorted(cast(dict[ItemId, Belief], beliefs).items(), key=_estimate, reverse=True)
        items = [
            ItemState(
                item, _finite(b.estimate), _finite(b.bonus), _finite(b.samples), _finite(b.score),
                query.last_offered(item), changed.get(item), b.prior, b.strength, query.places.get(item),
                because.get(item),
            )
            for item, b in best_first[offset : offset + limit]
        ]  # fmt: skip
        return QueryState(
            ranker_name, name, ranker.spec, query.steps, query.impressions, query.clicks, last, learner.alarm_count,
            items, len(best_first), query.value if query.value != query.clicks else UNSET,
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


def _estimate(entry: tuple[ItemId, Belief]) -> float:
    estimate = _finite(entry[1].estimate)
    return -math.inf if estimate is None else estimate


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
