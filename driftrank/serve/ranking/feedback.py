"""Feedback: the positions it names, and the record it becomes."""

from __future__ import annotations

from collections.abc import Mapping

from driftrank.serve.log import records
from driftrank.serve.log.committer import NewRecord
from driftrank.serve.state import rewards
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.state.rewards import Reported
from driftrank.wire import Clicked, Feedback


def reported(ranked: records.Ranked, feedback: Feedback, kinds: Mapping[str, float]) -> Reported:
    """The content of a feedback. ``kinds``: the values of kinds of events."""
    length = len(ranked.shown)
    shown = feedback.shown
    if shown is not None:
        if not 0 <= shown <= length:
            raise ValueError(f"shown={shown}: must be from 0 to {length}")
        shown = shown if shown < length else None
    numbered = any(isinstance(item, int) for item in ranked.shown)
    usual = rewards.value_of(kinds, feedback.value, feedback.kind)
    clicks = feedback.clicks or []
    if usual is not None and not clicks:
        if length > 1:
            raise ValueError("clicks: must name the items that the value is of, as the ranking has several")
        clicks = [Clicked(position=ranked.offset + 1)]
    out: dict[int, float] = {}
    for click in clicks:
        value = rewards.value_of(kinds, click.value, click.kind) if isinstance(click, Clicked) else None
        value = (1.0 if usual is None else usual) if value is None else value
        position = _position(ranked, click, numbered)
        out[position] = max(value, out.get(position, 0.0))
    if shown is not None and out and max(out) > shown:
        raise ValueError(f"clicks: position {max(out)} was clicked, but only {shown} items were shown")
    if all(value == 1.0 for value in out.values()):
        return Reported(sorted(out), shown, [])
    return rewards.settled(ranked.ranker, ranked.event_id, out, shown)


def _position(ranked: records.Ranked, click: str | int | Clicked, numbered: bool) -> int:
    """The position of a click within its page. ``numbered``: some ids are integers, so an integer is an id."""
    shown, above = ranked.shown, ranked.offset
    if not isinstance(click, Clicked):
        click = Clicked(id=click) if isinstance(click, str) or numbered else Clicked(position=click)
    if click.position is not None:
        if not above < click.position <= above + len(shown):
            raise ValueError(f"clicks: position {click.position}: must be from {above + 1} to {above + len(shown)}")
        return click.position - above
    if click.id not in shown:
        hint = f'; a position is {{"position": {click.id}}}' if isinstance(click.id, int) else ""
        raise ValueError(f"clicks: {click.id!r} is not in the ranking{hint}")
    return shown.index(click.id) + 1


def feedback_record(
    ranker: Ranker, impression: Impression, now: float, given: Reported, client_time: float | str | None
) -> NewRecord:
    """The end of the impression, or clicks to be collected."""
    name, event_id, seq = ranker.name, impression.ranked.event_id, impression.seq
    if given.shown == 0:
        return withdrawal(ranker, impression, now, client_time)
    # clicks collected before the settings changed are not lost
    if ranker.settings.second_click == "update" or impression.opened_by in ranker.collected:
        clicked = records.Clicked(name, event_id, now, given.clicks, given.shown, client_time, given.values)
        return NewRecord(records.clicked_id(name, event_id, seq, *given), clicked, about=impression)
    final = records.Final(name, event_id, now, "feedback", given.clicks, given.shown, client_time, given.values)
    return NewRecord(records.final_id(name, event_id, seq), final, about=impression)


def withdrawal(ranker: Ranker, impression: Impression, now: float, client_time: float | str | None = None) -> NewRecord:
    """The end of an impression that nobody was shown."""
    event_id = impression.ranked.event_id
    final = records.Final(ranker.name, event_id, now, "withdrawn", [], 0, client_time)
    return NewRecord(records.final_id(ranker.name, event_id, impression.seq), final, about=impression)
