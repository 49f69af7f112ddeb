"""Every page runs: its Python blocks, top to bottom, as one script; and its links lead somewhere.

Pages with commands for a shell are sessions: see test_session.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.session import is_session
from tests.quick import others_are_slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.exists()
]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(text: str) -> str:
    """The Python blocks of a page, on the lines where they stand, so that errors name the line of the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text[: block.start(1)].count("\n")
        code = block[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_script_keeps_line_numbers() -> None:
    assert script("a\n```python\nx = 1\n```\nb\n```python\ny = 2\n```\n") == "\n\nx = 1\n\n\n\ny = 2\n\n"


SCRIPTS = [page for page in PAGES if BLOCK.search(page.read_text("utf-8")) and not is_session(page)]
QUICK = [page for page in SCRIPTS if page.stem in ("README", "first-steps")]


@pytest.mark.parametrize("page", others_are_slow(SCRIPTS, QUICK), ids=name)
def test_page_runs(page: Path, tmp_path: Path) -> None:
    code = tmp_path / f"{page.stem}.py"
    code.write_text(script(page.read_text("utf-8")), "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # a process of its own: the policies that a page defines stay out of the other tests
    done = subprocess.run(
        [sys.executable, "-W", "error", code],
        cwd=work,
        env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{name(page)}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=name)
def test_how_to_shows_code(page: Path) -> None:
    assert BLOCK.search(page.read_text("utf-8")), "a how-to page must show how, in a block of Python"


def test_the_readme_is_read_in_two_minutes() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing
