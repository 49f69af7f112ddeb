from __future__ import annotations

from pathlib import Path

import pytest

from driftrank.reporting.page import (
    Block,
    Bullets,
    Cell,
    Code,
    Facts,
    Grid,
    Heading,
    Picture,
    Plain,
    Row,
    Text,
    duration,
    html_page,
    markdown_page,
)
from driftrank.reporting.table import Table
from tests.serve.page.browser import chromium, serious

GRID = Grid(
    ("policy", "LowCTR"),
    [
        Row("A<b>", [Cell("12", ["± 3"], "best")], mine=True),
        Row("B", [Cell("needs features", mark="missing")], apart=True),
    ],
)


@pytest.mark.parametrize(
    ("block", "html", "markdown"),
    [
        (Heading("a & b", 1), "<h1>a &amp; b</h1>", "# a & b"),
        (Text("see `run.toml` *now*"), "<p>see <code>run.toml</code> <i>now</i></p>", "see `run.toml` *now*"),
        (Text("x < y", "note"), "<p class=note>x &lt; y</p>", "x < y"),
        (Bullets(["a", "b"]), "<ul>\n<li>a</li>\n<li>b</li>\n</ul>", "- a\n- b"),
        (Facts([("Seed", "0")]), "<dl>\n<dt>Seed</dt><dd>0</dd>\n</dl>", "- Seed: 0"),
        (Code("a < b"), "<pre>a &lt; b</pre>", "```\na < b\n```"),
    ],
)
def test_blocks(block: Block, html: str, markdown: str) -> None:
    assert block.html(Path()) == html
    assert block.markdown() == markdown


def test_grid() -> None:
    html = GRID.html(Path())
    assert "<th>policy</th><th class=number>Low<wbr>CTR</th>" in html
    assert '<tr class="mine"><td>A&lt;b&gt;</td><td class="number best">12<small>± 3</small></td></tr>' in html
    assert '<tr class="apart"><td>B</td><td class="number missing">needs features</td></tr>' in html
    assert GRID.markdown().splitlines()[2:] == ["| **A<b>** | **12** ± 3 |", "| B | needs features |"]


def test_tables_and_pictures(tmp_path: Path) -> None:
    table = Table(("a",), [("long text",)], (None,))
    assert Plain(table, prose=True).html(tmp_path).startswith("<div class='box prose' tabindex=0><table>")
    assert Plain(table).markdown() == table.to_markdown().rstrip()
    (tmp_path / "x.svg").write_text("<svg/>")
    picture = Picture("x", "What & why", "A < B", wide=True)
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+" alt="A &lt; B"' in picture.html(tmp_path)
    assert picture.markdown() == "![A < B](x.png)\n\n*What & why*"


def test_pages(tmp_path: Path) -> None:
    blocks = [Heading("T", 1), Text("x")]
    assert markdown_page(blocks) == "# T\n\nx\n"
    page = html_page("a < b", blocks, tmp_path, width=77)
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt; b</title>" in page
    assert "--width: 77rem" in page
    assert "<h1>T</h1>\n<p>x</p>" in page


def test_axe_finds_nothing_serious_and_it_fits_a_phone(tmp_path: Path) -> None:
    long = "driftrank leaderboard " + 20 * "--policy CascadeSWUCB "
    wide = Plain(Table([f"column {n}" for n in range(12)], [["value of a cell"] * 12], [None] * 12))
    blocks = [Heading("B", 1), Text("c"), Bullets(["e"]), Facts([("f", "g")]), Code(long), GRID, wide]
    page = html_page("A", blocks, tmp_path)
    (tmp_path / "report.html").write_text(page, "utf-8")
    with chromium() as browser:
        for width, scheme in ((1280, "light"), (320, "dark")):
            shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            shown.goto((tmp_path / "report.html").as_uri())
            assert serious(shown) == []
            assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_durations() -> None:
    assert duration(3.21) == "3.2 s"
    assert duration(125) == "2 min 5 s"
