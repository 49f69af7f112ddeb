"""A ranker: what it earns over time, how it explores, what came back, what changed, and its settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, cast

from markupsafe import Markup

from driftrank.serve.answers import feeds
from driftrank.serve.answers.series import series_of
from driftrank.serve.answers.shadow import shadow_of
from driftrank.serve.page import settings_form
from driftrank.serve.page.charts import Line, Marker, Point, bars, chart
from driftrank.serve.page.views.earning import earning, earnings
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.page.views.timeline import timeline
from driftrank.serve.state.series import DAY
from driftrank.serve.times import moment
from driftrank.wire import ArmSeries, Delays, Gain, SeriesState

#: rows of tables
_ROWS = 10
#: changes that are drawn
_DRAWN = 200
#: for the own arm, the holdout, and the most arms that a ranker may have; more that are gone share them
_COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6", *(f"c{n} dashed" for n in range(1, 7)))
_ENDS = ("feedback", "silence", "dropped", "withdrawn", "late")


class _Window(NamedTuple):
    """A part of the past."""

    name: str
    text: str
    step: Literal["minute", "hour"]
    seconds: int
    together: int  #: periods that are a point of a chart
    period: str  #: that point, as text


_WINDOWS = {
    it.name: it
    for it in (
        _Window("hour", "Last hour", "minute", 3_600, 1, "by minute"),
        _Window("day", "24 hours", "hour", 86_400, 1, "by hour"),
        _Window("week", "7 days", "hour", 7 * 86_400, 3, "by 3 hours"),
        _Window("quarter", "92 days", "hour", 92 * 86_400, 24, "by day"),
    )
}


async def ranker(looking: Looking) -> dict[str, Any]:
    """A ranker in a part of the past."""
    service, name = looking.service, looking.params["ranker"]
    of = service.ranker(name)
    window = _WINDOWS.get(looking.params.get("window", "hour"), _WINDOWS["hour"])
    by = looking.params.get("by", "traffic")
    by = by if by in feeds.BY else "traffic"
    now = service.now()
    series = series_of(of, window.step, now - window.seconds, now)
    changes = feeds.changes(service, name, None, None, 1000)
    ends = {how: sum(sum(getattr(arm, how)) for arm in series.arms) for how in _ENDS}
    return {
        "name": name, "info": service.info(name), "earning": earning(of), "others_earning": earnings(of)[1:],
        "shadow": shadow_of(of), "now": looking.now,
        "window": window, "windows": _WINDOWS.values(), "by": by, "orders": feeds.BY,
        "clicks_chart": _clicks(series, window, changes, now),
        "gain_charts": [(gain, _gain(gain)) for gain in series.gains if gain.running],
        "positions": _positions(series), "delays": _delays(series.delays), "cut": _cut(series.delays),
        "ends": ends, "ended": sum(ends.values()),
        "explored": _share(series, "explored", "lists"),
        "days_since": moment(series.times[0] // DAY * DAY),
        "axis": timeline(changes[:_DRAWN], now), "changes": changes[:_ROWS], "changes_total": len(changes),
        "queries": feeds.top_queries(service, name, cast(feeds.By, by), 0, _ROWS),
        "fields": settings_form.FIELDS, "values": settings_form.values(of.settings),
        "others": settings_form.others(of.settings), "made_from": settings_form.made_from(of),
    }  # fmt: skip


def _share(series: SeriesState, part: str, whole: str) -> float | None:
    total = sum(sum(getattr(arm, whole)) for arm in series.arms)
    return sum(sum(getattr(arm, part)) for arm in series.arms) / total if total else None


def _clicks(series: SeriesState, window: _Window, changes: Sequence[Any], now: float) -> Markup:
    begin, end = float(series.times[0]), max(now, series.times[0] + 60.0)
    lines, said = [], []
    for colour, arm in zip(itertools.cycle(_COLOURS), sorted(series.arms, key=lambda arm: -sum(arm.lists))):
        lines += _of_arm(arm, series.times, window, colour, now)
        last = next((x for x in reversed(arm.mean) if x is not None), None)
        if last is not None:
            said.append(f"{arm.arm} {last:.3f}")
    markers = [
        Marker(it.time.timestamp(), f"{_clock(it.time)}: users of {it.query!r} changed", "found")
        for it in changes[:_DRAWN]
    ]
    label = f"Clicks per list by arm, {window.text.lower()}: {', '.join(said) or 'no lists'}."
    middle = datetime.fromtimestamp((begin + end) / 2, UTC)
    ticks = [_tick(datetime.fromtimestamp(begin, UTC), window), _tick(middle, window), "now"]
    marked = {"found": "a change of users was found"} if changes else None
    return chart(lines, label=label, ticks=ticks, markers=markers, marked=marked, begin=begin, end=end)


def _of_arm(arm: ArmSeries, times: list[int], window: _Window, colour: str, now: float) -> list[Line]:
    """Clicks per list of each period, and the mean since the arm began, with its band."""
    n, seconds = window.together, 60 if window.step == "minute" else 3_600
    points: list[Point] = []
    mean: list[Point] = []
    band = []
    for at in range(0, len(times), n):
        ended = sum(arm.feedback[at : at + n]) + sum(arm.silence[at : at + n])
        time = min(now, times[at] + n * seconds)
        points.append((time, sum(arm.clicks[at : at + n]) / ended if ended else None))
        so_far, low, high = (ends[at : at + n][-1] for ends in (arm.mean, arm.low, arm.high))
        mean.append((time, so_far))
        if low is not None and high is not None:
            band.append((time, low, high))
    return [Line(f"{arm.arm}, {window.period}", points, f"{colour} thin"), Line(arm.arm, mean, colour, band)]


def _gain(gain: Gain) -> Markup | None:
    """The gain over time; None if there is one hour only."""
    if len(gain.times) < 2:
        return None
    last = f"{gain.difference[-1]:+.3f} clicks per list, between {gain.low[-1]:+.3f} and {gain.high[-1]:+.3f}"
    line = Line(
        f"{gain.arm} less {gain.baseline}", list(zip(gain.times, gain.difference, strict=True)), "c1",
        list(zip(gain.times, gain.low, gain.high, strict=True)),
    )  # fmt: skip
    first, end = (datetime.fromtimestamp(time, UTC).strftime("%d %b %H:%M") for time in (gain.times[0], gain.times[-1]))
    label = f"Gain of {gain.arm} over {gain.baseline} by hour: {last}."
    return chart([line], label=label, ticks=(first, end), begin=gain.times[0], end=gain.times[-1], low=None)


def _positions(series: SeriesState) -> Markup | None:
    its = series.positions
    most = max((n for n, shown in enumerate(its.shown, 1) if shown), default=0)
    if not most:
        return None
    names = [str(n) if n <= 20 else "21+" for n in range(1, most + 1)]
    shares = [e / s if s else 0.0 for e, s in zip(its.explored[:most], its.shown[:most], strict=True)]
    said = ", ".join(f"{name}: {share:.1%}" for name, share in zip(names, shares, strict=True))
    return bars(
        [100 * share for share in shares], names, f"Share of explored items by position, in percent. {said}.", "%"
    )


def _delays(delays: Delays) -> Markup | None:
    if not any(delays.clicks):
        return None
    last = max(n for n, clicks in enumerate(delays.clicks) if clicks)
    names = [f"≤{_duration(bound)}" for bound in delays.bounds] + ["more"]
    said = ", ".join(f"{name}: {n:,}" for name, n in zip(names, delays.clicks, strict=True) if n)
    return bars(delays.clicks[: last + 1], names[: last + 1], f"Clicks by the time from list to click. {said}.")


def _cut(delays: Delays) -> dict[str, Any]:
    """The share of clicks that the feedback window, and shorter ones, cut off."""
    shorter = [
        (_duration(bound), cut)
        for bound, cut in zip(delays.bounds, delays.cut, strict=True)
        if bound < delays.wait and cut is not None
    ]
    return {"wait": _duration(delays.wait), "shorter": [it for it in shorter if it[1]][-1:] or shorter[:1]}


def _duration(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _tick(time: datetime, window: _Window) -> str:
    return time.strftime("%H:%M" if window.seconds <= 86_400 else "%d %b")


def _clock(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M")
