"""A small table that prints and converts itself."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: characters that mean something else in LaTeX, or that not every font has
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "–": "--", "−": "$-$", "<": "$<$", ">": "$>$"}
)


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    formats: Sequence[str | None]  #: by column; None for text

    def cells(self) -> list[list[str]]:
        return [
            [str(value) if f is None or isinstance(value, str) else "–" if value != value else format(value, f)
             for value, f in zip(row, self.formats, strict=True)]
            for row in self.rows
        ]  # fmt: skip

    def without(self, *columns: str) -> Table:
        """The table without some of its columns."""
        kept = [i for i, name in enumerate(self.columns) if name not in columns]
        rows = [[row[i] for i in kept] for row in self.rows]
        return Table([self.columns[i] for i in kept], rows, [self.formats[i] for i in kept])

    def __str__(self) -> str:
        cells = [list(self.columns), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        lines = []
        for row in cells:
            padded = [
                c.ljust(w) if f is None else c.rjust(w) for c, w, f in zip(row, widths, self.formats, strict=True)
            ]
            lines.append("  ".join(padded).rstrip())
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.to_html()

    def __rich__(self) -> Any:
        import rich.table

        table = rich.table.Table()
        for name, f in zip(self.columns, self.formats, strict=True):
            table.add_column(name, justify="left" if f is None else "right")
        for row in self.cells():
            table.add_row(*row)
        return table

    def to_csv(self) -> str:
        """Comma-separated, with full precision."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()

    def to_markdown(self) -> str:
        head = "| " + " | ".join(self.columns) + " |"
        rule = "|" + "|".join("---" if f is None else "---:" for f in self.formats) + "|"
        return "\n".join([head, rule, *("| " + " | ".join(row) + " |" for row in self.cells())]) + "\n"

    def to_html(self) -> str:
        from html import escape

        def row(cells: Sequence[str], tag: str) -> str:
            parts = [
                f"<{tag}{'' if f is None else ' class=number'}>{escape(c)}</{tag}>"
                for c, f in zip(cells, self.formats, strict=True)
            ]
            return "<tr>" + "".join(parts) + "</tr>"

        body = "\n".join(row(cells, "td") for cells in self.cells())
        return f"<table>\n<thead>{row(self.columns, 'th')}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"

    def to_latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs."""
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in [list(self.columns), *self.cells()]]
        spec = "".join("l" if f is None else "r" for f in self.formats)
        body = "\n".join([lines[0], r"\midrule", *lines[1:]])
        return f"\\begin{{tabular}}{{{spec}}}\n\\toprule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"


def _latex(text: str) -> str:
    return text.translate(_LATEX)
