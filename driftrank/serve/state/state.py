"""The state of the service: a fold over the records of its log.

Only :meth:`State.apply` changes it, one record after the other in the order of the log, and depends on nothing but the
record and the state: the same log gives the same state, to the bit, on any machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.serve.log.records import (
    Activated,
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
from driftrank.serve.metrics import Metrics, position_label
from driftrank.serve.state import outcome
from driftrank.serve.state.changes import CHANGES, FoundChange, SavedChanges, changes_of, noted
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
#: takes counts that are not to be counted
UNCOUNTED = Metrics()
#: operations that are remembered
_OPERATIONS = 1000


class ModelCopy(NamedTuple):
    """A shared model as it was after a record."""

    ranker: Ranker
    seq: int
    model: SharedModel

    def snapshot(self) -> Snapshot:
        return Snapshot(shared_name(self.ranker.name), self.seq, self.model.to_bytes())


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
        self._counts_all = not isinstance(self.queries, HeldQueries)  # else queries are counted in the store
        self._changes: SavedChanges | None = None  # the same
        self.changes_stored = True  #: the changes of all rankers are in a snapshot or in the checkpoint
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
        if name is None:
            return False
        queries.fail((record.ranker, name), reason)
        self._partial, self.seq = False, seq
        return True

    def repeated(self, record: Clicked | Final) -> FeedbackResult:
        """The outcome of feedback whose record was in the log already."""
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        return outcome.repeated(record, impression, reset=self.is_reset(ranker, impression))

    # -- parts -----------------------------------------------------------------------------------------------------

    def query(self, ranker: Ranker, name: str) -> Query | None:
        if self.rankers.get(ranker.name) is not ranker:  # deleted meanwhile: its queries must not come back
            return None
        query = self.queries.get((ranker.name, name), ranker.since)
        if query is not None and ranker.sizes and query.resized < ranker.sizes[-1][0]:
            nbytes = query.nbytes
            query.resize(ranker.sizes)
            self.queries.nbytes += query.nbytes - nbytes
        return query

    def impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.get(ranker.name, ranker.created, event_id)

    def cached_impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.cached(ranker.name, ranker.created, event_id)

    def since(self, name: str) -> int:
        """The record from which on a ranker's snapshots are valid."""
        return self.rankers[name].since if name in self.rankers else self.seq + 1

    def _found(self, record: Activated | Clicked | Final) -> tuple[Ranker | None, Impression | None]:
        ranker = self.rankers.get(record.ranker)
        return ranker, None if ranker is None else self.impression(ranker, record.event_id)

    def is_reset(self, ranker: Ranker, impression: Impression) -> bool:
        """True if the impression is to be learnt from, but its query was reset since."""
        ranked = impression.ranked
        if not self.queries.holds((ranker.name, ranked.query)):
            return False
        return ranked.arm != "holdout" and _is_reset(impression, ranker, self.query(ranker, ranked.query))

    # -- impressions -----------------------------------------------------------------------------------------------

    def _ranked(self, seq: int, record: Ranked, prepared: PreparedLearner | None) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None or 0 < record.ranker_since < ranker.created:  # deleted meanwhile
            return
        self.impressions.add(Impression(seq, record))
        ranker.impressions += 1
        if record.ranker_since in (0, ranker.since):
            ranker.traffic.ranked(seq, record.query, record.time)
        if not record.defer:
            ranker.waiting.add(seq, record.time)
        if not self.queries.holds((record.ranker, record.query)):
            return
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:  # its snapshot includes the record
            ranker.queries += query.since == seq
            return
        if not _same_generation(record, ranker, query):
            return
        try:
            learner = None
            if query is None:  # the policy may differ from the one that ranked, and reject the items
                items = record.shown if record.items is None else record.items
                if prepared and prepared.query is None and prepared.learner.policy is ranker.policy:
                    learner = prepared.learner
                else:
                    learner = ranker.new_learner(record.query, items, record.features)
                query = self._new_query(ranker, record.query, learner, seq, record.time)
            elif prepared and prepared.query is query and prepared.version == query.version:
                learner = prepared.learner
            nbytes = query.nbytes
            query.offer(seq, record, ranker.item_retention, learner)
        except ValueError as error:
            _log_not_learnt(seq, error)
        if query is not None:
            self.queries.changed((record.ranker, record.query), query, seq, nbytes)

    def _new_query(self, ranker: Ranker, name: str, learner: Learner, seq: int, time: float) -> Query:
        query = Query(learner, seq)
        query.seen = dict.fromkeys(learner.items, time)  # type: ignore[arg-type]
        query.measure()
        self.queries.put((ranker.name, name), query)
        ranker.queries += 1
        return query

    def _activated(self, seq: int, record: Activated) -> None:
        ranker, impression = self._found(record)
        if ranker is not None and impression is not None and (impression.ended_by or seq) >= seq:
            impression.opened_by, impression.opened_at = seq, record.time
            ranker.waiting.add(seq, record.time)
            ranker.deferred[seq] = impression.seq
            self.needed = min(self.needed, impression.seq)

    def _clicked(self, seq: int, record: Clicked) -> FeedbackResult:
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        opened_by, clicks = impression.opened_by, None
        if opened_by is not None and opened_by in ranker.waiting:
            ranker.collected[opened_by] = collected_with(ranker.collected.get(opened_by), record)
            clicks = ranker.collected[opened_by][0]
            if record.clicks:
                self._count_delay(record, impression)
        reset = self.is_reset(ranker, impression)
        return outcome.collected(record, impression, clicks, reset=reset, policy=ranker.policy)

    def _final(self, seq: int, record: Final) -> FeedbackResult:
        ranker, impression = self._found(record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        collected = ranker.collected.get(impression.opened_by or 0)
        record = with_collected(record, collected)
        impression.final, impression.ended_by = record, seq
        waited = impression.opened_by is not None and ranker.close_window(impression.opened_by)
        ranked = impression.ranked
        holdout = ranked.arm == "holdout"
        self.metrics.add("lists_finalised", (record.ranker, ranked.arm, record.how))
        reset, error = False, None
        if waited and record.how in ("feedback", "silence"):
            self.metrics.add("clicks", (record.ranker, ranked.arm), len(record.clicks))
            ranker.traffic.ended(impression.seq, ranked.query, ranked.arm, len(record.clicks))
            for position in record.clicks:
                self.metrics.add("clicks_by_position", (record.ranker, position_label(position)))
            if record.clicks and not collected:
                self._count_delay(record, impression)
            if not holdout:
                k = ranker.settings.k  # may have become smaller since
                ranking = served_list(ranked, ranker.policy, k if record.shown is None else min(record.shown, k))
                same = impression.seq >= ranker.since and ranked.ranker_since in (0, ranker.since)
                if same:
                    _learn_shared(seq, ranker, ranking, _within(record.clicks, k))
                if self.queries.holds((record.ranker, ranked.query)):
                    query = self.query(ranker, ranked.query)
                    reset = query is None or _is_reset(impression, ranker, query)
                    if query is not None and not reset:
                        error = self._learn(seq, record, ranked, ranker, query, ranking)
                elif same:  # whether the query was reset since is known only where it is held
                    ranker.count_step(record.clicks)
        return outcome.counted(record, waited=waited, holdout=holdout, reset=reset, policy=ranker.policy, error=error)

    def _count_delay(self, record: Clicked | Final, impression: Impression) -> None:
        delay = record.time - impression.opened_at
        self.metrics.observe("click_delay_seconds", (record.ranker,), max(0.0, delay))

    def _learn(
        self, seq: int, record: Final, ranked: Ranked, ranker: Ranker, query: Query, ranking: Sequence[ItemId]
    ) -> str | None:
        """Update the learner of a query; the error, if it rejects the impression."""
        if query.seq >= seq:  # its snapshot includes the record
            ranker.count_step(record.clicks)
            return None
        nbytes, failed = query.nbytes, None
        try:
            clicks = _within(record.clicks, ranker.settings.k)
            changes = query.learn(ranking, clicks, record.time, items=ranked.items, features=ranked.features)
            ranker.count_step(record.clicks)
            if changes:
                self._note_changes(seq, ranker, ranked.query, record.time, changes)
        except ValueError as error:
            failed = str(error)
            _log_not_learnt(seq, error)
        self.queries.changed((record.ranker, ranked.query), query, seq, nbytes)
        return failed

    def _note_changes(self, seq: int, ranker: Ranker, query: str, time: float, found: Sequence[FoundChange]) -> None:
        ranker.changes = noted(seq, ranker.changes, query, time, found)
        self.changes_stored = False
        self.metrics.add("changes_detected", (ranker.name,), len(found))
        if not self.replaying:
            items = ["all" if change.everything else change.item for change in found]
            fields = {"ranker": ranker.name, "query": query, "items": items, "step": found[-1].step}
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
        ranker = self.rankers.get(record.ranker)
        if ranker is None or record.ranker_since not in (0, ranker.since):  # sent again, its batch would count twice
            return
        k = ranker.settings.k  # may have become smaller since the request
        ranking, clicks = served_list(record, ranker.policy, k), _within(record.clicks, k)
        _learn_shared(seq, ranker, ranking, clicks)
        if not self.queries.holds((record.ranker, record.query)):
            ranker.count_step(clicks)
            return
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:
            ranker.count_step(record.clicks)
            ranker.queries += query.since == seq
            return
        features = None if record.features is None else record.features[:k]
        try:
            if query is None:
                learner = ranker.new_learner(record.query, ranking, features)
                query = self._new_query(ranker, record.query, learner, seq, record.time)
            nbytes = query.nbytes
            changes = query.learn(ranking, clicks, record.when, items=ranking, features=features)
            ranker.count_step(clicks)
            if changes:
                self._note_changes(seq, ranker, record.query, record.when, changes)
        except ValueError as error:
            _log_not_learnt(seq, error)
        if query is not None:
            self.queries.changed((record.ranker, record.query), query, seq, nbytes)

    def _ranker_set(self, seq: int, record: RankerSet) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            self.rankers[record.ranker] = Ranker(record.ranker, record.settings, seq, chosen=record.chosen)
            self._log(seq, record, "created", self.rankers[record.ranker], after=record.settings)
            return
        before = ranker.settings
        new_k = before.k != record.settings.k
        begins = bool(ranker.costs(record.settings)) or (new_k and not record.keep)
        ranker.set(record.settings, seq, chosen=record.chosen)
        discarded = (record.steps or 0) if begins else None
        self._log(seq, record, "changed", ranker, before=before, after=record.settings, discarded=discarded)
        if begins:
            self._restart(ranker, seq)
        elif new_k:
            ranker.sizes.append((seq, record.settings.k))

    def _log(self, seq: int, record: RankerSet | RankerDeleted | Reset, kind: Any, ranker: Ranker, **more: Any) -> None:
        undoes = getattr(record, "undoes", 0) or None
        entry = DoneOperation(
            seq, record.time, record.ranker, kind, record.by or "unknown", undoes=undoes, created=ranker.created, **more
        )
        self.operations.append(entry)
        del self.operations[:-_OPERATIONS]

    def _restart(self, ranker: Ranker, seq: int) -> None:
        ranker.restart(seq)
        self.outdated.add(ranker.name)
        self.queries.drop_ranker(ranker.name)

    def _ranker_deleted(self, seq: int, record: RankerDeleted) -> None:
        ranker = self.rankers.pop(record.ranker, None)
        if ranker is not None:
            self._log(seq, record, "deleted", ranker, before=ranker.settings, discarded=record.steps)
            self.outdated.add(record.ranker)
            self.queries.drop_ranker(record.ranker)
            self.impressions.forget(record.ranker)
            self.metrics.forget(record.ranker)

    def _reset(self, seq: int, record: Reset) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            return
        if record.query is None:
            self._log(seq, record, "reset", ranker, before=ranker.settings, discarded=record.steps)
            self._restart(ranker, seq)
            return
        key = (record.ranker, record.query)
        query = self.query(ranker, record.query) if self.queries.holds(key) else None
        kind = "deleted" if record.gone else "reset"
        self._log(seq, record, kind, ranker, query=record.query, discarded=record.steps)
        ranker.traffic.forget(record.query)
        if any(change.query == record.query for change in ranker.changes):
            ranker.changes = [change for change in ranker.changes if change.query != record.query]
            self.changes_stored = False
        if query is None or query.seq >= seq:
            return
        if record.gone or ranker.policy.contextual:  # features are not kept without what was learnt with them
            ranker.queries -= 1
            self.queries.delete(key)
            return
        fresh = Query(ranker.new_learner(record.query, list(query.seen)), seq)
        if not fresh.learner.open:
            fresh.seen, fresh.all_seen, fresh.sweep = query.seen, query.all_seen, query.sweep
        fresh.measure()
        self.queries.replace(key, fresh)

    def _imported(self, seq: int, record: Imported) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None or not self.queries.holds((record.ranker, record.query)):
            return
        query = self.query(ranker, record.query)
        if query is not None and query.seq >= seq:
            return
        try:
            fresh = Query.from_bytes(record.state)
            fresh.fit(ranker.policy, ranker.settings.k)
        except ValueError as error:  # unknown here, or the ranker has changed since the request
            _log_not_learnt(seq, error)
            return
        fresh.since = fresh.seq = fresh.resized = seq
        fresh.offered = None  # of another log, or of a time before it
        ranker.queries += query is None
        ranker.steps += fresh.steps - (query.steps if query else 0)
        ranker.clicks += fresh.clicks - (query.clicks if query else 0)
        ranker.impressions += fresh.impressions - (query.impressions if query else 0)
        self.queries.replace((record.ranker, record.query), fresh)

    def _shared_imported(self, seq: int, record: SharedImported) -> None:
        ranker = self.rankers.get(record.ranker)
        if ranker is None:
            return
        try:
            model = SharedModel.from_bytes(record.state)
            if model.policy != ranker.policy:
                raise ValueError(f"the shared model of {model.policy.spec}")
        except ValueError as error:
            _log_not_learnt(seq, error)
            return
        ranker.restore_shared(model, seq)
        ranker.shared_stored = 0

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshots(self, keys: Iterable[QueryKey]) -> list[Snapshot]:
        """Snapshots of the dirty ones of these queries, with the counts of the rankers."""
        self._check_whole()
        more = []
        if self._counts is None and self._counts_all:
            more.append(Snapshot(COUNTS, self.seq, counts_of(self.rankers)))
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
            ModelCopy(ranker, ranker.shared_seq, ranker.shared.copy())
            for ranker in self.rankers.values()
            if ranker.shared_seq > ranker.shared_stored and ranker.shared is not None
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
            models = {
                name: self._store.get_snapshot(shared_name(name))
                for name, r in checkpoint.rankers.items()
                if r.shared_seq
            }
            again = self._store.get_snapshot(CHECKPOINT)
            if again is None or again.seq == snapshot.seq:
                break
            snapshot = again  # another service has written one meanwhile, with other models
        if snapshot is not None:
            self.seq = snapshot.seq
            self.clock, self.rankers, self.outdated, self.operations = checkpoint
            self.needed = self.oldest
            for name, model in models.items():
                self._restore_shared(self.rankers[name], model)

    def begin_again(self) -> None:
        """Forget everything, and go back to the last checkpoint."""
        self.seq, self.clock, self.needed, self._partial = 0, 0.0, 0, False
        self.rankers, self.outdated, self.operations = {}, set(), []
        self.impressions = Impressions(self._store)
        if isinstance(self.queries, HeldQueries):
            self.queries.clear()
        self.restore()

    def _restore_shared(self, ranker: Ranker, snapshot: Snapshot | None) -> None:
        try:
            if snapshot is None or snapshot.seq != ranker.shared_seq:
                raise ValueError("it is not the one that belongs to the checkpoint")
            model = SharedModel.from_bytes(snapshot.body)
            if model.policy != ranker.policy:
                raise ValueError(f"it is that of {model.policy.spec}")
            ranker.restore_shared(model, snapshot.seq)
        except ValueError as error:
            _log.error("the shared model of ranker %s is reset: cannot use its snapshot: %s", ranker.name, error)
            ranker.restore_shared(None, 0)

    def recount(self) -> None:
        """Take over the saved counts and changes, now that all records are folded."""
        self._take_over(None)

    def _take_over(self, seq: int | None) -> None:
        """The same, if they were saved after a record up to ``seq``."""
        if self._counts is not None and (seq is None or seq >= self._counts.seq):
            self._counts.restore(self.rankers)
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


def _is_reset(impression: Impression, ranker: Ranker, query: Query | None) -> bool:
    """True if the ranker or the query was reset since the impression."""
    if query is None or impression.seq < max(query.since, ranker.since):
        return True
    return not _same_generation(impression.ranked, ranker, query)


def _same_generation(ranked: Ranked, ranker: Ranker, query: Query | None) -> bool:
    since = query.since if query else None
    return ranked.ranker_since in (0, ranker.since) and ranked.query_since in (0, since)


def _learn_shared(seq: int, ranker: Ranker, ranking: Sequence[ItemId], clicks: Sequence[int]) -> None:
    """Let the shared model learn from a ranking, from its records alone: the query may be ahead, or reset since."""
    if isinstance(ranking, RankedItems) and ranking.described is not None and ranker.shared is not None:
        try:
            ranker.shared.learn(ranking, click_positions(clicks, len(ranking)))
            ranker.shared_seq = seq
        except ValueError as error:
            _log_not_learnt(seq, error)


def _log_not_learnt(seq: int, error: ValueError) -> None:
    """A learner may reject a record: features of another length that came at the same time, for example.

    It does so in every replay: the state stays a function of the log.
    """
    _log.warning("record %d: not learnt: %s", seq, error)
