"""The overview: is it well, and does it earn more than the baseline?"""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.serve.answers.series import overview as overview_of
from driftrank.serve.answers.series import series_of
from driftrank.serve.page.views.earning import Earning, earning
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.slices import Slices
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import ArmSeries, Overview, RankerOverview

#: failed requests from which on it is not well
_ERRORS = 0.01
#: rankers that are shown, unless all are asked for
_CARDS = 50
#: seconds without a sign of life of a node
_SILENT = 30


class _Card(NamedTuple):
    """A ranker of the overview."""

    of: RankerOverview
    mode: str
    queries: int
    earning: Earning
    spark: list[float | None]  #: clicks per list of the last hour, by minutes
    bands: dict[str, tuple[float, float]]  #: of clicks per list since an arm began, which hold at all times


async def overview(looking: Looking) -> dict[str, Any]:
    """The visible rankers and, with access to all, the service."""
    found = await overview_of(looking.service, looking.rankers, looking.round.glances)
    cards = await _cards(looking, found.rankers)
    kind, verdict = _verdict(cards)
    reasons = _reasons(found)
    if reasons:
        kind = "bad"
    return {
        "cards": cards if looking.params.get("rankers") == "all" else cards[:_CARDS], "cards_total": len(cards),
        "all": found, "now": looking.now, "kind": kind, "verdict": verdict, "reasons": reasons,
        "lists_hour": sum(it.lists_hour for it in found.rankers),
        "changes": sum(it.changes_day for it in found.rankers),
        "explored": _explored(found), "recent": None if found.service is None else found.service.recent,
        "period": period,
    }  # fmt: skip


async def _cards(looking: Looking, rankers: list[RankerOverview]) -> list[_Card]:
    """The cards of these rankers, the busiest first."""
    cards, now, slices = looking.round.cards, looking.service.now(), Slices()
    for it in rankers:
        ranker = looking.service.state.rankers.get(it.ranker)
        if it.ranker not in cards and ranker is not None:
            cards[it.ranker] = _card(ranker, it, now)
            if slices.over:
                await slices.pause()
    found = [cards[it.ranker] for it in rankers if it.ranker in cards]
    return sorted(found, key=lambda card: (-card.of.lists_day, card.of.ranker))


def _card(ranker: Ranker, it: RankerOverview, now: float) -> _Card:
    queries = sum(arm.queries for arm in ranker.every_arm())
    arms = series_of(ranker, "minute", now - 3600, now).arms
    bands = {
        arm.arm: (low, high)
        for arm in arms
        if (low := arm.low[-1]) is not None and (high := arm.high[-1]) is not None
    }  # fmt: skip
    return _Card(it, ranker.settings.mode, queries, earning(ranker), _spark(arms), bands)


def _spark(every: list[ArmSeries]) -> list[float | None]:
    arms = [arm for arm in every if arm.arm != "holdout"]
    clicks = [sum(column) for column in zip(*(arm.clicks for arm in arms), strict=True)]
    ended = [
        sum(column) for column in zip(*(arm.feedback for arm in arms), *(arm.silence for arm in arms), strict=True)
    ]
    return [c / n if n else None for c, n in zip(clicks, ended, strict=True)]


def _explored(found: Overview) -> float | None:
    lists = sum(it.lists_day for it in found.rankers if it.explored is not None)
    return sum((it.explored or 0.0) * it.lists_day for it in found.rankers) / lists if lists else None


def _verdict(cards: list[_Card]) -> tuple[str, str]:
    busy = [card for card in cards if card.of.lists_day]
    if not busy:
        return "none", "No lists were asked for in the last 24 hours."
    if len(busy) == 1 and (of := busy[0].earning).gain is not None:
        name = busy[0].of.ranker
        if of.kind == "good":
            return "good", f"{name} earns {of.gain:.0%} more clicks per list than {of.over}."
        if of.kind == "bad":
            return "bad", f"{name} earns {-of.gain:.0%} fewer clicks per list than {of.over}."
        return "warn", f"{name} is not certain to earn more than {of.over} yet."
    more, less = (sum(card.earning.kind == kind for card in busy) for kind in ("good", "bad"))
    if less:
        return "bad", f"{less} of {len(busy)} rankers with traffic earn less than the baseline."
    if more == len(busy):
        all_ = "Both" if more == 2 else f"All {more}"
        return "good", f"{all_} rankers with traffic earn more clicks per list than the baseline."
    if more:
        return "good", f"{more} of {len(busy)} rankers with traffic are certain to earn more than the baseline."
    if any(card.earning.kind == "warn" for card in busy):
        return "warn", "No ranker is certain to earn more than the baseline yet."
    return "none", "Nothing to compare with yet: a ranker with the setting holdout says what it earns."


def _reasons(found: Overview) -> list[str]:
    """Why it is not well."""
    its = found.service
    if its is None:
        return []
    out = [] if its.problem is None else [its.problem]
    of = its.recent
    if of is not None and of.errors > _ERRORS * of.requests:
        out.append(f"{of.errors:,} of {of.requests:,} requests failed in the {period(of.seconds)}.")
    silent = [node for node in its.nodes if node.seconds > _SILENT]
    return out + [f"Node {node.node} was last seen {node.seconds:.0f} s ago." for node in silent]


def period(seconds: float) -> str:
    """The length of the time that counts are about.

    >>> period(312.0), period(75.2), period(3.0)
    ('last 5 minutes', 'last minute', 'last 3 seconds')
    """
    n, unit = (seconds / 60, "minute") if seconds >= 60 else (seconds, "second")
    return f"last {unit}" if round(n) == 1 else f"last {n:.0f} {unit}s"
