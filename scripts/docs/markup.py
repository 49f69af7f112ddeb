"""Docstrings as Markdown: NumPy sections, roles, examples, and formulas as MathML, which needs no script."""

from __future__ import annotations

import html
import inspect
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from latex2mathml.converter import convert

_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
#: sections of names with indented texts
NAMED = {"Parameters", "Attributes", "Returns", "Raises"}
#: names of functions that need a space before or after them
_BEFORE = re.compile(r"(?<=</mi>)(?=<mi>(?:ln|log|exp|max|min|cos|sup)</mi>)")
_FUNCTION = re.compile(r"(<mi>(?:ln|log|exp|max|min|cos|sup)</mi>)(?=<m(?!o))")
_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):`([^`]+)`")
_MATH = re.compile(r":math:`([^`]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring."""

    text: str  #: before the first section
    sections: Mapping[str, str]

    @classmethod
    def of(cls, thing: object) -> Docstring:
        """The docstring of an object; an inherited one is not its own."""
        own = thing.__dict__.get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
        text = inspect.cleandoc(own or "")
        parts = _SECTION.split(text)
        sections = {name: body.strip("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}
        for name in {*NAMED, "Notes"} & set(sections):  # an example may follow
            body, mark, example = sections[name].partition("\n>>>")
            if mark:
                sections |= {name: body.rstrip(), "Examples": f">>>{example}"}
        return cls(parts[0].strip(), sections)

    @property
    def summary(self) -> str:
        return " ".join(self.text.split("\n\n")[0].split())

    def entries(self, section: str) -> dict[str, str]:
        """The entries of a section of names, each followed by indented text."""
        found: dict[str, str] = {}
        name = ""
        for line in self.sections.get(section, "").splitlines():
            if line and not line.startswith(" "):
                name = line.partition(" : ")[0]
                found[name] = ""
            elif name:
                found[name] += line[4:] + "\n"
        return {name: text.strip() for name, text in found.items()}


def formula(text: str, block: bool = False) -> str:
    """LaTeX as MathML."""
    text = " ".join(text.split())
    if "&" in text:
        text = rf"\begin{{align}}{text}\end{{align}}"
    made = convert(text, display="block" if block else "inline")
    return _BEFORE.sub('<mspace width="0.17em"/>', _FUNCTION.sub(r'\1<mspace width="0.17em"/>', made))


@dataclass
class Page:
    """A page under construction; references are links from it."""

    path: str  #: below the folder of pages
    targets: Mapping[str, str] = field(default_factory=dict)  #: names -> path#anchor
    lines: list[str] = field(default_factory=list)

    def add(self, *blocks: str) -> None:
        for block in blocks:
            self.lines += [block, ""]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def link(self, target: str) -> str:
        """The path from this page to another."""
        path, mark, anchor = target.partition("#")
        return os.path.relpath(path, os.path.dirname(self.path) or ".") + mark + anchor

    def reference(self, name: str, within: str = "") -> str:
        """A name as code, linked if it has a page."""
        short = name.startswith("~")
        name = name.lstrip("~")
        shown = name.rpartition(".")[2] if short else name.removeprefix("driftrank.")
        for candidate in (f"{within}.{name}", name, f"driftrank.{name}", name.rpartition(".")[2]):
            if candidate in self.targets:
                return f"[`{shown}`]({self.link(self.targets[candidate])})"
        return f"`{shown}`"

    def prose(self, text: str, within: str = "") -> str:
        """Text of a docstring as Markdown."""
        return "\n\n".join(self._block(block, within) for block in _blocks(text))

    def inline(self, text: str, within: str = "") -> str:
        """A line of text as Markdown."""
        kept: list[str] = []

        def keep(piece: str) -> str:
            kept.append(piece)
            return f"\0{len(kept) - 1}\0"

        # a line that began with <math> would be taken for a block
        text = _MATH.sub(lambda m: keep(f"<span>{formula(m[1])}</span>"), text)
        text = _CODE.sub(lambda m: keep(f"`{' '.join(m[1].split())}`"), text)
        text = _ROLE.sub(lambda m: keep(self.reference(m[1], within)), text)
        text = html.escape(text, quote=False)
        return re.sub("\0(\\d+)\0", lambda m: kept[int(m[1])], text)

    def _block(self, block: str, within: str) -> str:
        if block.startswith(".. math::"):
            return f'<div class="formula">{formula(block.removeprefix(".. math::"), block=True)}</div>'
        if block.startswith(">>>"):
            return f"```pycon\n{block}\n```"
        if re.match(r"\S.*::$", block.splitlines()[-1]) and not block.startswith(".."):
            return self.inline(block[:-1], within)
        if block.startswith("    "):
            return f"```text\n{inspect.cleandoc(block)}\n```"
        return self.inline(block, within)


def _blocks(text: str) -> list[str]:
    """Paragraphs, with directives and their indented bodies as one, and numbered lists kept whole."""
    found: list[str] = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        directive = bool(found) and found[-1] == ".. math::"
        if directive and part.startswith(" "):
            found[-1] += " " + part
        elif part.strip():
            found.append(part.rstrip())
    out: list[str] = []
    for part in found:  # an example may follow its sentence without an empty line
        before, mark, example = part.partition("\n>>>")
        if mark and not part.startswith(">>>"):
            out += [before, ">>>" + example]
        elif ".. math::" in part and not part.startswith(".. math::"):
            lines, math = part.split("\n.. math::", 1)
            out += [lines, ".. math::" + math]
        else:
            out.append(part)
    return out
