"""Feedback: which positions it means, and what it is worth once a list is done."""

from __future__ import annotations

from driftrank.serve.records import Final, Ranked
from driftrank.wire import Clicked, Feedback, FeedbackResult


def positions(ranked: Ranked, feedback: Feedback) -> tuple[list[int], int | None]:
    """The clicked positions, ascending, and how many items were shown where not all were."""
    length = len(ranked.shown)
    shown = feedback.shown
    if shown is not None:
        if not 1 <= shown <= length:
            raise ValueError(f"shown={shown}: must be from 1 to {length}")
        shown = shown if shown < length else None
    out = set()
    for click in feedback.clicks or ():
        if isinstance(click, int):
            if not 1 <= click <= length:
                raise ValueError(
                    f"clicks: position {click}: must be from 1 to {length}; "
                    f'an item with a number for its id is {{"id": {click}}}'
                )
            out.add(click)
        else:
            item = click.id if isinstance(click, Clicked) else click
            if item not in ranked.shown:
                raise ValueError(f"clicks: {item!r} is not in the list")
            out.add(ranked.shown.index(item) + 1)
    if shown is not None and out and max(out) > shown:
        raise ValueError(f"clicks: position {max(out)} was clicked, but only {shown} items were shown")
    return sorted(out), shown


def after_the_end(final: Final, event_id: str, clicks: list[int], shown: int | None) -> FeedbackResult:
    """Feedback for a list that is done."""
    if final.how != "feedback":
        return FeedbackResult(event_id, "late", detail="the wait for clicks was over")
    if (final.clicks, final.shown) == (clicks, shown):
        return FeedbackResult(event_id, "duplicate", len(clicks))
    return FeedbackResult(event_id, "refused", len(final.clicks), "other clicks were counted before")
