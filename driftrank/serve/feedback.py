"""Feedback: the positions it names, and the record it becomes."""

from __future__ import annotations

from driftrank.serve.log import records
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import Clicked, Feedback, ItemId


def positions(ranked: records.Ranked, feedback: Feedback) -> tuple[list[int], int | None]:
    """The clicked positions, ascending, and the number of items shown; None if all were, 0 if it is taken back."""
    length = len(ranked.shown)
    shown = feedback.shown
    if shown is not None:
        if not 0 <= shown <= length:
            raise ValueError(f"shown={shown}: must be from 0 to {length}")
        shown = shown if shown < length else None
    numbered = any(isinstance(item, int) for item in ranked.shown)
    out = {_position(ranked.shown, click, numbered) for click in feedback.clicks or ()}
    if shown is not None and out and max(out) > shown:
        raise ValueError(f"clicks: position {max(out)} was clicked, but only {shown} items were shown")
    return sorted(out), shown


def _position(shown: list[ItemId], click: str | int | Clicked, numbered: bool) -> int:
    """The position of a click. ``numbered``: some ids are integers, so an integer is an id."""
    if not isinstance(click, Clicked):
        click = Clicked(id=click) if isinstance(click, str) or numbered else Clicked(position=click)
    if click.position is not None:
        if not 1 <= click.position <= len(shown):
            raise ValueError(f"clicks: position {click.position}: must be from 1 to {len(shown)}")
        return click.position
    if click.id not in shown:
        hint = f'; a position is {{"position": {click.id}}}' if isinstance(click.id, int) else ""
        raise ValueError(f"clicks: {click.id!r} is not in the ranking{hint}")
    return shown.index(click.id) + 1


def feedback_record(
    ranker: Ranker, impression: Impression, now: float, clicks: list[int], shown: int | None,
    client_time: float | str | None,
) -> NewRecord:  # fmt: skip
    """The end of the impression, or clicks to be collected."""
    name, event_id, seq = ranker.name, impression.ranked.event_id, impression.seq
    if shown == 0:
        return withdrawal(ranker, impression, now, client_time)
    # clicks collected before the settings changed are not lost
    if ranker.settings.second_click == "update" or impression.opened_by in ranker.collected:
        clicked = records.Clicked(name, event_id, now, clicks, shown, client_time)
        return NewRecord(records.clicked_id(name, event_id, seq, clicks, shown), clicked, about=impression)
    final = records.Final(name, event_id, now, "feedback", clicks, shown, client_time)
    return NewRecord(records.final_id(name, event_id, seq), final, about=impression)


def withdrawal(ranker: Ranker, impression: Impression, now: float, client_time: float | str | None = None) -> NewRecord:
    """The end of an impression that nobody was shown."""
    event_id = impression.ranked.event_id
    final = records.Final(ranker.name, event_id, now, "withdrawn", [], 0, client_time)
    return NewRecord(records.final_id(ranker.name, event_id, impression.seq), final, about=impression)
