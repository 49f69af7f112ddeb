"""An event: the list that was served, why, what came back, and what was learnt from it."""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.serve.answers.event import event as event_of
from driftrank.serve.answers.reason import ordinal
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.problems import Refused
from driftrank.wire import EventState, GivenItem, RankedItem

_OUTCOMES = {
    "open": "The feedback window is open: nothing is learnt yet.",
    "inactive": "Deferred and not activated: nothing is learnt from it.",
    "collected": "Clicks are collected until the feedback window ends.",
    "holdout": "Kept for comparison: the list was in your own order, and nothing is learnt from it.",
    "forgotten": "Its ranker or query was reset since: what was learnt from it is gone.",
    "withdrawn": "Taken back: nothing is learnt from it.",
    "dropped": "No feedback came, which this ranker ignores: nothing is learnt from it.",
}


class _Shown(NamedTuple):
    """An item of the list."""

    item: RankedItem
    clicked: bool
    lesson: str
    reason: str


async def event(looking: Looking) -> dict[str, Any]:
    """Find an event by its id, in all visible rankers or in one."""
    wanted = looking.params.get("id", "")
    only = looking.params.get("ranker")
    found = [it for name in ([only] if only else looking.names) if (it := await _event(looking, name, wanted))]
    shown = [(it, _shown(it), _OUTCOMES.get(it.outcome) or _counted(it)) for it in found]
    return {"search": wanted, "found": shown, "given_text": _given, "now": looking.now}


async def _event(looking: Looking, ranker: str, event_id: str) -> EventState | None:
    if not event_id:
        return None
    try:
        return await event_of(looking.service, ranker, event_id)
    except Refused as problem:
        if problem.status in (404, 422):
            return None
        raise


def _counted(it: EventState) -> str:
    clicks = it.feedback.clicks if it.feedback else []
    if not clicks:
        return "Learnt from: nothing was clicked."
    return f"Learnt from: clicked at position {', '.join(map(str, clicks))}."


def _shown(it: EventState) -> list[_Shown]:
    end = it.feedback
    clicks = it.collected if end is None else end.clicks
    seen = len(it.items) if end is None or end.shown is None else end.shown
    return [
        _Shown(item, n in clicks, _lesson(it, n, clicks, seen), reason)
        for n, (item, reason) in enumerate(zip(it.items, it.reasons, strict=True), 1)
    ]


def _given(it: GivenItem) -> str:
    """An item as the request described it.

    >>> _given(GivenItem(2, 0.5, named=3)), _given(GivenItem())
    ("2nd in the caller's order, standardised score 0.5, 3 named features", 'nothing that the policy uses')
    """
    out = [] if it.place is None else [f"{ordinal(it.place)} in the caller's order"]
    out += [] if it.score is None else [f"standardised score {it.score:.3g}"]
    out += [f"features {', '.join(f'{x:.3g}' for x in it.vector)}"] if it.vector else []
    out += [f"{it.named} named feature{'s' * (it.named > 1)}"] if it.named else []
    return ", ".join(out) or "nothing that the policy uses"


def _lesson(it: EventState, place: int, clicks: list[int], seen: int) -> str:
    """The meaning of the feedback for an item."""
    if not it.learnt:
        return "nothing"
    if place > seen:
        return "nothing: it was not shown"
    if place in clicks:
        return "a click: it attracts"
    if not clicks or place < max(clicks):
        return "skipped: counts against it"
    return "below the last click: perhaps not seen"
