"""The contents of the state: rankers, queries, impressions and changes, and how they are found.

What changes them is in ``impression_fold`` and ``ranker_fold``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from driftrank.policies.learner.learner import Learner
from driftrank.serve.log.records import Activated, Clicked, Final, Imported, Ranked, SharedImported, Warm
from driftrank.serve.log.store.base import Readable
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import Change, FoundChange, noted, numbered
from driftrank.serve.state.checkpoint import DoneOperation
from driftrank.serve.state.held_queries import HeldQueries
from driftrank.serve.state.impressions import Impression, Impressions
from driftrank.serve.state.queries import QueryTable
from driftrank.serve.state.query import Query
from driftrank.serve.state.ranker import Ranker

_log = logging.getLogger("driftrank.serve")


class StateData:
    """Rankers, their queries and impressions."""

    def __init__(self, store: Readable, metrics: Metrics, queries: Callable[..., QueryTable] = QueryTable) -> None:
        self.metrics = metrics
        self.seq = 0  #: the last record folded
        self.clock = 0.0  #: its time
        self.replaying = False  #: nothing is logged that was logged before
        #: the oldest record that a replay from the last checkpoint needs, even if nothing waits for it any more
        self.needed = 0
        self.rankers: dict[str, Ranker] = {}
        self.impressions = Impressions(store)
        self.queries = queries(store, lambda: self.metrics.add("loads"))
        self.counts_all = not isinstance(self.queries, HeldQueries)  #: else queries are counted in the store
        #: rankers that were deleted or restarted; snapshots from before may still be stored
        self.outdated: set[str] = set()
        self.operations: list[DoneOperation] = []  #: the latest, oldest first
        self.changes_stored = True  #: the changes of all rankers are in a snapshot or in the checkpoint
        #: changes in queries that this service holds, to be recorded for those that do not; with their rankers
        self.found: list[tuple[str, Change]] = []

    # -- rankers and impressions -----------------------------------------------------------------------------------

    def every_arm(self) -> Iterator[Arm]:
        """The arms of all rankers."""
        for ranker in self.rankers.values():
            yield from ranker.every_arm()

    def since(self, owner: str) -> int:
        """The record from which on the snapshots of a ranker, or of an arm, are valid."""
        name, _, arm = owner.partition("@")
        found = self.rankers[name].arm(arm) if name in self.rankers else None
        return self.seq + 1 if found is None else found.since

    def arm_of(self, record: Warm | Imported | SharedImported) -> Arm | None:
        ranker = self.rankers.get(record.ranker)
        return None if ranker is None else ranker.arm(record.arm)

    def impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.get(ranker.name, ranker.created, event_id)

    def cached_impression(self, ranker: Ranker, event_id: str) -> Impression | None:
        return self.impressions.cached(ranker.name, ranker.created, event_id)

    def impression_of(self, seq: int, record: Activated | Clicked | Final) -> tuple[Ranker | None, Impression | None]:
        """The ranker and the impression that a record is about; None if it is about one of a deleted ranker."""
        ranker = self.rankers.get(record.ranker)
        found = None if ranker is None else self.impression(ranker, record.event_id)
        # the event id may be used again later: that impression may be in the log already
        return ranker, found if found is not None and found.seq < seq else None

    def is_reset(self, ranker: Ranker, impression: Impression) -> bool:
        """True if the impression is to be learnt from, but its query was reset since."""
        ranked = impression.ranked
        if ranked.arm == "holdout":
            return False
        arm = ranker.arm(ranked.arm)
        if arm is not None and not self.queries.holds((arm.owner, ranked.query)):
            return False
        return arm is None or was_reset(impression, arm, self.query(arm, ranked.query))

    # -- queries ---------------------------------------------------------------------------------------------------

    def query(self, arm: Arm, name: str) -> Query | None:
        if arm.gone:  # deleted meanwhile: its queries must not come back
            return None
        query = self.queries.get((arm.owner, name), arm.since)
        if query is not None and arm.sizes and query.resized < arm.sizes[-1][0]:
            nbytes = query.nbytes
            query.resize(arm.sizes)
            self.queries.resized((arm.owner, name), query.nbytes - nbytes)
        return query

    def new_query(self, arm: Arm, name: str, learner: Learner, seq: int, time: float) -> Query:
        query = Query(learner, seq)
        query.seen = dict.fromkeys(learner.items, time)  # type: ignore[arg-type]
        query.measure()
        self.queries.put((arm.owner, name), query)
        arm.queries += 1
        return query

    # -- changes of users ------------------------------------------------------------------------------------------

    def note_changes(self, seq: int, ranker: Ranker, query: str, time: float, found: Sequence[FoundChange]) -> None:
        changes = numbered(seq, query, time, found)
        if self.counts_all:
            self.keep_changes(ranker, changes)
        else:
            self.report(ranker, changes)

    def report(self, ranker: Ranker, changes: Sequence[Change]) -> None:
        """Let changes be recorded, unless they are: other services may have found them."""
        known = {change.number for change in ranker.changes}
        self.found += [(ranker.name, change) for change in changes if change.number not in known]

    def keep_changes(self, ranker: Ranker, changes: Sequence[Change]) -> None:
        ranker.changes = noted(ranker.changes, changes)
        self.changes_stored = False
        self.metrics.add("changes_detected", (ranker.name,), len(changes))
        if not self.replaying:
            items = ["all" if change.everything else change.item for change in changes]
            fields = {"ranker": ranker.name, "query": changes[0].query, "items": items, "step": changes[-1].step}
            _log.info("a change of users was found", extra=fields)


def was_reset(impression: Impression, arm: Arm, query: Query | None) -> bool:
    """True if the ranker or the query was reset since the impression."""
    if query is None or impression.seq < max(query.since, arm.since):
        return True
    return not same_generation(impression.ranked, arm, query)


def same_generation(ranked: Ranked, arm: Arm, query: Query | None) -> bool:
    since = query.since if query else None
    return ranked.ranker_since in (0, arm.since) and ranked.query_since in (0, since)


def log_not_learnt(seq: int, error: ValueError) -> None:
    """A learner may reject a record: features of another length that came at the same time, for example.

    It does so in every replay: the state stays a function of the log.
    """
    _log.warning("record %d: not learnt: %s", seq, error)
