"""Problems of a log and their places: every line that is not used is counted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from driftrank.validation import check_choice

#: examples kept per kind of problem
EXAMPLES = 20

#: problems of lines that cannot be used
ERRORS = {
    "cut": "the file is truncated: the data before are kept",
    "damaged": "damaged compressed data: the data before are kept",
    "fields": "wrong number of fields",
    "json": "not a JSON object",
    "urls": "a list without ten URLs",
    "number": "an id or time that is not an integer",
    "encoding": "not UTF-8",
    "action": "an action that is neither Q nor C",
    "repeated": "the same item twice in a list",
    "unshown": "a click on an item that was not shown",
    "early": "a click before the first query of its session",
    "consequence": "a click on, or after, a list that could not be used",
    "value": "an invalid value",
    "position": "a click position outside the list",
    "empty": "a list without items",
    "long": "a list of more than 62 items",
    "group": "rows that do not form one list",
    "missing": "no query, time, ranking or clicks",
    "propensities": "not a propensity in (0, 1] for every item",
}

#: oddities of lines that are used nevertheless
WARNINGS = {
    "backwards": "time goes backwards within a session",
    "endless": "a session of more than 1,000 lists, treated as several",
    "blank": "a blank line",
    "nothing": "a file of 0 bytes",
    "single": "rows that do not form a whole list, kept one by one",
    "duplicate": "a duplicate row",
    "again": "same user, query and time, but another list or other clicks",
    "clock": "time goes backwards",
}


class BadLines(UserWarning):
    """A warning that lines of a log were left out."""


class LogProblem(NamedTuple):
    """A problem and its place."""

    line: int  #: or row, from 1; 0 for the file as a whole
    text: str  #: the content, or a description


@dataclass(eq=False)
class LogReport:
    """The outcome of reading a file.

    Attributes
    ----------
    source
        The file.
    lines, lists, clicks
        Lines that were read; lists and clicks in them.
    counts
        Number of problems, by kind.
    examples
        The first problems of every kind.
    unit
        The unit of the numbers of problems: ``"line"`` of a text, ``"row"`` of a table.
    """

    source: str
    lines: int = 0
    lists: int = 0
    clicks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[LogProblem]] = field(default_factory=dict)
    unit: str = "line"
    verb: str = "left out"  #: for lines that cannot be used
    lost_clicks: int = 0  #: clicks that are left out of lists that are kept

    def copy(self) -> LogReport:
        examples = {kind: list(problems) for kind, problems in self.examples.items()}
        return replace(self, counts=dict(self.counts), examples=examples)

    def add(self, kind: str, line: int, text: str, count: int = 1) -> None:
        """Add a problem, or several with this as an example."""
        assert kind in ERRORS or kind in WARNINGS, kind
        self.counts[kind] = self.counts.get(kind, 0) + count
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(LogProblem(line, text))

    @property
    def errors(self) -> int:
        """The number of lines that cannot be used, and of clicks that are left out of others."""
        return sum(count for kind, count in self.counts.items() if kind in ERRORS)

    @property
    def lost_lines(self) -> int:
        """The number of lines that cannot be used."""
        return self.errors - self.lost_clicks

    @property
    def has_errors(self) -> bool:
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
            "unusable": self.lost_lines, "lost_clicks": self.lost_clicks, "problems": problems,
        }  # fmt: skip

    @staticmethod
    def merged(reports: Sequence[LogReport]) -> LogReport:
        """The report of several files; every example names its file."""
        whole = LogReport(", ".join(report.source for report in reports))
        for report in reports:
            whole.lines += report.lines
            whole.lists += report.lists
            whole.clicks += report.clicks
            whole.lost_clicks += report.lost_clicks
            for kind, count in report.counts.items():
                whole.counts[kind] = whole.counts.get(kind, 0) + count
                found = [LogProblem(line, f"{report.source}: {text}") for line, text in report.examples[kind]]
                whole.examples[kind] = (whole.examples.get(kind, []) + found)[:EXAMPLES]
        return whole

    def headline(self) -> str:
        """The number of lines that were left out, and of clicks in others."""
        clicks = f"{self.lost_clicks:,} click{'s' * (self.lost_clicks != 1)}"
        if self.lost_lines:
            more = f", and {clicks} of others" if self.lost_clicks else ""
            return f"{self.source}: {self.lost_lines:,} of {self.lines:,} lines left out{more}"
        but = f", but {clicks} left out" if self.lost_clicks else ""
        return f"{self.source}: all {self.lines:,} lines used{but}"

    def summary(self) -> str:
        """One line: how many lines were left out, and why."""
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
    """A line for display: short, and without control characters."""
    if isinstance(line, str):
        line = line.encode("utf-8", "surrogateescape")
    text = repr(line[: width + 1].decode("utf-8", "backslashreplace").replace("\t", " "))[1:-1].replace("\\\\x", "\\x")
    return text if len(line) <= width else f"{text[:width]}..."
