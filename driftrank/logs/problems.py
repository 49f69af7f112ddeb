"""What was wrong with a log, and where: nothing is lost without being counted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from driftrank.validation import check_choice

#: examples kept of every kind of problem
EXAMPLES = 20

#: what can be wrong with a line that cannot be used
ERRORS = {
    "cut": "the file breaks off: what came before is kept",
    "damaged": "damaged compressed data: what came before is kept",
    "fields": "not as many fields as there should be",
    "json": "not an object in JSON",
    "urls": "a list that has not ten URLs",
    "number": "an id or time that is not a whole number",
    "encoding": "bytes that are not UTF-8",
    "action": "an action that is neither Q nor C",
    "repeated": "the same item twice in a list",
    "unshown": "a click on an item that was not shown",
    "early": "a click before any query of its session",
    "consequence": "a click on, or after, a list that could not be used",
    "value": "a value of the wrong kind",
    "position": "a position that the list does not have",
    "empty": "a list without items",
    "long": "a list of more than 62 items",
    "group": "rows that do not make up one list",
    "missing": "no query, time, ranking or clicks",
    "propensities": "not a propensity in (0, 1] for every item",
}

#: what is odd about a line that is used all the same
WARNINGS = {
    "backwards": "time goes backwards within a session",
    "endless": "a session of more than 1,000 lists, taken as several",
    "blank": "a blank line",
    "nothing": "a file of 0 bytes",
    "single": "rows that do not make up a whole list, kept one by one",
    "duplicate": "the same row once more",
    "again": "one user, query and time, but another list or other clicks",
    "clock": "time goes backwards",
}


class BadLines(UserWarning):
    """Lines of a log were left out."""


class Problem(NamedTuple):
    """A place where something is wrong."""

    line: int  #: or row, from 1; 0 for the file as a whole
    text: str  #: what stands there, or what about it


@dataclass(eq=False)
class Report:
    """What reading a file came to.

    Attributes
    ----------
    source
        The file.
    lines, lists, clicks
        Lines that were read; lists and clicks that came of them.
    counts
        By kind of problem, how often.
    examples
        By kind of problem, the first of them.
    unit
        What problems are numbered by: ``"line"`` of a text, ``"row"`` of a table.
    """

    source: str
    lines: int = 0
    lists: int = 0
    clicks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Problem]] = field(default_factory=dict)
    unit: str = "line"
    verb: str = "left out"  #: what became of those that cannot be used

    def copy(self) -> Report:
        examples = {kind: list(problems) for kind, problems in self.examples.items()}
        return replace(self, counts=dict(self.counts), examples=examples)

    def add(self, kind: str, line: int, text: str, count: int = 1) -> None:
        """One more, or several of which this is the first."""
        assert kind in ERRORS or kind in WARNINGS, kind
        self.counts[kind] = self.counts.get(kind, 0) + count
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(Problem(line, text))

    @property
    def errors(self) -> int:
        """How many lines could not be used."""
        return sum(count for kind, count in self.counts.items() if kind in ERRORS)

    @property
    def lost(self) -> bool:
        return self.errors > 0

    def stop(self) -> None:
        """Raise ValueError about the first line that cannot be used, if there is one."""
        first = [(examples[0], kind) for kind, examples in self.examples.items() if kind in ERRORS and examples]
        if first:
            problem, kind = min(first)
            where = f"{self.unit} {problem.line}: " if problem.line else ""
            raise ValueError(f"{self.source}: {where}{ERRORS[kind]}: {problem.text}")

    def to_dict(self) -> dict[str, Any]:
        problems = {
            kind: {
                "what": ERRORS.get(kind) or WARNINGS[kind],
                "lost": kind in ERRORS,
                "count": count,
                "examples": [problem._asdict() for problem in self.examples[kind]],
            }
            for kind, count in self._in_order()
        }
        return {
            "source": self.source, "lines": self.lines, "lists": self.lists, "clicks": self.clicks,
            "unusable": self.errors, "problems": problems,
        }  # fmt: skip

    @staticmethod
    def together(reports: Sequence[Report]) -> Report:
        """Of several files; what is told of a line says of which."""
        whole = Report(", ".join(report.source for report in reports))
        for report in reports:
            whole.lines += report.lines
            whole.lists += report.lists
            whole.clicks += report.clicks
            for kind, count in report.counts.items():
                whole.counts[kind] = whole.counts.get(kind, 0) + count
                told = [Problem(line, f"{report.source}: {text}") for line, text in report.examples[kind]]
                whole.examples[kind] = (whole.examples.get(kind, []) + told)[:EXAMPLES]
        return whole

    def headline(self) -> str:
        """How many lines were of no use."""
        lost = f"{self.errors:,} of {self.lines:,} lines left out" if self.errors else f"all {self.lines:,} lines used"
        return f"{self.source}: {lost}"

    def summary(self) -> str:
        """One line: how many lines were of no use, and why."""
        kinds = [f"{count:,} x {ERRORS[kind]}" for kind, count in self._in_order() if kind in ERRORS]
        return f"{self.headline()} ({'; '.join(kinds)})" if kinds else self.headline()

    def describe(self, examples: int = 3) -> str:
        """Every kind of problem, with some examples."""
        return "\n".join([self.headline(), *self.details(examples)])

    __str__ = describe

    def details(self, examples: int = 3) -> list[str]:
        """The lines of :meth:`describe` below the first."""
        lines = []
        for kind, count in self._in_order():
            lost = self.verb if kind in ERRORS else "kept"
            lines.append(f"  {count:,} x {ERRORS.get(kind) or WARNINGS[kind]} ({lost})")
            shown = self.examples[kind][:examples]
            places = ([f"{self.unit} {line:,}"] if line else [] for line, _ in shown)
            lines += [
                "      " + ": ".join([*at, text] if text else at) for at, (_, text) in zip(places, shown, strict=True)
            ]
            if count > len(shown):
                lines.append(f"      and {count - len(shown):,} more")
        return lines

    def _in_order(self) -> list[tuple[str, int]]:
        return [(kind, self.counts[kind]) for kind in (*ERRORS, *WARNINGS) if kind in self.counts]


def check_on_error(on_error: str) -> None:
    check_choice("on_error", on_error, ("skip", "stop"))


def excerpt(line: bytes | str, width: int = 60) -> str:
    """A line to show to people: short, on one line, with nothing in it that a terminal would take for a command."""
    if isinstance(line, str):
        line = line.encode("utf-8", "surrogateescape")
    text = repr(line[: width + 1].decode("utf-8", "backslashreplace").replace("\t", " "))[1:-1].replace("\\\\x", "\\x")
    return text if len(line) <= width else f"{text[:width]}..."
