"""Delimited text: comma, semicolon, bar, tab, or whitespace."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from driftrank.logs.bad_lines import LogReport, excerpt
from driftrank.logs.conversion.readers.lines import Lines

if TYPE_CHECKING:
    import pyarrow as pa

_DELIMITERS = (",", ";", "|")


class Separated:
    """Splits lines into cells.

    Parameters
    ----------
    format
        ``"csv"``, ``"tsv"`` or ``"trec"``.
    lines
        The first lines of the file.
    choose
        Maps the names of the columns in the file to {name to give: index in the file}.
    header
        The first line has the names; else they are ``1``, ``2``, ...
    """

    def __init__(self, format: str, lines: Lines, choose: Callable[[list[str]], dict[str, int]], header: bool) -> None:
        first = lines.text.split(b"\n", 1)[0].decode("utf-8")
        self._trec = format == "trec"
        self._delimiter = "\t" if format in ("tsv", "trec") else delimiter_of(first) or ","
        fields = first.split() if self._trec else fields_of(first, self._delimiter) or [first]
        self._header = int(lines.numbers[0]) if header else None
        self.places = choose(fields if header else [str(i) for i in range(1, len(fields) + 1)])
        self._count = len(fields)

    def split(self, lines: Lines, report: LogReport) -> pa.Table:
        import pyarrow as pa
        import pyarrow.csv

        text, numbers = lines.text, lines.numbers
        if self._trec:
            text = re.sub(rb"[ \t]+", b"\t", text)
        if len(numbers) and numbers[0] == self._header:
            text, numbers = text.split(b"\n", 1)[1], numbers[1:]
        lines = Lines(text, numbers)
        wrong: list[tuple[int, str]] = []

        def note(row: Any) -> str:
            wrong.append((row.number - 1, row.text))
            return "skip"

        all_names = [str(i) for i in range(self._count)]
        if not len(numbers):
            return self._table(pa.table({name: pa.array([], pa.string()) for name in all_names}), numbers)
        try:
            table = pyarrow.csv.read_csv(
                io.BytesIO(text),
                pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=all_names),
                pyarrow.csv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char=False if self._delimiter == "\t" else '"',
                    ignore_empty_lines=False,
                    invalid_row_handler=note,
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(all_names, pa.string()), strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return self._one_by_one(lines, report)
        if len(table) + len(wrong) != len(numbers) or any("\n" in text for _, text in wrong):  # an open quote
            return self._one_by_one(lines, report)
        for row, line in wrong:
            self._unusable(int(numbers[row]), line, report)
        good = [i for i in range(len(numbers)) if i not in {row for row, _ in wrong}] if wrong else slice(None)
        return self._table(table, numbers[good])

    def _one_by_one(self, lines: Lines, report: LogReport) -> pa.Table:
        """Split line by line, to find the lines with an open quote."""
        import numpy as np
        import pyarrow as pa

        rows, numbers = [], []
        for number, line in lines:
            fields = fields_of(line.decode("utf-8"), self._delimiter)
            if fields is None or len(fields) != self._count:
                self._unusable(number, line.decode("utf-8"), report)
            else:
                rows.append(fields)
                numbers.append(number)
        columns = {str(i): pa.array([row[i] for row in rows], pa.string()) for i in range(self._count)}
        return self._table(pa.table(columns), np.array(numbers, np.int64))

    def _unusable(self, number: int, line: str, report: LogReport) -> None:
        fields = fields_of(line, self._delimiter)
        what = "an open quote" if fields is None else f"{len(fields)} instead of {self._count}"
        report.add("fields", number, f"{what}: {excerpt(line)}")

    def _table(self, table: pa.Table, numbers: Any) -> pa.Table:
        import pyarrow as pa

        columns = {name: table.column(place) for name, place in self.places.items()}
        return pa.table({"line": pa.array(numbers, pa.int64()), **columns})


def delimiter_of(line: str) -> str:
    """The most frequent delimiter; a tab, if there is one."""
    if "\t" in line:
        return "\t"
    best = max(_DELIMITERS, key=lambda delimiter: len(fields_of(line, delimiter) or ()))
    return best if best in line else ""


def fields_of(line: str, delimiter: str) -> list[str] | None:
    """The fields of a line; None if a quote is not closed."""
    if delimiter == "\t":
        return line.split("\t")
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if rows else [""]
