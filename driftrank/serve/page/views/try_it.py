"""Try it: simulated users, their clicks against the best possible, and a button that changes their minds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from driftrank.serve.answers.queries import Introspection
from driftrank.serve.page.charts import Line, Marker, Point, chart
from driftrank.serve.page.sandbox import KEPT, QUERY, RANKER, Sandbox, Second
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.problems import Refused
from driftrank.wire import ItemState

#: seconds over which clicks per list are averaged
_SMOOTH = 4


async def try_it(looking: Looking) -> dict[str, Any]:
    """The sandbox, as it is at the moment."""
    sandbox = looking.sandbox
    if sandbox is None or RANKER not in looking.names:
        raise Refused(404, "Not found", "the sandbox is a part of driftrank demo")
    now = looking.service.now()
    estimates = await _estimates(looking)
    found = [change.time for change in looking.service.ranker(RANKER).changes if change.query == QUERY]
    order = sorted(estimates.values(), key=lambda it: -(it.score or 0.0))
    places = {item.id: place for place, item in enumerate(order, 1)}
    return {
        "chart": _chart(sandbox, list(sandbox.seconds), found, now),
        "rate": _recent(list(sandbox.seconds), 10),
        "best": sandbox.best,
        "fixed": sandbox.fixed,
        "taste": [(item, p, estimates.get(item), places.get(item)) for item, p in sandbox.taste],
        "said": _said(sandbox, found, now),
        "ranker": RANKER,
        "query": QUERY,
    }


async def _estimates(looking: Looking) -> dict[Any, ItemState]:
    try:
        state = await Introspection(looking.service).state(RANKER, QUERY)
    except Refused:  # the first list is still to come
        return {}
    return {item.id: item for item in state.items}


def _recent(seconds: list[Second], n: int = _SMOOTH) -> float | None:
    last = seconds[-n:]
    lists = sum(it.lists for it in last)
    return sum(it.clicks for it in last) / lists if lists else None


def _chart(sandbox: Sandbox, seconds: list[Second], found: list[float], now: float) -> Any:
    earned: list[Point] = [
        (it.second + 1.0, _recent(seconds[: n + 1])) for n, it in enumerate(seconds[:-1]) if n + 1 >= _SMOOTH
    ]
    steps = [(float(at), it) for it in seconds for at in (it.second, it.second + 1)]
    markers = [
        *(Marker(time, f"{_clock(time)}: users changed their minds", "made") for time in sandbox.changed),
        *(Marker(time, f"{_clock(time)}: the policy noticed", "found") for time in found),
    ]
    rate = _recent(seconds)
    label = (
        f"Clicks per list over the last two minutes: now {rate or 0:.2f}, the best possible is {sandbox.best:.2f}, "
        f"a fixed order gets {sandbox.fixed:.2f}."
    )
    begin = max(seconds[0].second if seconds else now, now - KEPT) // 10 * 10
    return chart(
        [
            Line("best possible", [(at, it.best) for at, it in steps], "best"),
            Line("a fixed order", [(at, it.fixed) for at, it in steps], "quiet"),
            Line("driftrank", earned, "c1"),
        ],
        label=label, begin=begin, end=max(now, begin + 30), markers=markers,
        marked={"made": "users changed their minds", "found": f"the policy noticed ({len(found)})"},
        ticks=(f"{max(now, begin + 30) - begin:.0f} s ago", "now"),
    )  # fmt: skip


def _said(sandbox: Sandbox, found: list[float], now: float) -> str:
    """The state of affairs, in a sentence."""
    rate = _recent(list(sandbox.seconds)) or 0.0
    changed = sandbox.changed[-1] if sandbox.changed else None
    if changed is None or now - changed > KEPT:
        if rate > 0.85 * sandbox.best:
            return "It has found what users like. Change their minds, and watch."
        return "It is learning what users like, from their clicks alone."
    noticed = next((time for time in found if time > changed), None)
    if noticed is None:
        return "Users have changed their minds; it has not noticed yet."
    if rate > 0.85 * sandbox.best:
        return f"It noticed {noticed - changed:.0f} s after users changed their minds, and has recovered."
    return f"It noticed {noticed - changed:.0f} s after users changed their minds, and learns again."


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S")
