"""The latest lists of a query, read from the log by the numbers that its traffic remembers."""

from __future__ import annotations

from collections import Counter

from driftrank.serve.core import ServiceCore, no_query
from driftrank.serve.log.records import WHY
from driftrank.serve.state.impressions import Impression
from driftrank.serve.state.ranker import Ranker
from driftrank.serve.times import moment
from driftrank.wire import ItemId, ItemLists, ListSummary, QueryLists

#: parts into which the lists are divided, and items that are counted
_PARTS, _ITEMS = 16, 100


async def query_lists(service: ServiceCore, name: str, query: str, limit: int) -> QueryLists:
    """The latest lists of a query, and the items in all that are remembered."""
    ranker = service.ranker(name)
    traffic = ranker.traffic.queries.get(query)
    if traffic is None:
        raise no_query(name, query)
    found = await service.impressions_of(ranker, traffic.records())
    latest = [_summary(ranker, impression) for impression in reversed(found)]
    parts = min(_PARTS, len(found))
    firsts = [-(-part * len(found) // parts) for part in range(parts)]
    shown, clicked = _counted(ranker, found, parts)
    total: Counter[ItemId] = Counter()
    for (item, _), n in shown.items():
        total[item] += n
    items = [
        ItemLists(item, [shown[item, part] for part in range(parts)], [clicked[item, part] for part in range(parts)])
        for item, _ in total.most_common(_ITEMS)
    ]
    return QueryLists(name, query, latest[:limit], [moment(found[n].ranked.time) for n in firsts], items)


Counts = Counter[tuple[ItemId, int]]  #: by item and part


def _counted(ranker: Ranker, found: list[Impression], parts: int) -> tuple[Counts, Counts]:
    """The number of lists that showed each item in each part, and of those in which it was clicked."""
    shown: Counts = Counter()
    clicked: Counts = Counter()
    for n, impression in enumerate(found):
        part, items = n * parts // len(found), impression.ranked.shown
        shown.update((item, part) for item in items)
        clicked.update((items[at - 1], part) for at in _clicks(ranker, impression) or () if at <= len(items))
    return shown, clicked


def _clicks(ranker: Ranker, impression: Impression) -> list[int] | None:
    """The clicks on a list, so far if it has not ended; None if there was no feedback yet."""
    if impression.final is not None:
        return impression.final.clicks
    collected = ranker.collected.get(impression.opened_by or 0)
    return None if collected is None else collected[0]


def _summary(ranker: Ranker, impression: Impression) -> ListSummary:
    ranked, final = impression.ranked, impression.final
    return ListSummary(
        ranked.event_id, moment(ranked.time), ranked.arm, ranked.shown, [WHY[letter] for letter in ranked.why],  # type: ignore[misc]
        _clicks(ranker, impression), None if final is None else final.how,  # type: ignore[arg-type]
    )  # fmt: skip
