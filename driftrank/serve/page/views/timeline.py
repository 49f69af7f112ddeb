"""Changes of users on the time axis."""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup

from driftrank.serve.page.charts import Marker, chart
from driftrank.wire import ChangeLogged


def timeline(changes: list[ChangeLogged], now: float) -> Markup | None:
    """A line for each change, the latest first; None if there are none."""
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
    subject = "all items" if change.everything else f"item {change.item}"
    return f"{subject} of {change.query!r}"
