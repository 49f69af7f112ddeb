"""Feedback requests: checked, recorded, and answered with what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from msgspec import structs

from driftrank.serve.core import ServiceCore
from driftrank.serve.log.committer import NewRecord, Settled
from driftrank.serve.log.records import Activated, Clicked, Final, Withdrawn, activated_id, withdrawn_id
from driftrank.serve.problems import Refused
from driftrank.serve.ranking.feedback import feedback_record, reported, withdrawal
from driftrank.serve.slices import Slices
from driftrank.serve.state import outcome
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import Activation, Feedback, FeedbackResult


class FeedbackRequests:
    """Takes feedback, and opens the feedback windows of deferred impressions."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def feedback(self, name: str, feedbacks: Sequence[Feedback]) -> list[FeedbackResult]:
        """The outcome of each; if one is malformed, all are rejected."""
        core = self._core
        ranker = core.ranker(name)
        core.check_batch(len(feedbacks))
        slices = Slices()
        results: list[FeedbackResult | NewRecord] = []
        known = await self._known(ranker, feedbacks)
        ranker = core.ranker(name)
        async with core.one_batch[name] if len(feedbacks) > 1 else nullcontext():
            now = core.now()
            for n, feedback in enumerate(feedbacks):
                if n and slices.over:
                    await slices.pause()
                    now = core.now()
                try:
                    results.append(self._feedback(ranker, feedback, now, known))
                except ValueError as error:
                    core.metrics.add("feedback", (name, "malformed"))
                    where = f"feedback {n + 1} of {len(feedbacks)}: " if len(feedbacks) > 1 else ""
                    raise Refused(422, "Bad value", f"{where}{error}") from None
        records = [result for result in results if isinstance(result, NewRecord)]
        settled = iter(await core.append(stamped(records, now)) if records else [])
        if not records:
            await core.settle()
        out = [self._outcome(it, next(settled)) if isinstance(it, NewRecord) else it for it in results]
        await take_back(core, ranker, [new.record.event_id for new in records if isinstance(new.record, Withdrawn)])
        for result in out:
            core.metrics.add("feedback", (name, result.outcome))
        return out

    async def _known(self, ranker: Ranker, feedbacks: Sequence[Feedback]) -> dict[str, Impression | None] | None:
        """The impressions that feedback is about, with their queries in memory; None if they can be read at once."""
        core = self._core
        if not core.shared:
            return None
        most = core.settings.max_id
        ids = [f.event_id for f in feedbacks if 0 < len(f.event_id) <= most]
        known = await core.impressions(ranker, ids)
        await core.hold(ranker.name, {it.ranked.query for it in known.values() if it is not None})
        return known

    def _feedback(
        self, ranker: Ranker, feedback: Feedback, now: float, known: dict[str, Impression | None] | None
    ) -> FeedbackResult | NewRecord:
        """The outcome of feedback that changes nothing, or the record of any other."""
        core = self._core
        event_id, max_id = feedback.event_id, core.settings.max_id
        if not event_id:  # of a baseline that was answered instead of a ranking
            return outcome.orphan(event_id)
        core.check_id("event_id", event_id)
        if feedback.shown is not None and feedback.shown < 0:
            raise ValueError(f"shown={feedback.shown}: must be at least 0")
        if isinstance(feedback.time, str) and len(feedback.time) > max_id:  # it is kept in memory, too
            raise ValueError(f"time: {len(feedback.time)} characters, at most {max_id} are allowed")
        impression = core.state.impression(ranker, event_id) if known is None else known[event_id]
        if impression is None:
            if feedback.shown == 0 and not feedback.clicks:
                record = Withdrawn(ranker.name, event_id, now)
                return NewRecord(withdrawn_id(ranker.name, ranker.created, event_id), record)
            return outcome.orphan(event_id)
        given = reported(impression.ranked, feedback, ranker.settings.values or {})
        collected = impression.opened_by in ranker.collected
        result = outcome.unrecorded(impression, ranker.feedback_window, now, given, collected=collected)
        return result or feedback_record(ranker, impression, now, given, feedback.time)

    def _outcome(self, new: NewRecord, settled: Settled) -> FeedbackResult:
        if settled.new:
            if settled.outcome is None:  # only if others write to the log, too
                raise Refused(503, "Store not readable", f"record {settled.seq} could not be folded")
            assert isinstance(settled.outcome, FeedbackResult)
            return settled.outcome
        if not settled.seq:  # another service has forgotten the impression
            assert isinstance(new.record, Final | Clicked)
            return outcome.orphan(new.record.event_id)
        if isinstance(new.record, Withdrawn):
            return outcome.withdrawn(new.record.event_id)
        assert isinstance(new.record, Final | Clicked)
        return self._core.state.repeated(settled.seq, new.record)

    async def activate(self, event_id: str, names: Iterable[str]) -> Activation:
        """Open the feedback window of a deferred impression of one of these rankers."""
        core = self._core
        core.check_ready()
        core.check_named("event_id", event_id)
        rankers = [core.state.rankers[name] for name in names if name in core.state.rankers]
        all_ = [(await core.impressions(ranker, [event_id]))[event_id] for ranker in rankers]
        found = [it for it in all_ if it is not None]
        if not found:
            raise Refused(404, "No such event", f"event_id={event_id!r}: no ranking has it")
        if len(found) > 1:
            detail = "several rankers have such a ranking: use /v1/rankers/{ranker}/events/{id}/activate"
            raise Refused(409, "Ambiguous event id", detail)
        (impression,) = found
        if impression.final is not None and impression.final.how == "withdrawn":
            raise Refused(409, "Ranking taken back", f"event_id={event_id!r}: the ranking was taken back")
        if impression.opened_by is not None:  # it was not deferred, or is activated already
            await core.settle()
            return Activation(event_id, "duplicate")
        name = impression.ranked.ranker
        record = Activated(name, event_id, core.now())
        new = NewRecord(activated_id(name, event_id, impression.seq), record, about=impression)
        (settled,) = await core.append([new])
        if not settled.seq:
            raise Refused(404, "No such event", f"event_id={event_id!r}: no ranking has it")
        return Activation(event_id, "activated" if settled.new else "duplicate")


async def take_back(core: ServiceCore, ranker: Ranker, event_ids: Iterable[str]) -> None:
    """End those of these impressions that were taken back before they were known."""
    found = await core.impressions(ranker, event_ids)
    ends = [
        withdrawal(ranker, it, core.now())
        for it in found.values()
        if it is not None and it.final is None and ranker.has_withdrawn(it.ranked.event_id, it.ranked.time)
    ]
    if ends:
        await core.append(ends, urgent=True)


def stamped(records: list[NewRecord], now: float) -> list[NewRecord]:
    """The records of a batch with the time of its last slice: times in the log ascend, and others came in between."""
    return [
        new if new.record.time == now else new._replace(record=structs.replace(new.record, time=now)) for new in records
    ]
