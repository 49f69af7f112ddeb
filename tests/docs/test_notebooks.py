"""The tutorials that are scripts in cells: each runs as a notebook, and its outputs go to the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs.notebooks import cells, executed, notebook, page

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "docs" / "tutorial").glob("*.py"))


def test_there_are_three() -> None:
    assert {path.stem for path in SCRIPTS} >= {"researcher", "engineer", "from-a-log"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial_runs(path: Path) -> None:
    book = executed(notebook(path))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    shown = page(path.stem, book)
    for cell in code:
        printed = "".join(output["text"] for output in cell["outputs"])
        assert bool(printed) == any(line.lstrip().startswith("print(") for line in cell["source"].splitlines())
        assert printed.rstrip() in shown


def test_a_cell_that_fails_stops_the_notebook(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("# %%\nx = 1\n\n# %%\nprint(x)\nassert x == 2\n")
    with pytest.raises(AssertionError, match=r"(?s)1\nTraceback.*AssertionError"):
        executed(notebook(script))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_tutorial_begins_with_a_title_and_links_somewhere(path: Path) -> None:
    first = cells(path)[0]
    assert first.kind == "markdown"
    assert first.text.startswith("# ")
    assert any("](../" in cell.text for cell in cells(path) if cell.kind == "markdown")
