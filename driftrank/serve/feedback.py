"""Feedback: the positions it names, and the record it becomes."""

from __future__ import annotations

from driftrank.serve.log import records
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import Clicked, Feedback


def positions(ranked: records.Ranked, feedback: Feedback) -> tuple[list[int], int | None]:
    """The clicked positions, ascending, and the number of items shown; None if all were."""
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
                    f'an item whose id is a number is {{"id": {click}}}'
                )
            out.add(click)
        else:
            item = click.id if isinstance(click, Clicked) else click
            if item not in ranked.shown:
                raise ValueError(f"clicks: {item!r} is not in the ranking")
            out.add(ranked.shown.index(item) + 1)
    if shown is not None and out and max(out) > shown:
        raise ValueError(f"clicks: position {max(out)} was clicked, but only {shown} items were shown")
    return sorted(out), shown


def feedback_record(
    ranker: Ranker, impression: Impression, now: float, clicks: list[int], shown: int | None,
    client_time: float | str | None,
) -> NewRecord:  # fmt: skip
    """The end of the impression, or clicks to be collected."""
    name, event_id, seq = ranker.name, impression.ranked.event_id, impression.seq
    # clicks collected before the settings changed are not lost
    if ranker.settings.second_click == "update" or impression.opened_by in ranker.collected:
        clicked = records.Clicked(name, event_id, now, clicks, shown, client_time)
        return NewRecord(records.clicked_id(name, event_id, seq, clicks, shown), clicked)
    final = records.Final(name, event_id, now, "feedback", clicks, shown, client_time)
    return NewRecord(records.final_id(name, event_id, seq), final)
