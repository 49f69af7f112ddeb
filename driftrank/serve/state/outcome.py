"""The outcome of feedback. Only these functions decide it; the service's answers and metrics repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from driftrank.policies.base import Policy
from driftrank.serve.log.records import Clicked, Final
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.rewards import Reported
from driftrank.wire import FeedbackResult

_OVER = "the feedback window is over"


def orphan(event_id: str) -> FeedbackResult:
    """Feedback on an impression that does not exist, or not any more."""
    return FeedbackResult(event_id, "orphan", detail="no ranking has this event_id")


def withdrawn(event_id: str) -> FeedbackResult:
    """An impression that was taken back, perhaps before it was known."""
    return FeedbackResult(event_id, "withdrawn")


def unrecorded(
    impression: Impression, window: float, now: float, reported: Reported, *, collected: bool = False
) -> FeedbackResult | None:
    """The outcome of feedback that changes nothing; None if it is to be recorded. ``collected``: there are clicks."""
    event_id, shown = impression.ranked.event_id, reported.shown
    if impression.final is not None:
        return after_end(impression.final, reported)
    if impression.opened_by is None:
        if shown == 0:
            return None
        return FeedbackResult(event_id, "inactive", detail="the ranking was deferred and is not activated")
    if shown == 0 and collected:
        return FeedbackResult(event_id, "refused", detail="clicks were collected before")
    if now >= impression.opened_at + window:
        return FeedbackResult(event_id, "late", detail=_OVER)
    return None


def after_end(final: Final, reported: Reported) -> FeedbackResult:
    """Feedback on an impression that has ended."""
    if final.how == "withdrawn":
        if reported.shown == 0:
            return withdrawn(final.event_id)
        return FeedbackResult(final.event_id, "refused", detail="the ranking was taken back before")
    if final.how != "feedback":
        return FeedbackResult(final.event_id, "late", detail=_OVER)
    if reported.is_final(final):
        return FeedbackResult(final.event_id, "duplicate", len(final.clicks), value=_value(final))
    detail = "other clicks were counted before"
    if final.values or reported.values:
        detail += "; events of a ranking are only collected with second_click='update', until its feedback window ends"
    return FeedbackResult(final.event_id, "refused", len(final.clicks), detail, value=_value(final))


def _value(final: Final) -> float | None:
    return final.value if final.values else None


def repeated(record: Clicked | Final, impression: Impression, *, reset: bool) -> FeedbackResult:
    """Feedback whose record was in the log already. ``reset``: the query was, since the impression."""
    if isinstance(record, Clicked):
        return _forgotten(record) if reset else FeedbackResult(record.event_id, "duplicate", len(record.clicks))
    assert impression.final is not None, "the end of an impression has one id in the log"
    return after_end(impression.final, Reported(record.clicks, record.shown, record.values))


def unused(policy: Policy, clicks: Sequence[int]) -> str | None:
    """A warning if the policy does not use all clicks."""
    if len(clicks) < 2 or policy.feedback != "first":
        return None
    return f"{policy.spec} learns from the first click only, at position {clicks[0]}"


def collected(
    record: Clicked, impression: Impression, clicks: list[int] | None, *, reset: bool, policy: Policy,
    value: float | None = None,
) -> FeedbackResult:  # fmt: skip
    """Clicks that were folded; ``clicks`` are all those collected, None if the feedback window was over, ``value`` is
    that of all of them if values were given.
    """
    if reset:
        return _forgotten(record)
    if clicks is not None:
        return FeedbackResult(record.event_id, "collected", len(clicks), warning=unused(policy, clicks), value=value)
    if impression.final is not None:
        return after_end(impression.final, Reported(record.clicks, record.shown, record.values))
    return FeedbackResult(record.event_id, "late", detail=_OVER)


def counted(
    record: Final, *, waited: bool, holdout: bool, reset: bool, policy: Policy, error: str | None = None
) -> FeedbackResult:
    """The end of an impression that was folded. ``waited``: its feedback window was open until then."""
    if record.how == "withdrawn":
        return withdrawn(record.event_id)
    if not waited:
        return FeedbackResult(record.event_id, "late", detail=_OVER)
    if holdout:
        return FeedbackResult(record.event_id, "holdout", len(record.clicks), value=_value(record))
    if reset:
        return _forgotten(record)
    detail, warning = error and f"not learnt: {error}", unused(policy, record.clicks)
    return FeedbackResult(record.event_id, "counted", len(record.clicks), detail, warning, _value(record))


def _forgotten(record: Clicked | Final) -> FeedbackResult:
    return FeedbackResult(record.event_id, "forgotten", detail="the ranker or the query was reset since")
