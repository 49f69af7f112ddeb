"""Small figures as SVG inside a page: they take the colours of the page, light or dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from scripts.docs.board import Verdict

WIDTH = 640
#: the height of a label
_LABEL = 15


def _figure(body: str, height: float, seen: str, caption: str) -> str:
    svg = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{html.escape(seen)}">{body}</svg>'
    return f'<figure class="chart">{svg}<figcaption>{html.escape(caption)}</figcaption></figure>'


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def times(ratio: float) -> str:
    """A ratio as the leaderboard rounds it."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def ratios(verdicts: Sequence[Verdict], rival: str, seen: str) -> str:
    """Regret relative to another policy, a dot for every environment, on a logarithmic scale."""
    left, right, row, top = 190.0, WIDTH - 50.0, 18.0, 30.0
    low = min(0.5, *(max(v.ratio, 0.05) for v in verdicts))
    high = max(2.0, *(v.ratio for v in verdicts))

    def x(value: float) -> float:
        share = (math.log(max(value, low)) - math.log(low)) / (math.log(high) - math.log(low))
        return left + share * (right - left)

    bottom = top + row * len(verdicts)
    ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= t <= high]
    parts = [_line(x(t), top - 8, x(t), bottom, "one" if t == 1 else "rule") for t in ticks]
    parts += [_text(x(t), top - 13, f"{t:g}×", "middle", "small") for t in ticks]
    for n, verdict in enumerate(sorted(verdicts, key=lambda v: v.ratio)):
        y = top + row * (n + 0.5)
        parts.append(_text(left - 10, y + 4, verdict.environment, "end"))
        parts.append(_line(x(1), y, x(verdict.ratio), y, f"stem {verdict.mark}"))
        parts.append(f'<circle cx="{x(verdict.ratio):.1f}" cy="{y:.1f}" r="4.5" class="{verdict.mark}"/>')
        parts.append(_text(right + 10, y + 4, times(verdict.ratio), "start", "small"))
    caption = (
        f"Regret relative to {rival}, by environment: left of 1× is less. Filled dots: the difference is significant."
    )
    return _figure("".join(parts), bottom + 8, seen, caption)


def lines(series: Mapping[str, Sequence[tuple[float, float]]], across: str, up: str, seen: str, caption: str) -> str:
    """Lines over a common axis; labels stand at their ends."""
    left, right, top, bottom = 48.0, WIDTH - 70.0, 12.0, 240.0
    last = max(x for points in series.values() for x, _ in points)
    first = min(x for points in series.values() for x, _ in points)
    high = max(0.01, max(y for points in series.values() for _, y in points)) * 1.05

    def at(point: tuple[float, float]) -> tuple[float, float]:
        share = (point[0] - first) / max(last - first, 1e-9)
        return left + share * (right - left), bottom - point[1] / high * (bottom - top)

    step = _step(high)
    parts = []
    for n in range(int(high / step) + 1):
        y = at((first, n * step))[1]
        parts += [_line(left, y, right, y, "rule"), _text(left - 6, y + 4, f"{n * step:g}", "end", "small")]
    for value in sorted({first, (first + last) / 2, last}):
        if float(value).is_integer():
            parts.append(_text(at((value, 0))[0], bottom + 16, f"{value:,.0f}", "middle", "small"))
    parts += [
        _text((left + right) / 2, bottom + 32, across, "middle", "small"),
        _text(left - 40, top, up, "start", "small"),
    ]
    ends = _apart({name: at(points[-1])[1] for name, points in series.items()}, bottom)
    for n, (name, points) in enumerate(series.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, points))
        parts.append(f'<polyline points="{path}" class="series s{n % 6 + 1}"/>')
        parts.append(_text(right + 6, ends[name] + 4, name, "start", f"small t{n % 6 + 1}"))
    return _figure("".join(parts), bottom + 40, seen, caption)


def _apart(wanted: Mapping[str, float], bottom: float) -> dict[str, float]:
    """Places of labels near those wanted, so far apart that they can be read, above the axis and inside the figure."""
    found: dict[str, float] = {}
    below = bottom + 8
    for name, y in sorted(wanted.items(), key=lambda item: -item[1]):
        found[name] = below = min(y, below - _LABEL)
    above = -6.0
    for name, y in reversed(found.items()):
        found[name] = above = max(y, above + _LABEL)
    return found


def _step(high: float) -> float:
    """A round distance of ticks, about five of them."""
    power = 10.0 ** math.floor(math.log10(high / 5))
    return next(power * m for m in (1, 2, 5, 10) if power * m >= high / 5)
