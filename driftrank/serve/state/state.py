"""The state of the service: a fold over the records of its log.

Only :meth:`State.apply` changes it, one record after the other in the order of the log, and depends on nothing but the
record and the state: the same log gives the same state, to the bit, on any machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from driftrank.policies.alarms import REMEMBERED
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.log.records import (
    Activated,
    ChangeFound,
    Clicked,
    Final,
    Imported,
    Lost,
    Ranked,
    RankerDeleted,
    RankerSet,
    Record,
    Reset,
    SharedImported,
    Warm,
    Withdrawn,
    collected_with,
    with_collected,
)
from driftrank.serve.log.store.base import Readable, Snapshot, StoreError
from driftrank.serve.metrics import Labels, Metrics, position_label
from driftrank.serve.ranker_settings import arms_of, settings_of_arm
from driftrank.serve.state import outcome, rewards
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import CHANGES, Change, FoundChange, SavedChanges, changes_of, noted, numbered
from driftrank.serve.state.checkpoint import (
    CHECKPOINT,
    COUNTS,
    Checkpoint,
    Counts,
    DoneOperation,
    counts_of,
    shared_name,
)
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression, Impressions
from driftrank.serve.state.queries import QueryKey, QueryTable
from driftrank.serve.state.query import PreparedLearner, Query, click_positions, served_list
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import FeedbackResult, ItemId

_log = logging.getLogger("driftrank.serve")


class _Uncounted(Metrics):
    """Takes counts that are not to be counted."""

    def add(self, name: str, labels: Labels = (), n: float = 1) -> None:
        pass

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        pass


UNCOUNTED = _Uncounted()
#: operations that are remembered
_OPERATIONS = 1000


class ModelCopy(NamedTuple):
    """A shared model as it was after a record."""

    arm: Arm
    seq: int
    model: SharedModel

    def snapshot(self) -> Snapshot:
        return Snapshot(shared_name(self.arm.owner), self.seq, self.model.to_bytes())


class State:
    """Rankers, their queries and impressions."""

    def __init__(self, store: Readable, metrics: Metrics, queries: Callable[..., QueryTable] = QueryTable) -> None:
        self._store = store
        self.metrics = metrics
        self.seq = 0  #: the last record folded
        self.clock = 0.0  #: its time
        self.replaying = False  #: nothing is logged that was logged before
        self._partial = False  # a record failed half-way
        #: the oldest record that a replay from the last checkpoint needs, even if nothing waits for it any more
        self.needed = 0
        self.rankers: dict[str, Ranker] = {}
        self.impressions = Impressions(store)
        self.queries = queries(store, lambda: self.metrics.add("loads"))
        #: rankers that were deleted or restarted; snapshots from before may still be stored
        self.outdated: set[str] = set()
        self.operations: list[DoneOperation] = []  #: the latest, oldest first
        self._counts: Counts | None = None  # after a record that is not folded yet
        self._changes: SavedChanges | None = None  # the same
        self.changes_stored = True  #: the changes of all rankers are in a snapshot or in the checkpoint
        #: changes in queries that this service holds, to be recorded for those that do not; with their rankers
        self.found: list[tuple[str, Change]] = []
        self._counts_all = not isinstance(self.queries, HeldQueries)  # else queries are counted in the store
        self._handlers: dict[type, Callable[[int, Any], FeedbackResult | None]] = {
            Activated: self._activated,
            Clicked: self._clicked,
            Final: self._final,
            Withdrawn: self._withdrawn,
            Lost: self._lost,
            Warm: self._warm,
            RankerSet: self._ranker_set,
            RankerDeleted: self._ranker_deleted,
            Reset: self._reset,
            Imported: self._imported,
            SharedImported: self._shared_imported,
            ChangeFound: self._change_found,
        }

    def apply(self, seq: int, record: Record, prepared: PreparedLearner | None = None) -> FeedbackResult | None:
        """Fold the next record. Returns the outcome of feedback."""
        if self._counts is not None or self._changes is not None:
            self._take_over(seq - 1)
        self._partial = True
        result = None
        if isinstance(record, Ranked):
            self._ranked(seq, record, prepared)
        else:
            result = self._handlers[type(record)](seq, record)
        self._partial = False
        self.seq = seq
        self.clock = max(self.clock, record.time)
        return result

    def follow(self, seq: int, record: Record) -> None:
        """Fold a record that another service has written, which counts and logs it."""
        metrics = self.metrics
        self.metrics, self.replaying = UNCOUNTED, True
        try:
            self.apply(seq, record)
        finally:
            self.metrics, self.replaying = metrics, False

    def skip(self, seq: int, record: Record, queries: HeldQueries, reason: str) -> bool:
        """Go on after a record that could not be folded, without its query; False if it is about no query."""
        name = getattr(record, "query", None)
        if name is None and isinstance(record, Clicked | Final):
            impression = self._found(record)[1]
            name = None if impression is None else impression.ranked.query
        ranker = self.rankers.get(record.ranker)
        if name is None or ranker is None:
            return False
        for arm in ranker.every_arm():
            queries.fail((arm.owner, name), reason)
        self._partial, self.seq = False, seq
        return True

    def repeated(self, record: Clicked | Final) -> FeedbackResult:
        """The outcome of feedback whose record was in the log already."""
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        return outcome.repeated(record, impression, reset=self.is_reset(ranker, impression))

    # -- parts -----------------------------------------------------------------------------------------------------

    def query(self, arm: Arm, name: str) -> Query | None:
        if arm.gone:  # deleted meanwhile: its queries must not come back
            return None
        query = self.queries.get((arm.owner, name), arm.since)
        if query is not None and arm.sizes and query.resized < arm.sizes[-1][0]:
            nbytes = query.nbytes
            query.resize(arm.sizes)
            self.queries.nbytes += query.nbytes - nbytes
        return query

    def impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.get(ranker.name, ranker.created, event_id)

    def cached_impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.cached(ranker.name, ranker.created, event_id)

    def every_arm(self) -> Iterator[Arm]:
        """The arms of all rankers."""
        for ranker in self.rankers.values():
            yield from ranker.every_arm()

    def since(self, owner: str) -> int:
        """The record from which on the snapshots of a ranker, or of an arm, are valid."""
        name, _, arm = owner.partition("@")
        found = self.rankers[name].arm(arm) if name in self.rankers else None
        return self.seq + 1 if found is None else found.since

    def _found(self, record: Activated | Clicked | Final) -> tuple[Ranker | None, Impression | None]:
        ranker = self.rankers.get(record.ranker)
        return ranker, None if ranker is None else self.impression(ranker, record.event_id)

    def is_reset(self, ranker: Ranker, impression: Impression) -> bool:
        """True if the impression is to be learnt from, but its query was reset since."""
        ranked = impression.ranked
        if ranked.arm == "holdout":
            return False
        arm = ranker.arm(ranked.arm)
        if arm is not None and not self.queries.holds((arm.owner, ranked.query)):
            return False
        return arm is None or _is_reset(impression, arm, self.query(arm, ranked.query))

    # -- impressions -----------------------------------------------------------------------------------------------

    def _ranked(self, seq: int, record: Ranked, prepared: PreparedLearner | None) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None or 0 < record.ranker_since < ranker.created:  # deleted meanwhile
            return
        self.impressions.add(Impression(seq, record))
        ranker.series.ranked(record)
        if not record.defer:
            ranker.waiting.add(seq, record.time)
            if record.share:
                ranker.experiment.open(record)
        if record.same and ranker.stable:
            ranker.stable_lists.add(record.same, seq, record.time, ranker.stable)
        arm = ranker.arm(record.arm)
        if arm is None:  # removed meanwhile
            return
        arm.impressions += 1
        if record.ranker_since in (0, arm.since):
            ranker.traffic.ranked(seq, record.query, record.time)
        if not self.queries.holds((arm.owner, record.query)):
            return
        query = self.query(arm, record.query)
        if query is not None and query.seq >= seq:  # its snapshot includes the record
            arm.queries += query.since == seq
            return
        if not _same_generation(record, arm, query):
            return
        try:
            learner = None
            if query is None:  # the policy may differ from the one that ranked, and reject the items
                items = record.shown if record.items is None else record.items
                if prepared and prepared.query is None and prepared.learner.policy is arm.policy:
                    learner = prepared.learner
                else:
                    learner = arm.new_learner(record.query, items, record.features)
                query = self._new_query(arm, record.query, learner, seq, record.time)
            elif prepared and prepared.query is query and prepared.version == query.version:
                learner = prepared.learner
            nbytes = query.nbytes
            query.offer(seq, record, arm.item_retention, learner)
        except ValueError as error:
            _log_not_learnt(seq, error)
        if query is not None:
            self.queries.changed((arm.owner, record.query), query, seq, nbytes)

    def _new_query(self, arm: Arm, name: str, learner: Learner, seq: int, time: float) -> Query:
        query = Query(learner, seq)
        query.seen = dict.fromkeys(learner.items, time)  # type: ignore[arg-type]
        query.measure()
        self.queries.put((arm.owner, name), query)
        arm.queries += 1
        return query

    def _activated(self, seq: int, record: Activated) -> None:
        ranker, impression = self._found(record)
        if ranker is not None and impression is not None and (impression.ended_by or seq) >= seq:
            impression.opened_by, impression.opened_at = seq, record.time
            ranker.waiting.add(seq, record.time)
            if impression.ranked.share:
                ranker.experiment.open(impression.ranked)
            ranker.deferred[seq] = impression.seq
            self.needed = min(self.needed, impression.seq)

    def _clicked(self, seq: int, record: Clicked) -> FeedbackResult:
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        opened_by, clicks = impression.opened_by, None
        value = None
        if opened_by is not None and opened_by in ranker.waiting:
            before = ranker.collected.get(opened_by)
            value = rewards.collect(ranker.values, opened_by, before[0] if before else [], record)
            ranker.collected[opened_by] = collected_with(before, record)
            clicks = ranker.collected[opened_by][0]
            if record.clicks:
                self._count_delay(ranker, record, impression)
        reset = self.is_reset(ranker, impression)
        policy = (ranker.arm(impression.ranked.arm) or ranker).policy
        return outcome.collected(record, impression, clicks, reset=reset, policy=policy, value=value)

    def _final(self, seq: int, record: Final) -> FeedbackResult:
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        opening = impression.opened_by or 0
        collected = ranker.collected.get(opening)
        record = with_collected(record, collected, ranker.values.get(opening))
        impression.final, impression.ended_by = record, seq
        waited = impression.opened_by is not None and ranker.close_window(impression.opened_by)
        ranked = impression.ranked
        holdout = ranked.arm == "holdout"
        self.metrics.add("lists_finalised", (record.ranker, ranked.arm, record.how))
        reset, error = False, None
        arm = ranker.arm(ranked.arm)
        ranker.series.ended(ranked, record, waited=waited)
        if (ranked.share or ranked.instead is not None) and waited:
            ranker.experiment.count(impression.seq, ranked, record)
        if waited and record.how in ("feedback", "silence"):
            self.metrics.add("clicks", (record.ranker, ranked.arm), len(record.clicks))
            ranker.traffic.ended(impression.seq, ranked.query, ranked.arm, len(record.clicks))
            if record.clicks or record.values:
                self.metrics.add("value", (record.ranker, ranked.arm), record.value)
            for position in record.clicks:
                self.metrics.add("clicks_by_position", (record.ranker, position_label(ranked.offset + position)))
            if record.clicks and not collected:
                self._count_delay(ranker, record, impression)
            if arm is None:
                reset = True
            elif not holdout:
                held = self.queries.holds((arm.owner, ranked.query))
                same = impression.seq >= arm.since and ranked.ranker_since in (0, arm.since)
                if held or (same and arm.shares):
                    k = ranker.settings.k  # may have become smaller since
                    ranking = served_list(ranked, arm.policy, k if record.shown is None else min(record.shown, k))
                    if same:
                        _learn_shared(seq, arm, ranking, _within(record.clicks, k))
                if held:
                    query = self.query(arm, ranked.query)
                    reset = query is None or _is_reset(impression, arm, query)
                    if query is not None and not reset:
                        error = self._learn(seq, record, ranked, arm, query, ranking)
                elif same:  # whether the query was reset since is known only where it is held
                    arm.count_step(record.clicks, record.value)
        policy = (arm or ranker).policy
        return outcome.counted(record, waited=waited, holdout=holdout, reset=reset, policy=policy, error=error)

    def _count_delay(self, ranker: Ranker, record: Clicked | Final, impression: Impression) -> None:
        delay = max(0.0, record.time - impression.opened_at)
        self.metrics.observe("click_delay_seconds", (record.ranker,), delay)
        ranker.series.clicked(record.time, delay)

    def _learn(
        self, seq: int, record: Final, ranked: Ranked, arm: Arm, query: Query, ranking: Sequence[ItemId]
    ) -> str | None:
        """Update the learner of a query; the error, if it rejects the impression."""
        if query.seq >= seq:  # its snapshot includes the record
            arm.count_step(record.clicks, record.value)
            return None
        nbytes, failed = query.nbytes, None
        try:
            clicks = _within(record.clicks, arm.settings.k)
            value = record.value if record.values else None
            changes = query.learn(
                ranking, clicks, record.time, items=ranked.items, features=ranked.features, value=value
            )
            arm.count_step(record.clicks, record.value)
            if changes:
                self._note_changes(seq, self.rankers[record.ranker], ranked.query, record.time, changes)
        except ValueError as error:
            failed = str(error)
            _log_not_learnt(seq, error)
        self.queries.changed((arm.owner, ranked.query), query, seq, nbytes)
        return failed

    def _note_changes(self, seq: int, ranker: Ranker, query: str, time: float, found: Sequence[FoundChange]) -> None:
        changes = numbered(seq, query, time, found)
        if self._counts_all:
            self._keep_changes(ranker, changes)
        else:
            self.report(ranker, changes)

    def report(self, ranker: Ranker, changes: Sequence[Change]) -> None:
        """Let changes be recorded, unless they are: other services may have found them."""
        known = {change.number for change in ranker.changes}
        self.found += [(ranker.name, change) for change in changes if change.number not in known]

    def _change_found(self, seq: int, record: ChangeFound) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None or record.number < ranker.since * REMEMBERED:  # reset since
            return
        if all(change.number != record.number for change in ranker.changes):
            of = record.query, record.step, record.item, record.everything, record.before, record.after
            self._keep_changes(ranker, [Change(record.number, record.when, *of)])

    def _keep_changes(self, ranker: Ranker, changes: Sequence[Change]) -> None:
        ranker.changes = noted(ranker.changes, changes)
        self.changes_stored = False
        self.metrics.add("changes_detected", (ranker.name,), len(changes))
        if not self.replaying:
            items = ["all" if change.everything else change.item for change in changes]
            fields = {"ranker": ranker.name, "query": changes[0].query, "items": items, "step": changes[-1].step}
            _log.info("a change of users was found", extra=fields)

    def _withdrawn(self, seq: int, record: Withdrawn) -> FeedbackResult:
        ranker = self.rankers.get(record.ranker)
        if ranker is not None:
            ranker.withdraw(record.event_id, record.time)
        return outcome.withdrawn(record.event_id)

    def _lost(self, seq: int, record: Lost) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is not None:
            ranker.close_window(record.start)

    # -- rankers and queries ---------------------------------------------------------------------------------------

    def _warm(self, seq: int, record: Warm) -> None:
        arm = self._arm_of(record)
        if arm is None or record.ranker_since not in (0, arm.since):  # sent again, its batch would count twice
            return
        k = arm.settings.k  # may have become smaller since the request
        ranking, clicks = served_list(record, arm.policy, k), _within(record.clicks, k)
        _learn_shared(seq, arm, ranking, clicks)
        if not self.queries.holds((arm.owner, record.query)):
            arm.count_step(clicks, len(clicks))
            return
        query = self.query(arm, record.query)
        if query is not None and query.seq >= seq:
            arm.count_step(record.clicks, len(record.clicks))
            arm.queries += query.since == seq
            return
        features = None if record.features is None else record.features[:k]
        try:
            if query is None:
                learner = arm.new_learner(record.query, ranking, features)
                query = self._new_query(arm, record.query, learner, seq, record.time)
            nbytes = query.nbytes
            changes = query.learn(ranking, clicks, record.when, items=ranking, features=features)
            arm.count_step(clicks, len(clicks))
            if changes:
                self._note_changes(seq, self.rankers[record.ranker], record.query, record.when, changes)
        except ValueError as error:
            _log_not_learnt(seq, error)
        if query is not None:
            self.queries.changed((arm.owner, record.query), query, seq, nbytes)

    def _arm_of(self, record: Warm | Imported | SharedImported) -> Arm | None:
        ranker = self.rankers.get(record.ranker)
        return None if ranker is None else ranker.arm(record.arm)

    def _ranker_set(self, seq: int, record: RankerSet) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            self.rankers[record.ranker] = Ranker(record.ranker, record.settings, seq, chosen=record.chosen)
            self._log(seq, record, "created", self.rankers[record.ranker], after=record.settings)
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
        self._restart(ranker, seq, changing)
        ranker.set(after, chosen=record.chosen, seq=seq)
        # to remove an arm that has learnt nothing discards nothing
        discarded = (record.steps or 0) if "" in begins or record.steps else None
        self._log(seq, record, "changed", ranker, before=before, after=after, discarded=discarded)

    def _log(self, seq: int, record: RankerSet | RankerDeleted | Reset, kind: Any, ranker: Ranker, **more: Any) -> None:
        undoes = getattr(record, "undoes", 0) or None
        entry = DoneOperation(
            seq, record.time, record.ranker, kind, record.by or "unknown", undoes=undoes, created=ranker.created, **more
        )
        self.operations.append(entry)
        del self.operations[:-_OPERATIONS]

    def _restart(self, ranker: Ranker, seq: int, arms: Iterable[Arm]) -> None:
        """Begin new generations of some arms of a ranker."""
        for arm in arms:
            arm.restart(seq)
            self._drop_queries(arm)
            ranker.experiment.forget({arm.label} if arm.label else {"live", "shadow", "safe"})
        ranker.experiment.begin(ranker.split, ranker.planned, seq)

    def _drop_queries(self, arm: Arm) -> None:
        self.outdated.add(arm.owner)
        self.queries.drop_ranker(arm.owner)

    def _ranker_deleted(self, seq: int, record: RankerDeleted) -> None:
        ranker = self.rankers.pop(record.ranker, None)
        if ranker is not None:
            self._log(seq, record, "deleted", ranker, before=ranker.settings, discarded=record.steps)
            for arm in ranker.every_arm():
                arm.gone = True
                self._drop_queries(arm)
            self.impressions.forget(record.ranker)
            self.metrics.forget(record.ranker)

    def _reset(self, seq: int, record: Reset) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            return
        if record.query is None:
            self._log(seq, record, "reset", ranker, before=ranker.settings, discarded=record.steps)
            self._restart(ranker, seq, ranker.every_arm())
            return
        kind = "deleted" if record.gone else "reset"
        self._log(seq, record, kind, ranker, query=record.query, discarded=record.steps)
        ranker.traffic.forget(record.query)
        if any(change.query == record.query for change in ranker.changes):
            ranker.changes = [change for change in ranker.changes if change.query != record.query]
            self.changes_stored = False
        self.found = [(name, it) for name, it in self.found if (name, it.query) != (record.ranker, record.query)]
        for arm in ranker.every_arm():
            self._reset_query(seq, arm, record.query, gone=record.gone)

    def _reset_query(self, seq: int, arm: Arm, name: str, *, gone: bool) -> None:
        query = self.query(arm, name) if self.queries.holds((arm.owner, name)) else None
        if query is None or query.seq >= seq:
            return
        key = (arm.owner, name)
        if gone or arm.policy.contextual:  # features are not kept without what was learnt with them
            arm.queries -= 1
            self.queries.delete(key)
            return
        fresh = Query(arm.new_learner(name, list(query.seen)), seq)
        if not fresh.learner.open:
            fresh.seen, fresh.all_seen, fresh.sweep = query.seen, query.all_seen, query.sweep
        fresh.measure()
        self.queries.replace(key, fresh)

    def _imported(self, seq: int, record: Imported) -> None:
        arm = self._arm_of(record)
        if arm is None or not self.queries.holds((arm.owner, record.query)):
            return
        query = self.query(arm, record.query)
        if query is not None and query.seq >= seq:
            return
        try:
            fresh = Query.from_bytes(record.state)
            fresh.fit(arm.policy, arm.settings.k)
        except ValueError as error:  # unknown here, or the ranker has changed since the request
            _log_not_learnt(seq, error)
            return
        fresh.since = fresh.seq = fresh.resized = seq
        fresh.offered = None  # of another log, or of a time before it
        arm.queries += query is None
        arm.steps += fresh.steps - (query.steps if query else 0)
        arm.clicks += fresh.clicks - (query.clicks if query else 0)
        arm.value += fresh.value - (query.value if query else 0.0)
        arm.impressions += fresh.impressions - (query.impressions if query else 0)
        self.queries.replace((arm.owner, record.query), fresh)

    def _shared_imported(self, seq: int, record: SharedImported) -> None:
        arm = self._arm_of(record)
        if arm is None:
            return
        try:
            model = SharedModel.from_bytes(record.state)
            if model.policy != arm.policy:
                raise ValueError(f"the shared model of {model.policy.spec}")
        except ValueError as error:
            _log_not_learnt(seq, error)
            return
        arm.restore_shared(model, seq)
        arm.shared_stored = 0

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshots(self, keys: Iterable[QueryKey]) -> list[Snapshot]:
        """Snapshots of the dirty ones of these queries, with the counts of the rankers."""
        self._check_whole()
        more = []
        if self._counts is None and self._counts_all:
            more.append(Snapshot(COUNTS, self.seq, counts_of(self.every_arm())))
        if self._changes is None and not self.changes_stored and self._counts_all:
            more.append(Snapshot(CHANGES, self.seq, changes_of(self.rankers)))
            self.changes_stored = True
        return more + self.queries.snapshots(keys, self.seq)

    def checkpoint(self) -> Snapshot:
        """A snapshot of all but the queries and the shared models."""
        self._check_whole()
        return Snapshot(CHECKPOINT, self.seq, self._checkpoint().to_bytes())

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.clock, self.rankers, self.outdated, self.operations)

    def changed_models(self) -> list[ModelCopy]:
        """The shared models that differ from their snapshots. They belong to the checkpoint made now, and are to be
        written with it: unlike a query, a shared model may never be ahead of the checkpoint.
        """
        return [
            ModelCopy(arm, arm.shared_seq, arm.shared.copy())
            for arm in self.every_arm()
            if arm.shared_seq > arm.shared_stored and arm.shared is not None
        ]

    def _check_whole(self) -> None:
        """A record that failed half-way is folded again at the next start; no part of it may be in a snapshot."""
        if self._partial:
            raise StoreError(f"the record after {self.seq} is in the state in part; restart the service")

    def restore(self) -> None:
        """Go back to the last checkpoint, if there is one; the records after it are to be folded next."""
        snapshot = self._store.get_snapshot(CHECKPOINT)
        if self._counts_all:
            first = snapshot.seq if snapshot else 0
            counts, changes = self._store.get_snapshot(COUNTS), self._store.get_snapshot(CHANGES)
            if counts is not None and counts.seq > first:
                self._counts = Counts.from_bytes(counts.seq, counts.body)
            if changes is not None and changes.seq > first:
                self._changes = SavedChanges.from_bytes(changes.seq, changes.body)
        while snapshot is not None:
            checkpoint = Checkpoint.from_bytes(snapshot.body)
            arms = [arm for ranker in checkpoint.rankers.values() for arm in ranker.every_arm() if arm.shared_seq]
            models = [(arm, self._store.get_snapshot(shared_name(arm.owner))) for arm in arms]
            again = self._store.get_snapshot(CHECKPOINT)
            if again is None or again.seq == snapshot.seq:
                break
            snapshot = again  # another service has written one meanwhile, with other models
        if snapshot is not None:
            self.seq = snapshot.seq
            self.clock, self.rankers, self.outdated, self.operations = checkpoint
            self.needed = self.oldest
            for arm, model in models:
                self._restore_shared(arm, model)

    def begin_again(self) -> None:
        """Forget everything, and go back to the last checkpoint."""
        self.seq, self.clock, self.needed, self._partial = 0, 0.0, 0, False
        self.rankers, self.outdated, self.operations, self.found = {}, set(), [], []
        self.impressions = Impressions(self._store)
        if isinstance(self.queries, HeldQueries):
            self.queries.clear()
        self.restore()

    def _restore_shared(self, arm: Arm, snapshot: Snapshot | None) -> None:
        try:
            if snapshot is None or snapshot.seq != arm.shared_seq:
                raise ValueError("it is not the one that belongs to the checkpoint")
            model = SharedModel.from_bytes(snapshot.body)
            if model.policy != arm.policy:
                raise ValueError(f"it is that of {model.policy.spec}")
            arm.restore_shared(model, snapshot.seq)
        except ValueError as error:
            _log.error("the shared model of ranker %s is reset: cannot use its snapshot: %s", arm.owner, error)
            arm.restore_shared(None, 0)

    def recount(self) -> None:
        """Take over the saved counts and changes, now that all records are folded."""
        self._take_over(None)

    def _take_over(self, seq: int | None) -> None:
        """The same, if they were saved after a record up to ``seq``."""
        if self._counts is not None and (seq is None or seq >= self._counts.seq):
            self._counts.restore(self.every_arm())
            self._counts = None
        if self._changes is not None and (seq is None or seq >= self._changes.seq):
            self._changes.restore(self.rankers)
            self._changes = None

    @property
    def oldest(self) -> int:
        """The oldest record that may still be needed."""
        first = [self.seq + 1]
        for ranker in self.rankers.values():
            first += [n for n in (ranker.waiting.first,) if n is not None]
            first += ranker.deferred.values()
        return min(first)


def _within(clicks: Sequence[int], k: int) -> list[int]:
    return [click for click in clicks if click <= k]


def _is_reset(impression: Impression, arm: Arm, query: Query | None) -> bool:
    """True if the ranker or the query was reset since the impression."""
    if query is None or impression.seq < max(query.since, arm.since):
        return True
    return not _same_generation(impression.ranked, arm, query)


def _same_generation(ranked: Ranked, arm: Arm, query: Query | None) -> bool:
    since = query.since if query else None
    return ranked.ranker_since in (0, arm.since) and ranked.query_since in (0, since)


def _learn_shared(seq: int, arm: Arm, ranking: Sequence[ItemId], clicks: Sequence[int]) -> None:
    """Let the shared model learn from a ranking, from its records alone: the query may be ahead, or reset since."""
    if isinstance(ranking, RankedItems) and ranking.described is not None and arm.shared is not None:
        try:
            arm.shared.learn(ranking, click_positions(clicks, len(ranking)))
            arm.shared_seq = seq
        except ValueError as error:
            _log_not_learnt(seq, error)


def _log_not_learnt(seq: int, error: ValueError) -> None:
    """A learner may reject a record: features of another length that came at the same time, for example.

    It does so in every replay: the state stays a function of the log.
    """
    _log.warning("record %d: not learnt: %s", seq, error)
