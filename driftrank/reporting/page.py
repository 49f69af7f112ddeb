"""A page in blocks, written as HTML (one file, with its figures) or as Markdown (with image files)."""

from __future__ import annotations

import base64
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from driftrank import __version__
from driftrank.reporting.table import Table


class Block(Protocol):
    """A part of a page. Texts mark `code` and *names* as in Markdown."""

    def html(self, folder: Path) -> str: ...

    def markdown(self) -> str: ...


@dataclass(frozen=True)
class Heading:
    """A title (level 1), or that of a section."""

    text: str
    level: int = 2

    def html(self, folder: Path) -> str:
        return f"<h{self.level}>{_inline(self.text)}</h{self.level}>"

    def markdown(self) -> str:
        return f"{'#' * self.level} {self.text}"


@dataclass(frozen=True)
class Text:
    """A paragraph; ``kind`` is ``"lead"`` or ``"note"`` for less important ones."""

    text: str
    kind: str = ""

    def html(self, folder: Path) -> str:
        return f"<p{f' class={self.kind}' if self.kind else ''}>{_inline(self.text)}</p>"

    def markdown(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]

    def html(self, folder: Path) -> str:
        return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in self.items) + "\n</ul>"

    def markdown(self) -> str:
        return "\n".join(f"- {item}" for item in self.items)


@dataclass(frozen=True)
class Facts:
    """Names with their values."""

    pairs: Sequence[tuple[str, str]]

    def html(self, folder: Path) -> str:
        pairs = (f"<dt>{escape(name)}</dt><dd>{_inline(value)}</dd>" for name, value in self.pairs)
        return "<dl>\n" + "\n".join(pairs) + "\n</dl>"

    def markdown(self) -> str:
        return "\n".join(f"- {name}: {value}" for name, value in self.pairs)


@dataclass(frozen=True)
class Code:
    """Command lines."""

    text: str

    def html(self, folder: Path) -> str:
        return f"<pre>{escape(self.text)}</pre>"

    def markdown(self) -> str:
        return f"```\n{self.text}\n```"


@dataclass(frozen=True)
class Picture:
    """A figure that lies in the folder as NAME.png, and perhaps as NAME.svg, which is sharper.

    ``seen`` says what it shows, for those who cannot see it; by default that is the caption.
    """

    name: str
    caption: str
    seen: str = ""
    wide: bool = False

    def html(self, folder: Path) -> str:
        vector, pixels = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        kind, file = ("svg+xml", vector) if vector.exists() else ("png", pixels)
        data = base64.b64encode(file.read_bytes()).decode()
        image = f'<img src="data:image/{kind};base64,{data}" alt="{escape(self.seen or self.caption)}">'
        return (
            f"<figure><div class='sheet{' wide' * self.wide}' tabindex=0>{image}</div>"
            f"<figcaption>{_inline(self.caption)}</figcaption></figure>"
        )

    def markdown(self) -> str:
        return f"![{self.seen or self.caption}]({self.name}.png)\n\n*{self.caption}*"


@dataclass(frozen=True)
class Plain:
    """A table; ``prose``: with long cells."""

    table: Table
    prose: bool = False

    def html(self, folder: Path) -> str:
        return f"<div class='box{' prose' * self.prose}' tabindex=0>{self.table.to_html()}</div>"

    def markdown(self) -> str:
        return self.table.to_markdown().rstrip()


@dataclass(frozen=True)
class Cell:
    """A cell of a grid: the number, small print, and a mark."""

    text: str
    small: Sequence[str] = ()  #: lines
    mark: str = ""  #: best, better, worse, same, missing


@dataclass(frozen=True)
class Row:
    """A row of a grid. ``apart``: not compared with the others; ``mine``: the one that others are compared with."""

    name: str
    cells: Sequence[Cell]
    apart: bool = False
    mine: bool = False


@dataclass(frozen=True)
class Grid:
    """A table with marked cells."""

    columns: Sequence[str]
    rows: Sequence[Row]

    def html(self, folder: Path) -> str:
        head = "".join(f"<th{' class=number' * (i > 0)}>{_breakable(name)}</th>" for i, name in enumerate(self.columns))
        body = "\n".join(self._line(row) for row in self.rows)
        return (
            f"<div class=box tabindex=0><table class=grid>\n<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table></div>"
        )

    def markdown(self) -> str:
        rows = [(_bold(row.name, row.mine), *(_written(cell) for cell in row.cells)) for row in self.rows]
        return Table(self.columns, rows, (None, *[""] * (len(self.columns) - 1))).to_markdown().rstrip()

    def _line(self, row: Row) -> str:
        marks = " ".join(["apart"] * row.apart + ["mine"] * row.mine)
        cells = "".join(
            f'<td class="number{" " * bool(cell.mark)}{cell.mark}">{escape(cell.text)}'
            f"{''.join(f'<small>{escape(line)}</small>' for line in cell.small)}</td>"
            for cell in row.cells
        )
        start = f'<tr class="{marks}">' if marks else "<tr>"
        return f"{start}<td>{escape(row.name)}</td>{cells}</tr>"


def html_page(title: str, blocks: Iterable[Block], folder: Path, width: int = 60) -> str:
    """A self-contained HTML file; ``width`` is in rem."""
    body = "\n".join(block.html(folder) for block in blocks)
    filled = {"TITLE": escape(title), "STYLE": style(), "WIDTH": str(width), "VERSION": __version__, "BODY": body}
    return re.sub("|".join(filled), lambda name: filled[name[0]], _PAGE)


def style() -> str:
    """The style sheet of reports."""
    return tokens() + _file("page.css")


def tokens() -> str:
    """The colours, fonts and corners that all pages share, as a style sheet."""
    return _file("tokens.css")


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def markdown_page(blocks: Iterable[Block]) -> str:
    return "\n\n".join(block.markdown() for block in blocks) + "\n"


def origin(seconds: float, cores: int) -> list[tuple[str, str]]:
    """Duration, date, machine and versions of a computation."""
    used = f"{cores} core{'s' * (cores > 1)} used"
    return [
        ("Duration", f"{duration(seconds)}, compilation included"),
        ("Date", datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")),
        ("Machine", f"{_processor()}, {used}, {platform.system()} {platform.machine()}"),
        ("Versions", ", ".join(f"{name} {number}" for name, number in _versions())),
    ]


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _versions() -> list[tuple[str, str]]:
    found = [("driftrank", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "numba", "llvmlite", "matplotlib", "pyarrow"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown processor"


def _inline(text: str) -> str:
    """Marked text as HTML."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*([^*]+)\*", r"<i>\1</i>", marked)


def _breakable(name: str) -> str:
    """A long name that may be broken at capitals and punctuation."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=-)|(?<=[:,])", "<wbr>", escape(name))


def _bold(text: str, bold: bool = True) -> str:
    return f"**{text}**" if bold else text


def _written(cell: Cell) -> str:
    return " ".join([_bold(cell.text, cell.mark == "best"), ", ".join(cell.small)]).rstrip()


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>TITLE</title>
<style>
STYLE:root { --width: WIDTHrem; }
</style>
</head>
<body>
<main>
BODY
</main>
<footer>driftrank VERSION. This file needs nothing from elsewhere.</footer>
</body>
</html>
"""
