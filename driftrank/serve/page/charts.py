"""Charts as SVG in HTML, with text alternatives. Colours are classes of the style sheet: no inline style is allowed.

The drawing is stretched to the width of the page, the labels beside it are text of the page, so that they keep their
size on a phone. Lines keep their width (``vector-effect`` in the style sheet), and dots are lines of length 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from markupsafe import Markup, escape

#: of the drawing, in its own units
_W, _H = 1000, 240
#: rows of the table of a chart
_ROWS = 12

#: half of an axis, in units of its first digit
_ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)

#: a value at a time; None: unknown, the line has a gap
Point = tuple[float, float | None]


class Line(NamedTuple):
    """A line of a chart."""

    name: str
    points: Sequence[Point]
    colour: str  #: classes: c1 to c6, best or quiet, and perhaps dashed, or thin, which is not in the legend
    band: Sequence[tuple[float, float, float]] = ()  #: time, low, high


class Marker(NamedTuple):
    """A vertical line at a time."""

    time: float
    text: str
    kind: str  #: a class: made, found


def chart(
    lines: Sequence[Line], *, label: str, ticks: Sequence[str], begin: float, end: float,
    markers: Iterable[Marker] = (), marked: Mapping[str, str] | None = None, low: float | None = 0.0,
) -> Markup:  # fmt: skip
    """Lines over time from ``begin`` to ``end``, with labels at even distances. ``marked``: the meaning of markers
    by their kind; ``low``: of the axis; None: fitted.
    """
    values = [y for line in lines for _, y in line.points if y is not None]
    values += [y for line in lines for _, lo, hi in line.band for y in (lo, hi)]
    bottom, top = _axis(values, low)

    def x(time: float) -> str:
        return f"{_W * (time - begin) / ((end - begin) or 1):.0f}"

    def y(value: float) -> str:
        return f"{_H * (1 - (min(max(value, bottom), top) - bottom) / (top - bottom)):.1f}"

    parts = [f'<line class="grid" x1="0" x2="{_W}" y1="{h}" y2="{h}"/>' for h in (0, _H // 2, _H)]
    if bottom < 0 < top:
        parts.append(f'<line class="zero" x1="0" x2="{_W}" y1="{y(0)}" y2="{y(0)}"/>')
    for line in lines:
        band = [it for it in line.band if begin <= it[0] <= end]
        if band:
            edge = [f"{x(t)},{y(hi)}" for t, _, hi in band] + [f"{x(t)},{y(lo)}" for t, lo, _ in reversed(band)]
            parts.append(f'<polygon class="band {line.colour}" points="{" ".join(edge)}"/>')
    for line in lines:
        path = _path([(x(t), None if v is None else y(v)) for t, v in line.points if begin <= t <= end])
        parts.append(f'<path class="line {line.colour}" d="{path}"><title>{escape(line.name)}</title></path>')
    for it in markers:
        if begin <= it.time <= end:
            parts.append(
                f'<line class="marker {it.kind}" x1="{x(it.time)}" x2="{x(it.time)}" y1="0" y2="{_H}">'
                f"<title>{escape(it.text)}</title></line>"
            )
    axis = "".join(f"<span>{_number(v)}</span>" for v in (top, (top + bottom) / 2, bottom))
    times = "".join(f"<span>{escape(text)}</span>" for text in ticks)
    named = [line for line in lines if "thin" not in line.colour]
    legend = "".join(f'<li class="{line.colour}">{escape(line.name)}</li>' for line in named)
    legend += "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in (marked or {}).items())
    return Markup(
        f'<figure class="chart"><div class="plot"><div class="y-axis" aria-hidden="true">{axis}</div>'
        f'<svg viewBox="0 0 {_W} {_H}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}" '
        f'data-begin="{begin:.0f}" data-end="{end:.0f}" data-top="{top:g}" data-bottom="{bottom:g}">'
        f'{"".join(parts)}</svg></div><div class="x-axis" aria-hidden="true">{times}</div>'
        f'<figcaption><ul class="legend">{legend}</ul>{_table(lines, begin, end)}</figcaption></figure>'
    )


def _table(lines: Sequence[Line], begin: float, end: float) -> str:
    """The lines as numbers: the latest of each at some times."""
    if not any(line.points for line in lines):
        return ""
    head = "".join(f'<th scope="col" class="number">{escape(line.name)}</th>' for line in lines)
    form = "%H:%M:%S" if end - begin < 86_400 else "%Y-%m-%d %H:%M"
    rows = []
    for n in range(1, _ROWS + 1):
        time = begin + (end - begin) * n / _ROWS
        cells = "".join(f'<td class="number">{_at(line, time)}</td>' for line in lines)
        rows.append(f'<tr><th scope="row">{datetime.fromtimestamp(time, UTC).strftime(form)}</th>{cells}</tr>')
    return (
        '<details class="data"><summary>As a table</summary><div class="scroll" tabindex="0" role="group" '
        f'aria-label="Data of the chart"><table><thead><tr><th scope="col">Until, UTC</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _at(line: Line, time: float) -> str:
    """The latest value of a line at a time, with its band."""
    value = next((y for t, y in reversed(line.points) if t <= time), None)
    if value is None:
        return "–"
    low, high = next(((lo, hi) for t, lo, hi in reversed(line.band) if t <= time), (None, None))
    return _number(value) if low is None or high is None else f"{_number(value)} ({_number(low)} to {_number(high)})"


def sparkline(values: Sequence[float | None], label: str, colour: str = "c1") -> Markup:
    """A line without axes."""
    known = [v for v in values if v is not None]
    if len(known) < 2:
        return Markup('<span class="quiet">–</span>')
    bottom, top = _axis(known, 0.0)
    at = [
        (f"{100 * n / (len(values) - 1):.0f}", None if v is None else f"{30 - 28 * (v - bottom) / (top - bottom):.1f}")
        for n, v in enumerate(values)
    ]
    return Markup(
        f'<svg class="spark" viewBox="0 -1 100 32" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<path class="line {colour}" d="{_path(at)}"/></svg>'
    )


def interval(
    low: float, value: float, high: float, of: tuple[float, float], label: str, mark: float | None = None
) -> Markup:
    """An estimate and its interval on a scale; ``mark``: another value to compare it with."""
    left, right = of

    def x(v: float) -> str:
        return f"{100 * (min(max(v, left), right) - left) / ((right - left) or 1):.1f}"

    other = "" if mark is None else f'<line class="mark" x1="{x(mark)}" x2="{x(mark)}" y1="1" y2="19"/>'
    return Markup(
        f'<svg class="interval" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">'
        f'<line class="grid" x1="0" x2="100" y1="10" y2="10"/>'
        f'<line class="range" x1="{x(low)}" x2="{x(high)}" y1="10" y2="10"/>'
        f'<line class="dot" x1="{x(value)}" x2="{x(value)}" y1="10" y2="10"/>{other}</svg>'
    )


def bars(values: Sequence[float], names: Sequence[str], label: str, unit: str = "") -> Markup:
    """Columns, with name and value below each."""
    top = max([*values, 0]) or 1
    width = 100 / max(1, len(values))
    columns = "".join(
        f'<rect class="bar" x="{n * width + width * 0.12:.2f}" '
        f'width="{width * 0.76:.2f}" y="{60 - 58 * v / top:.1f}" height="{58 * v / top:.1f}">'
        f"<title>{escape(name)}: {_number(v)}{unit}</title></rect>"
        for n, (v, name) in enumerate(zip(values, names, strict=True))
    )
    under = "".join(f"<span>{escape(n)}<br>{_number(v)}{unit}</span>" for n, v in zip(names, values, strict=True))
    return Markup(
        f'<figure class="chart columns"><svg viewBox="0 0 100 60" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><line class="grid" x1="0" x2="100" y1="60" y2="60"/>{columns}</svg>'
        f'<div class="x-axis even" aria-hidden="true">{under}</div></figure>'
    )


def _path(points: Iterable[tuple[str, str | None]]) -> str:
    """A path through the points, with gaps."""
    out, drawing = [], False
    for x, y in points:
        if y is not None:
            out.append(f"{'L' if drawing else 'M'}{x} {y}")
        drawing = y is not None
    return "".join(out)


def _axis(values: Sequence[float], low: float | None) -> tuple[float, float]:
    """The ends of an axis with round numbers."""
    top = max(values, default=1.0)
    bottom = min([*values, top]) if low is None else low
    if top <= bottom:
        top = bottom + (abs(bottom) or 1.0) * 0.1
    if bottom == 0:  # the label in the middle is round, too
        unit = 10 ** math.floor(math.log10(top / 2))
        return 0.0, 2 * unit * next((n for n in _ROUND if n * unit >= top / 2), 10)
    step = 10 ** math.floor(math.log10(top - bottom)) / 5
    return math.floor(bottom / step) * step, math.ceil(top / step) * step


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
