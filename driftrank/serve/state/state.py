"""The state of the service: a fold over the records of its log.

Only :meth:`State.apply` changes it, one record after the other in the order of the log, and depends on nothing but the
record and the state: the same log gives the same state, to the bit, on any machine.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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
)
from driftrank.serve.log.store.base import Readable, Snapshot, StoreError
from driftrank.serve.monitoring.metrics import Labels, Metrics
from driftrank.serve.state import impression_fold, outcome, ranker_fold
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import CHANGES, SavedChanges, changes_of
from driftrank.serve.state.checkpoint import (
    CHECKPOINT,
    COUNTS,
    Checkpoint,
    CheckpointCopy,
    Counts,
    counts_of,
    shared_name,
)
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impressions
from driftrank.serve.state.queries import QueryKey, QueryTable
from driftrank.serve.state.query import PreparedLearner
from driftrank.serve.state.state_data import StateData
from driftrank.wire import FeedbackResult

_log = logging.getLogger("driftrank.serve")


class _Uncounted(Metrics):
    """Takes counts that are not to be counted."""

    def add(self, name: str, labels: Labels = (), n: float = 1) -> None:
        pass

    def observe(self, name: str, labels: Labels, seconds: float) -> None:
        pass


UNCOUNTED = _Uncounted()
#: by the kind of a record; rankings have what they were made with besides
_FOLD: dict[type, Callable[[StateData, int, Any], FeedbackResult | None]] = {
    Activated: impression_fold.activated,
    Clicked: impression_fold.clicked,
    Final: impression_fold.final,
    Withdrawn: impression_fold.withdrawn,
    Lost: impression_fold.lost,
    Warm: impression_fold.warm,
    ChangeFound: impression_fold.change_found,
    RankerSet: ranker_fold.ranker_set,
    RankerDeleted: ranker_fold.ranker_deleted,
    Reset: ranker_fold.reset,
    Imported: ranker_fold.imported,
    SharedImported: ranker_fold.shared_imported,
}


class ModelCopy(NamedTuple):
    """A shared model as it was after a record."""

    arm: Arm
    seq: int
    model: SharedModel

    def snapshot(self) -> Snapshot:
        return Snapshot(shared_name(self.arm.owner), self.seq, self.model.to_bytes())


class State(StateData):
    """The contents with their fold, and their snapshots."""

    def __init__(self, store: Readable, metrics: Metrics, queries: Callable[..., QueryTable] = QueryTable) -> None:
        super().__init__(store, metrics, queries)
        self._store = store
        self._partial = False  # a record failed half-way
        self._counts: Counts | None = None  # after a record that is not folded yet
        self._changes: SavedChanges | None = None  # the same

    def apply(self, seq: int, record: Record, prepared: PreparedLearner | None = None) -> FeedbackResult | None:
        """Fold the next record. Returns the outcome of feedback."""
        if self._counts is not None or self._changes is not None:
            self._take_over(seq - 1)
        self._partial = True
        result = None
        if isinstance(record, Ranked):
            impression_fold.ranked(self, seq, record, prepared)
        else:
            result = _FOLD[type(record)](self, seq, record)
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
            impression = self.impression_of(seq, record)[1]
            name = None if impression is None else impression.ranked.query
        ranker = self.rankers.get(record.ranker)
        if name is None or ranker is None:
            return False
        for arm in ranker.every_arm():
            queries.fail((arm.owner, name), reason)
        self._partial, self.seq = False, seq
        return True

    def repeated(self, seq: int, record: Clicked | Final) -> FeedbackResult:
        """The outcome of feedback whose record was in the log already."""
        ranker, impression = self.impression_of(seq, record)
        if ranker is None or impression is None:
            return outcome.orphan(record.event_id)
        return outcome.repeated(record, impression, reset=self.is_reset(ranker, impression))

    # -- snapshots -------------------------------------------------------------------------------------------------

    def snapshots(self, keys: Iterable[QueryKey]) -> list[Snapshot]:
        """Snapshots of the dirty ones of these queries, with the counts of the rankers."""
        self._check_whole()
        more = []
        if self._counts is None and self.counts_all:
            more.append(Snapshot(COUNTS, self.seq, counts_of(self.every_arm())))
        if self._changes is None and not self.changes_stored and self.counts_all:
            more.append(Snapshot(CHANGES, self.seq, changes_of(self.rankers)))
            self.changes_stored = True
        return more + self.queries.snapshots(keys, self.seq)

    def checkpoint(self) -> CheckpointCopy:
        """A copy of all but the queries and the shared models."""
        self._check_whole()
        return Checkpoint(self.clock, self.rankers, self.outdated, self.operations).copy(self.seq)

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
        if self.counts_all:
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
