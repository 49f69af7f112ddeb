"""What was learnt of queries, for those who ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from driftrank.policies.beliefs import Belief
from driftrank.serve.fold import Ranker, snapshot_name
from driftrank.serve.service import Service, no_query
from driftrank.wire import ItemId, ItemState, QueryState


class Queries:
    """The queries of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def names(self, ranker_name: str, after: str | None, limit: int) -> list[str]:
        """Names of queries, sorted; those in memory and those written out. A query may be called ""."""
        fold, store = self._service.fold, self._service.store
        ranker = self._service.ranker(ranker_name)
        prefix = snapshot_name(ranker_name, "")
        begin = "" if after is None else prefix + after
        found = {q for r, q in fold.queries if r == ranker_name and (after is None or q > after)}
        while names := store.snapshot_names(prefix, begin, limit):
            begin = names[-1]
            found.update(q for n in names if self._stored(ranker, q := n.removeprefix(prefix)))
            # those that are no more do not count, so that a page is never short before the end
            if sum(prefix + q <= begin for q in found) >= limit:
                break
        return sorted(found)[:limit]

    def _stored(self, ranker: Ranker, query: str) -> bool:
        if (ranker.name, query) in self._service.fold.gone:
            return False
        snapshot = self._service.store.get_snapshot(snapshot_name(ranker.name, query))
        return snapshot is not None and snapshot.seq >= ranker.since

    def state(self, ranker_name: str, name: str) -> QueryState:
        """What is known of a query, explained."""
        ranker = self._service.ranker(ranker_name)
        query = self._service.fold.query(ranker, name)
        if query is None:
            raise no_query(ranker_name, name)
        learner = query.learner
        beliefs = learner.beliefs(now=self._service.now())
        changed: dict[Any, int] = {}
        last = None
        for alarm in learner.alarms:
            last = alarm.step
            for item in learner.items if alarm.everything else [alarm.item]:
                changed[item] = alarm.step
        items = [
            ItemState(
                item, _finite(b.estimate), _finite(b.bonus), _finite(b.samples), _finite(b.score),
                query.last_offered(item), changed.get(item),
            )
            for item, b in cast(dict[ItemId, Belief], beliefs).items()
        ]  # fmt: skip
        return QueryState(
            ranker_name, name, ranker.spec, query.steps, query.lists, query.clicks, last, learner.alarm_count, items
        )

    def best_first(self, ranker_name: str, name: str, items: Sequence[ItemId]) -> list[ItemId]:
        """The items by what was learnt of them; equals, and those not known, in their order."""
        query = self._service.fold.query(self._service.ranker(ranker_name), name)
        known = [] if query is None else [item for item in items if item in query.seen]
        if query is not None and known:
            best = query.learner.greedy(known, len(known))
            return [*best, *(item for item in items if item not in query.seen)]  # type: ignore[list-item]
        return list(items)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
