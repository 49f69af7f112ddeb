"""Tutorials as scripts in cells: ``# %%`` begins a cell of Python, ``# %% [markdown]`` one of text in comments.

They run as they are, are read as plain Python, and become a notebook for Jupyter and a page of the site, both with
outputs.
"""

from __future__ import annotations

import copy
import os
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from scripts.docs.reference import ROOT
from scripts.docs.remembering import Remembering


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


def notebook(path: Path) -> dict[str, Any]:
    """The script as a Jupyter notebook without outputs."""
    made = []
    for n, cell in enumerate(cells(path)):
        one: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{n}", "metadata": {}, "source": cell.text}
        made.append(one | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {}))
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def executed(book: dict[str, Any]) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run from top to bottom in a new folder.

    Kernels are compiled, with little optimisation: that takes less time than it saves, and changes no number.
    """
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("DRIFTRANK_PORT", "NUMBA_"))}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    book = copy.deepcopy(book)
    with tempfile.TemporaryDirectory() as folder:
        python = Remembering(Path(folder), outside | {"PYTHONPATH": path, "NUMBA_OPT": "1", "MPLBACKEND": "agg"})
        try:
            for count, cell in enumerate((c for c in book["cells"] if c["cell_type"] == "code"), start=1):
                printed = python.run(cell["source"])
                cell["execution_count"] = count
                cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": printed}] * bool(printed)
        finally:
            python.close()
    return book


def page(name: str, book: dict[str, Any]) -> str:
    """The notebook as a page."""
    title, *others = [part for cell in book["cells"] for part in _parts(cell)]
    note = f"*[Download as a notebook]({name}.ipynb). It was run for this page, and a test runs it.*"
    head, _, rest = title.partition("\n")
    return "\n\n".join([head, note, rest.strip(), *others]) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    """A cell, and what it printed."""
    if cell["cell_type"] == "markdown":
        return [cell["source"]]
    return [
        f"```python\n{cell['source']}\n```",
        *(f"``` {{ .text .output }}\n{o['text'].rstrip()}\n```" for o in cell["outputs"]),
    ]
