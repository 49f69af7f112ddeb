"""Impressions, their clicks and their ends, folded into the state; so are rows of old logs.

The functions take the state, the number of the record and the record; those of feedback return its outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftrank.policies.alarms import REMEMBERED
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.serve.log.records import (
    Activated,
    ChangeFound,
    Clicked,
    Final,
    Lost,
    Ranked,
    Warm,
    Withdrawn,
    collected_with,
    with_collected,
)
from driftrank.serve.monitoring.metrics import position_label
from driftrank.serve.state import outcome, rewards
from driftrank.serve.state.arms import Arm
from driftrank.serve.state.changes import Change
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.query import PreparedLearner, Query, click_positions, served_list
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.state_data import StateData, log_not_learnt, same_generation, was_reset
from driftrank.wire import FeedbackResult, ItemId


def ranked(state: StateData, seq: int, record: Ranked, prepared: PreparedLearner | None) -> None:
    """A list was made."""
    ranker = state.rankers.get(record.ranker)
    if ranker is None or 0 < record.ranker_since < ranker.created:  # deleted meanwhile
        return
    state.impressions.add(Impression(seq, record))
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
    if not state.queries.holds((arm.owner, record.query)):
        return
    query = state.query(arm, record.query)
    if query is not None and query.seq >= seq:  # its snapshot includes the record
        arm.queries += query.since == seq
        return
    if not same_generation(record, arm, query):
        return
    try:
        learner = None
        if query is None:  # the policy may differ from the one that ranked, and reject the items
            items = record.shown if record.items is None else record.items
            if prepared and prepared.query is None and prepared.learner.policy is arm.policy:
                learner = prepared.learner
            else:
                learner = arm.new_learner(record.query, items, record.features)
            query = state.new_query(arm, record.query, learner, seq, record.time)
        elif prepared and prepared.query is query and prepared.version == query.version:
            learner = prepared.learner
        nbytes = query.nbytes
        query.offer(seq, record, arm.item_retention, learner)
    except ValueError as error:
        log_not_learnt(seq, error)
    if query is not None:
        state.queries.changed((arm.owner, record.query), query, seq, nbytes)


def activated(state: StateData, seq: int, record: Activated) -> None:
    """The feedback window of a deferred list is open."""
    ranker, impression = state.impression_of(seq, record)
    if ranker is not None and impression is not None and (impression.ended_by or seq) >= seq:
        impression.opened_by, impression.opened_at = seq, record.time
        ranker.waiting.add(seq, record.time)
        if impression.ranked.share:
            ranker.experiment.open(impression.ranked)
        ranker.deferred[seq] = impression.seq
        state.needed = min(state.needed, impression.seq)


def clicked(state: StateData, seq: int, record: Clicked) -> FeedbackResult:
    """Clicks that are collected until the feedback window ends."""
    ranker, impression = state.impression_of(seq, record)
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
            _count_delay(state, ranker, record, impression)
    reset = state.is_reset(ranker, impression)
    policy = (ranker.arm(impression.ranked.arm) or ranker).policy
    return outcome.collected(record, impression, clicks, reset=reset, policy=policy, value=value)


def final(state: StateData, seq: int, record: Final) -> FeedbackResult:
    """A list has ended: learn from it."""
    ranker, impression = state.impression_of(seq, record)
    if ranker is None or impression is None:
        return outcome.orphan(record.event_id)
    opening = impression.opened_by or 0
    collected = ranker.collected.get(opening)
    record = with_collected(record, collected, ranker.values.get(opening))
    impression.final, impression.ended_by = record, seq
    waited = impression.opened_by is not None and ranker.close_window(impression.opened_by)
    ranked = impression.ranked
    holdout = ranked.arm == "holdout"
    state.metrics.add("lists_finalised", (record.ranker, ranked.arm, record.how))
    reset, error = False, None
    arm = ranker.arm(ranked.arm)
    ranker.series.ended(ranked, record, waited=waited)
    if (ranked.share or ranked.instead is not None) and waited:
        ranker.experiment.count(impression.seq, ranked, record)
    if waited and record.how in ("feedback", "silence"):
        state.metrics.add("clicks", (record.ranker, ranked.arm), len(record.clicks))
        ranker.traffic.ended(impression.seq, ranked.query, ranked.arm, len(record.clicks))
        if record.clicks or record.values:
            state.metrics.add("value", (record.ranker, ranked.arm), record.value)
        for position in record.clicks:
            state.metrics.add("clicks_by_position", (record.ranker, position_label(ranked.offset + position)))
        if record.clicks and not collected:
            _count_delay(state, ranker, record, impression)
        if arm is None:
            reset = True
        elif not holdout:
            held = state.queries.holds((arm.owner, ranked.query))
            same = impression.seq >= arm.since and ranked.ranker_since in (0, arm.since)
            if held or (same and arm.shares):
                k = ranker.settings.k  # may have become smaller since
                ranking = served_list(ranked, arm.policy, k if record.shown is None else min(record.shown, k))
                if same:
                    _learn_shared(seq, arm, ranking, _within(record.clicks, k))
            if held:
                query = state.query(arm, ranked.query)
                reset = query is None or was_reset(impression, arm, query)
                if query is not None and not reset:
                    error = _learn(state, seq, record, ranked, arm, query, ranking)
            elif same:  # whether the query was reset since is known only where it is held
                arm.count_step(record.clicks, record.value)
    policy = (arm or ranker).policy
    return outcome.counted(record, waited=waited, holdout=holdout, reset=reset, policy=policy, error=error)


def withdrawn(state: StateData, seq: int, record: Withdrawn) -> FeedbackResult:
    """A list is taken back, perhaps before it is known."""
    ranker = state.rankers.get(record.ranker)
    if ranker is not None:
        ranker.withdraw(record.event_id, record.time)
    return outcome.withdrawn(record.event_id)


def lost(state: StateData, seq: int, record: Lost) -> None:
    """A list ends whose record is not in the log any more."""
    ranker = state.rankers.get(record.ranker)
    if ranker is not None:
        ranker.close_window(record.start)


def warm(state: StateData, seq: int, record: Warm) -> None:
    """Learn from a row of an old log."""
    arm = state.arm_of(record)
    if arm is None or record.ranker_since not in (0, arm.since):  # sent again, its batch would count twice
        return
    k = arm.settings.k  # may have become smaller since the request
    ranking, clicks = served_list(record, arm.policy, k), _within(record.clicks, k)
    _learn_shared(seq, arm, ranking, clicks)
    if not state.queries.holds((arm.owner, record.query)):
        arm.count_step(clicks, len(clicks))
        return
    query = state.query(arm, record.query)
    if query is not None and query.seq >= seq:
        arm.count_step(record.clicks, len(record.clicks))
        arm.queries += query.since == seq
        return
    features = None if record.features is None else record.features[:k]
    try:
        if query is None:
            learner = arm.new_learner(record.query, ranking, features)
            query = state.new_query(arm, record.query, learner, seq, record.time)
        nbytes = query.nbytes
        changes = query.learn(ranking, clicks, record.when, items=ranking, features=features)
        arm.count_step(clicks, len(clicks))
        if changes:
            state.note_changes(seq, state.rankers[record.ranker], record.query, record.when, changes)
    except ValueError as error:
        log_not_learnt(seq, error)
    if query is not None:
        state.queries.changed((arm.owner, record.query), query, seq, nbytes)


def change_found(state: StateData, seq: int, record: ChangeFound) -> None:
    """A service that holds the query has found a change of users."""
    ranker = state.rankers.get(record.ranker)
    if ranker is None or record.number < ranker.since * REMEMBERED:  # reset since
        return
    if all(change.number != record.number for change in ranker.changes):
        of = record.query, record.step, record.item, record.everything, record.before, record.after
        state.keep_changes(ranker, [Change(record.number, record.when, *of)])


def _learn(
    state: StateData, seq: int, record: Final, ranked: Ranked, arm: Arm, query: Query, ranking: Sequence[ItemId]
) -> str | None:
    """Update the learner of a query; the error, if it rejects the impression."""
    if query.seq >= seq:  # its snapshot includes the record
        arm.count_step(record.clicks, record.value)
        return None
    nbytes, failed = query.nbytes, None
    try:
        clicks = _within(record.clicks, arm.settings.k)
        value = record.value if record.values else None
        changes = query.learn(ranking, clicks, record.time, items=ranked.items, features=ranked.features, value=value)
        arm.count_step(record.clicks, record.value)
        if changes:
            state.note_changes(seq, state.rankers[record.ranker], ranked.query, record.time, changes)
    except ValueError as error:
        failed = str(error)
        log_not_learnt(seq, error)
    state.queries.changed((arm.owner, ranked.query), query, seq, nbytes)
    return failed


def _count_delay(state: StateData, ranker: Ranker, record: Clicked | Final, impression: Impression) -> None:
    delay = max(0.0, record.time - impression.opened_at)
    state.metrics.observe("click_delay_seconds", (record.ranker,), delay)
    ranker.series.clicked(record.time, delay)


def _learn_shared(seq: int, arm: Arm, ranking: Sequence[ItemId], clicks: Sequence[int]) -> None:
    """Let the shared model learn from a ranking, from its records alone: the query may be ahead, or reset since."""
    if isinstance(ranking, RankedItems) and ranking.described is not None and arm.shared is not None:
        try:
            arm.shared.learn(ranking, click_positions(clicks, len(ranking)))
            arm.shared_seq = seq
        except ValueError as error:
            log_not_learnt(seq, error)


def _within(clicks: Sequence[int], k: int) -> list[int]:
    return [click for click in clicks if click <= k]
