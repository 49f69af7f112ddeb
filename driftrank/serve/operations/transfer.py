"""Transfer: learn from old click logs, export the states of queries, import those of another service."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from driftrank.kernels.rng import key_of
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.core import unique_id
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.log.description import pack_description
from driftrank.serve.log.records import Imported, Warm
from driftrank.serve.problems import Refused
from driftrank.serve.ranking.choice import memo_of
from driftrank.serve.ranking.items import check_even, check_query, given_items, used_by
from driftrank.serve.service import Service
from driftrank.serve.slices import Slices
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.queries import snapshot_name
from driftrank.serve.state.query import Query, add_items, click_positions
from driftrank.wire import Counted, ItemId, WarmRow


class _Trial(NamedTuple):
    """Copies that learn from the rows of a log, before these are in the log of the service.

    A record must contain what its row meets when it is folded: how often its items were observed by then.
    """

    learners: dict[str, Learner]  #: by query
    shared: SharedModel | None


class Transfer:
    """Into the rankers of a service, and out of them."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def warmstart(self, name: str, rows: Sequence[WarmRow], batch: str | None, arm: str = "") -> Counted:
        """Let an arm learn from the rows of an old log, in their order. The same batch sent again counts once."""
        service = self._service
        learns, now = service.arm(name, arm), service.now()
        since = learns.since
        batch = batch or os.urandom(8).hex()
        service.check_named("batch", batch)
        records: list[NewRecord] = []
        trial = _Trial({}, learns.shared.copy() if learns.shared else None)
        slices = Slices()
        for n, row in enumerate(rows):
            if row.query not in trial.learners:
                await service.hold(name, [row.query])
            try:
                record = self._warm(learns, row, now, trial, f"{batch}/{n}")
            except ValueError as error:
                raise Refused(422, "Bad value", f"row {n + 1}: {error}") from None
            if slices.over:
                await slices.pause()
            # with the generation: what a reset has forgotten may be sent again
            records.append(NewRecord(f"w/{learns.owner}/{since}/{batch}/{n}", record))
        self._check_same(learns, since)
        new = 0
        for at in range(0, len(records), 1000):
            await service.maintenance.memory_free.wait()
            new += sum(settled.new for settled in await service.append(records[at : at + 1000]))
            self._check_same(learns, since)
        return Counted(new, len(records) - new)

    def _warm(self, arm: Arm, row: WarmRow, now: float, trial: _Trial, event_id: str) -> Warm:
        service, k = self._service, arm.settings.k
        check_query(row.query, service.settings)
        if not row.ranking:
            raise ValueError("ranking: must name at least one item")
        given = given_items("ranking", row.ranking, service.settings)
        items = given.ids
        if any(not 1 <= c <= len(items) for c in row.clicks):
            raise ValueError(f"clicks={row.clicks!r}: must be positions from 1 to {len(items)}")
        items, clicks = items[:k], sorted({c for c in row.clicks if c <= k})
        used = used_by(arm.policy, given.at(range(len(items))), row.context, service.settings)
        service.count_ignored(arm, used.notes)
        if used.rows:
            check_even(used.rows)
        if arm.policy.contextual:  # it may reject the features, and must not once they are in the log
            self._try(arm, row.query, items, used.rows, trial)
        when = now if row.time is None else min(now, max(0.0, row.time))
        memo, key, described = None, 0, None
        if trial.shared is not None:
            learner = self._copy(arm, row.query, items, None, trial)
            key = learner.key_at(key_of(event_id))
            prior = learner.prior(items, shared=trial.shared, **used.description)
            ranking, vector = learner.adopt(items, now=when, key=key, prior=prior), click_positions(clicks, len(items))
            memo, described = memo_of(ranking), pack_description(prior.described)
            trial.shared.learn(ranking, vector)
            learner.update(ranking, vector, now=when)
        return Warm(
            arm.ranker_name, row.query, now, items, clicks, when, used.rows, arm.since, memo, key, described, arm.label
        )

    def _try(self, arm: Arm, name: str, items: list[ItemId], features: list[list[float]] | None, trial: _Trial) -> None:
        """Add items to the query's copy in ``trial``; raises ``ValueError`` if its learner rejects them."""
        learner = self._copy(arm, name, items, features, trial)
        known = set(learner.items)
        add_items(learner, [item for item in items if item not in known], items, features)

    def _copy(
        self, arm: Arm, name: str, items: list[ItemId], features: list[list[float]] | None, trial: _Trial
    ) -> Learner:
        learner = trial.learners.get(name)
        if learner is None:
            query = self._service.state.query(arm, name)
            learner = arm.new_learner(name, items, features) if query is None else query.learner.copy()
            trial.learners[name] = learner
        return learner

    async def export(self, name: str, arm: str = "") -> AsyncIterator[tuple[str, bytes]]:
        """The names and states of all queries of an arm."""
        service = self._service
        found = service.arm(name, arm)
        since, owner = found.since, found.owner
        prefix, last = snapshot_name(owner, ""), ""
        await service.maintenance.write_queries(owner)
        slices = Slices()
        while names := await service.read(service.store.snapshot_names, prefix, last, 100):
            for last in names:
                if service.stopping:  # half an export must not look complete
                    raise Refused(503, "Not ready", "the service is stopping")
                query = last.removeprefix(prefix)
                self._check_same(found, since)
                snapshot = await service.read(service.state.queries.stored, (owner, query), since)
                if snapshot is not None:
                    yield query, snapshot.body
                if slices.over:
                    await slices.pause()
        self._check_same(found, since)

    def _check_same(self, arm: Arm, since: int) -> None:
        if self._service.arm(arm.ranker_name, arm.label) is not arm:
            raise Refused(409, "Changed meanwhile", f"ranker {arm.owner!r}: was deleted meanwhile")
        if arm.since != since:
            raise Refused(409, "Changed meanwhile", f"ranker {arm.owner!r}: was reset meanwhile")

    async def import_(self, name: str, states: Sequence[tuple[str, bytes]], arm: str = "") -> Counted:
        """Replace the states of queries by those of another service with the same policy."""
        service = self._service
        its, now = service.arm(name, arm), service.now()
        records: list[NewRecord] = []
        slices = Slices()
        for query, state in states:
            if slices.over:
                await slices.pause()
            try:
                check_query(query, service.settings)
                saved = Query.from_bytes(state)
                saved.check()
                saved.fit(its.policy, its.settings.k)
            except ValueError as error:
                raise Refused(422, "Bad state", f"query {query!r}: {error}") from None
            records.append(NewRecord(unique_id("import"), Imported(name, query, now, state, arm)))
        for at in range(0, len(records), 100):
            await service.maintenance.memory_free.wait()
            await service.append(records[at : at + 100])
        return Counted(len(records))
