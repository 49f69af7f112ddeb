"""A query: its items with what is believed of them and why, its changes, and its latest lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from markupsafe import Markup

from driftrank.serve import feeds
from driftrank.serve.http.problems import Refused
from driftrank.serve.introspection import Introspection
from driftrank.serve.page.charts import Marker, chart
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.query_lists import query_lists
from driftrank.wire import ChangeLogged, ItemState, QueryLists

#: items and lists that are shown, unless all are asked for
_ITEMS, _LISTS = 50, 12


class _Row(NamedTuple):
    """An item."""

    item: ItemState
    learnt: float | None  #: what observations have added to the prior
    spark: list[float | None]  #: clicks when it was shown, over the latest lists


async def query(looking: Looking) -> dict[str, Any]:
    """A query of a ranker."""
    service, ranker = looking.service, looking.params["ranker"]
    name = looking.params.get("query", "")
    most = 1000 if looking.params.get("items") == "all" else _ITEMS
    state = await Introspection(service).state(ranker, name, 0, most)
    lists = await _lists(looking, ranker, name)
    changes = feeds.changes(service, ranker, name, None, 100)
    sparks = {} if lists is None else {it.id: _rates(it.shown, it.clicked) for it in lists.items}
    top = max((it.high or it.estimate or 0.0 for it in state.items), default=1.0) or 1.0
    return {
        "ranker": ranker, "name": name, "state": state, "top": min(1.0, top), "now": looking.now,
        "rows": [_Row(it, _learnt(it), sparks.get(it.id, [])) for it in state.items],
        "lists": [] if lists is None else lists.lists, "changes": changes,
        "axis": _axis(changes, service.now()),
    }  # fmt: skip


async def _lists(looking: Looking, ranker: str, name: str) -> QueryLists | None:
    try:
        return await query_lists(looking.service, ranker, name, _LISTS)
    except Refused:  # not among the busiest
        return None


def _rates(shown: list[int], clicked: list[int]) -> list[float | None]:
    return [c / s if s else None for s, c in zip(shown, clicked, strict=True)]


def _learnt(it: ItemState) -> float | None:
    return None if it.prior is None or it.estimate is None else it.estimate - it.prior


def _axis(changes: list[ChangeLogged], now: float) -> Markup | None:
    """The changes on the time axis."""
    if not changes:
        return None
    times = [change.time.timestamp() for change in changes]
    begin = min(times) - max(60.0, (now - min(times)) * 0.1)
    markers = [
        Marker(time, f"{change.time:%Y-%m-%d %H:%M:%S}: {_subject(change)}", "found")
        for time, change in zip(times, changes, strict=True)
    ]
    label = f"{len(changes)} changes on the time axis, the last at {changes[0].time:%Y-%m-%d %H:%M:%S} UTC."
    first = datetime.fromtimestamp(begin, UTC)
    form = "%H:%M" if now - begin < 86_400 else "%d %b"
    return chart([], label=label, ticks=(first.strftime(form), "now"), markers=markers, begin=begin, end=now)


def _subject(change: ChangeLogged) -> str:
    return "all items" if change.everything else f"item {change.item}"
