"""Templates, and the form of numbers and times in them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from driftrank import __version__
from driftrank.reporting.page import tokens
from driftrank.serve.page import charts
from driftrank.serve.page.broadcast import Regions
from driftrank.serve.slices import Slices

#: seconds that requests wait for a page at most
_SLICE = 0.001
#: blocks of templates that are kept current begin with this
_LIVE = "live_"
#: files of the page, with their types
STATIC = {
    "style.css": "text/css",
    "live.js": "text/javascript",
    "charts.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@functools.cache
def static(name: str) -> bytes:
    """A file of the page; the style sheet begins with the colours that all pages of driftrank share."""
    own = (resources.files(__package__) / "static" / name).read_bytes()
    return tokens().encode() + own if name == "style.css" else own


@functools.cache
def address(name: str) -> str:
    """The address of a file, which changes with its contents: browsers may keep it."""
    return f"/page/{name}?v={hashlib.sha256(static(name)).hexdigest()[:12]}"


async def page(template: str, context: dict[str, Any]) -> str:
    return await _joined(_template(template).generate(context))


async def regions(template: str, context: dict[str, Any]) -> Regions:
    """The live regions of a page."""
    found = _template(template)
    made = found.new_context(context)
    return {
        name.removeprefix(_LIVE): await _joined(block(made))
        for name, block in found.blocks.items()
        if name.startswith(_LIVE)
    }


async def _joined(pieces: Iterable[str]) -> str:
    """A text that takes long to make: requests are answered meanwhile."""
    out, slices = [], Slices(_SLICE)
    for piece in pieces:
        out.append(piece)
        if slices.over:
            await slices.pause()
    return "".join(out)


def _template(name: str) -> Template:
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    out = Environment(
        loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    out.filters |= {
        "n": count, "per": per, "pct": pct, "signed": signed, "clock": clock, "iso": iso, "bytes": size, "ms": ms,
        "ago": ago, "plural": plural, "about": about, "day": day,
    }  # fmt: skip
    out.globals |= {
        "address": address, "version": __version__, "sparkline": charts.sparkline, "interval": charts.interval,
        "bars": charts.bars,
    }  # fmt: skip
    out.globals["part"] = out.get_template("parts.html").module
    return out


def count(value: float | None) -> str:
    """A count.

    >>> count(1234567), count(None)
    ('1,234,567', '–')
    """
    return "–" if value is None else f"{value:,.0f}"


def about(value: float) -> str:
    """A count that is a forecast.

    >>> about(172_614), about(85)
    ('170,000', '85')
    """
    return f"{float(f'{value:.2g}'):,.0f}"


def per(value: float | None) -> str:
    """A number per list, or a probability.

    >>> per(0.4236), per(12.3456)
    ('0.424', '12.3')
    """
    return "–" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def pct(value: float | None) -> str:
    """A share.

    >>> pct(0.1234), pct(0.00012)
    ('12.3%', '0.012%')
    """
    return "–" if value is None else f"{100 * value:.3g}%"


def signed(value: float | None, form: str = "pct") -> str:
    """A difference, with its sign.

    >>> signed(0.1234), signed(-0.0234), signed(0.5, "per")
    ('+12%', '−2.3%', '+0.500')
    """
    if value is None:
        return "–"
    size = abs(value)
    text = per(size) if form == "per" else f"{100 * size:.{0 if size >= 0.0995 else 1}f}%"
    return f"{'−' if value < 0 else '+'}{text}"


def ms(seconds: float | None) -> str:
    """A duration of milliseconds.

    >>> ms(0.00123), ms(0.25)
    ('1.2 ms', '250 ms')
    """
    if seconds is None:
        return "–"
    return f"{1000 * seconds:.1f} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"


def size(value: float | None) -> str:
    """A number of bytes.

    >>> size(512_000_000), size(900)
    ('512 MB', '900 B')
    """
    if value is None:
        return "–"
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


def plural(n: float, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "list"), plural(1200, "list"), plural(2, "query", "queries")
    ('1 list', '1,200 lists', '2 queries')
    """
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def clock(time: datetime) -> str:
    """A time of day with its date, UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def day(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%d %B")


def iso(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()


def ago(time: datetime, now: datetime) -> str:
    """The time since then, in one unit: the text changes seldom.

    >>> then = datetime(2026, 11, 18, 14, 0, tzinfo=UTC)
    >>> ago(then, then.replace(minute=5)), ago(then, then.replace(second=3)), ago(then, then.replace(day=21))
    ('5 min ago', 'just now', '3 d ago')
    """
    seconds = (now - time).total_seconds()
    if seconds < 10:
        return "just now"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{10 * (seconds // 10):.0f} s ago"
