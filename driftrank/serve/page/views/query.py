"""A query: its items with what is believed of them and why, its changes, and its latest lists."""

from __future__ import annotations

from typing import Any, NamedTuple

from driftrank.serve.answers import feeds
from driftrank.serve.answers.queries import Introspection
from driftrank.serve.answers.query_lists import query_lists
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.page.views.timeline import timeline
from driftrank.serve.problems import Refused
from driftrank.wire import ItemState, QueryLists

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
    arm = looking.params.get("arm", "")
    state = await Introspection(service).state(ranker, name, 0, most, arm=arm)
    lists = await _lists(looking, ranker, name)
    changes = feeds.changes(service, ranker, name, None, 100)
    sparks = {} if lists is None else {it.id: _rates(it.shown, it.clicked) for it in lists.items}
    top = max((it.high or it.estimate or 0.0 for it in state.items), default=1.0) or 1.0
    return {
        "ranker": ranker, "name": name, "state": state, "top": min(1.0, top), "now": looking.now,
        "rows": [_Row(it, _learnt(it), sparks.get(it.id, [])) for it in state.items],
        "lists": [] if lists is None else lists.lists, "changes": changes,
        "arm": arm, "arms": ["", *service.ranker(ranker).arms], "axis": timeline(changes, service.now()),
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
