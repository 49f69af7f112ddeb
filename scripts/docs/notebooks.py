"""Tutorials as scripts in cells: ``# %%`` begins a cell of Python, ``# %% [markdown]`` one of text in comments.

They run as they are, are read as plain Python, and become a page of the site and a notebook for Jupyter.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """A cell, and the line where its content begins."""

    kind: str  #: "code" or "markdown"
    text: str
    line: int


def cells(path: Path) -> list[Cell]:
    """The cells of a script."""
    text = path.read_text("utf-8")
    marks = list(re.finditer(r"^# %%(.*)\n", text, re.MULTILINE))
    found = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        body = text[mark.end() : following.start() if following else len(text)].strip("\n")
        kind = "markdown" if "[markdown]" in mark[1] else "code"
        if kind == "markdown":
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        found.append(Cell(kind, body, text[: mark.end()].count("\n") + 1))
    return found


def page(path: Path) -> str:
    """The script as a page."""
    parts = [cell.text if cell.kind == "markdown" else f"```python\n{cell.text}\n```" for cell in cells(path)]
    title, *others = parts
    note = f"*[Download as a notebook]({path.stem}.ipynb). A test runs it as it stands.*"
    head, _, rest = title.partition("\n")
    return "\n\n".join([head, note, rest.strip(), *others]) + "\n"


def notebook(path: Path) -> dict[str, Any]:
    """The script as a Jupyter notebook without outputs."""
    made = []
    for n, cell in enumerate(cells(path)):
        one: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{n}", "metadata": {}, "source": cell.text}
        made.append(one | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {}))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
