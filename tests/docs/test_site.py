"""The documentation site: every public name and every page has its place, and the parts that make pages."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from driftrank.cli._catalogue import parameters
from driftrank.kernels import pure
from scripts.docs import board, build, catalogue, charts, notebooks, reference
from scripts.docs.links import broken_links
from scripts.docs.markup import Docstring, Page, formula
from scripts.docs.navigation import DOCS, PROJECT, how_to_pages, listed, navigation

ROOT = Path(__file__).resolve().parents[2]
MODULES = reference.module_names()


@pytest.fixture(scope="module")
def pages() -> list[str]:
    return listed(navigation())


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    public = reference.public_names(module)
    values = {key for key, value in public.items() if not callable(value)}
    assert not {key for key, value in public.items() if key not in values and not Docstring.of(pure(value)).text}


@pytest.mark.parametrize("name", MODULES)
def test_a_section_of_parameters_has_nothing_but_names(name: str) -> None:
    for value in reference.public_names(importlib.import_module(name)).values():
        members = [it for it in vars(value).values() if callable(it)] if isinstance(value, type) else []
        for thing in [value, *members]:
            entries = [key for section in ("Parameters", "Attributes") for key in Docstring.of(thing).entries(section)]
            names = [part.strip().lstrip("*") for key in entries for part in key.split(",")]
            assert [it for it in names if not it.isidentifier()] == [], thing


def test_every_public_name_is_in_the_navigation(pages: list[str]) -> None:
    import driftrank as dr

    known = reference.targets(catalogue.entries())
    for name in MODULES:
        for key in reference.public_names(importlib.import_module(name)):
            assert known[f"{name}.{key}"].partition("#")[0] in pages
    for name in set(dir(dr)) - {"__version__"}:
        assert known[f"driftrank.{name}"].partition("#")[0] in pages, name


def test_every_name_that_pages_cite_has_a_place() -> None:
    known = reference.targets(catalogue.entries())
    missing = set()
    for module, name in reference.cited():
        owner, _, member = name.partition(".")
        full = f"{module}.{owner}".rstrip(".")
        cls = getattr(importlib.import_module(module), owner, None)
        inside = not member or not isinstance(cls, type) or hasattr(cls, member.partition(".")[0])
        value = cls is not None and not callable(cls) and not inspect.ismodule(cls)
        if not inside or (full not in known and not value):
            missing.add(f"{module}.{name}")
    assert missing == set()
    assert {"driftrank.policies.detecting.detectors", "driftrank.environments.base"} <= {*MODULES}


def test_every_page_is_in_the_navigation_once(pages: list[str]) -> None:
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    scripts = {f"tutorial/{path.stem}.md" for path in (DOCS / "tutorial").glob("*.py")}
    assert written | scripts | set(PROJECT.values()) | set(catalogue.entries().values()) <= set(pages)
    assert len(pages) == len(set(pages))


def test_titles_are_those_of_pages() -> None:
    (tutorials,) = (entry["Tutorials"] for entry in navigation() if "Tutorials" in entry)
    assert [title for entry in tutorials for title in entry] == [
        "First steps", "An engineer's first hour", "From a log to a decision", "A researcher's first hour"
    ]  # fmt: skip


def test_the_home_page_names_every_how_to_page() -> None:
    served, others = how_to_pages()
    assert sorted(served + others) == sorted((DOCS / "how-to").glob("*.md"))
    assert DOCS / "how-to" / "operate.md" in served


def test_every_name_of_the_registries_has_a_page() -> None:
    from driftrank.clickmodels.registry import click_models
    from driftrank.environments.registry import environments
    from driftrank.policies.registry import policies

    ours = {n for n, cls in policies().items() if cls.__module__.startswith("driftrank.")}
    assert ours | set(environments()) | set(click_models()) <= set(catalogue.entries())


def test_every_parameter_of_a_policy_is_described() -> None:
    from driftrank.policies.registry import policies

    for name, cls in policies().items():
        if cls.__module__.startswith("driftrank."):
            listed = catalogue.described(cls, Docstring.of(cls))
            known = {one.strip() for names in listed for one in names.split(",")}
            assert {key for key, *_ in parameters(cls)} <= known, name


def test_every_world_and_click_model_names_winners_or_says_why_not() -> None:
    from driftrank.clickmodels.registry import click_models
    from driftrank.environments.registry import environments

    for cls, make in ((environments, catalogue.environment_page), (click_models, catalogue.click_model_page)):
        for name, world in cls().items():
            text = make(name, world, {}).text.partition("## Who does well here")[2]
            assert ("| least regret |" in text) + ("Not yet in" in text) + ("Not on the" in text) == 1, name
            assert ("Not on the" in text) == (name in catalogue.LEFT_OUT), name
    assert "Sizes and times: Tied" in catalogue.environment_page("BLB", environments()["BLB"], {}).text
    assert "PBM-1-K5" in catalogue.click_model_page("PBM", click_models()["PBM"], {}).text


def test_every_policy_has_a_figure() -> None:
    from driftrank.policies.registry import policy_groups

    for title, group in policy_groups().items():
        for name, cls in group.items():
            assert 'class="chart"' in catalogue.policy_page(name, cls, title, {}).text, name


# -- docstrings --------------------------------------------------------------------------------------------------------


class Described:
    r"""Something with :math:`N_t(a) < 1` and ``code`` of :class:`~driftrank.environments.Abrupt`.

    .. math:: U_t = \frac{X}{N}

    Parameters
    ----------
    window
        Steps; see :meth:`run`.
    low, high
        Limits.

    >>> 1 + 1
    2
    """


def test_docstring_as_markdown() -> None:
    page = Page("policies/X.md", {"driftrank.environments.Abrupt": "environments/Abrupt.md", "m.run": "a.md#m.run"})
    docstring = Docstring.of(Described)
    text = page.prose(docstring.text)
    assert "`code` of [`Abrupt`](../environments/Abrupt.md)." in text
    assert "<mo>&#x0003C;</mo>" in text
    assert '<div class="formula"><math' in text
    assert "<mfrac>" in text
    assert list(docstring.entries("Parameters")) == ["window", "low, high"]
    assert "see [`run`](../a.md#m.run)." in reference.definitions(page, docstring.entries("Parameters"), "m")
    assert page.prose(docstring.sections["Examples"]) == "```pycon\n>>> 1 + 1\n2\n```"


def test_formulas_are_mathml() -> None:
    assert formula(r"\sqrt{x}").startswith("<math")
    assert '</mi><mspace width="0.17em"/><mi>ln</mi>' in formula(r"n \ln(n)")
    assert 'display="block"' in formula("x", block=True)
    assert "<mtable" in formula(r"a &= b \\ c &= d", block=True)


@pytest.mark.slow
def test_every_formula_of_the_package_can_be_converted() -> None:
    for path in (ROOT / "driftrank").rglob("*.py"):
        for text in re.findall(r":math:`([^`]+)`", path.read_text("utf-8")):
            assert formula(text).startswith("<math"), (path, text)


# -- the leaderboard ---------------------------------------------------------------------------------------------------


def test_verdicts_are_those_of_the_published_page() -> None:
    by_title = {part.title: part for part in board.parts()}
    assert len(by_title) == 8
    part = by_title["Users who change"]
    text = board.PAGE.read_text("utf-8")
    row = next(line for line in text.partition(": against ")[2].splitlines() if line.startswith("| CascadeRegimeTS |"))
    head = next(line for line in text.partition(": against ")[2].splitlines() if line.startswith("| policy |"))
    shown = dict(zip(head.split(" | ")[2:], row.split(" | ")[2:], strict=True))
    found = {v.environment: v for v in part.of("CascadeRegimeTS")}
    for name, cell in shown.items():
        name = name.strip(" |")
        assert found[name].mark == board.SIGNS[cell[0]]
        assert f"{found[name].ratio:.2f}" in cell
    assert [v.mark for v in part.of(part.default)].count("worse") == int(re.search(r"beaten in (\d+) of 18", text)[1])  # type: ignore[index]
    assert not any(label.endswith(board.ORACLE) for label, _ in part.best("Abrupt", 9))


def test_figures_say_what_they_show() -> None:
    verdicts = [board.Verdict("A", 0.5, "better"), board.Verdict("B", 30.0, "worse")]
    made = charts.ratios(verdicts, "C", "Dot chart: A < B.")
    assert 'role="img" aria-label="Dot chart: A &lt; B."' in made
    assert made.count("<circle") == 2
    drawn = charts.lines({name: [(0, 0.0), (1, 0.5)] for name in "abcd"}, "x", "y", "seen", "caption")
    ends = sorted(float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start" class="small t', drawn))
    assert len(ends) == 4
    assert all(b - a >= 11 for a, b in itertools.pairwise(ends))  # labels do not cover each other
    assert ends[0] >= 10  # nor leave the figure


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_links_of_pages_lead_to_their_places_on_the_site() -> None:
    readme = build.moved(ROOT / "README.md", "project/readme.md")
    assert "](../explanation/leaderboard.md)" in readme
    assert "](changes.md)" in readme
    assert "](../files/CITATION.cff)" in readme
    assert "](../images/regret.png)" in readme
    assert "](tutorial/engineer.md)" in build.moved(DOCS / "index.md")
    assert "(../../deploy)" not in build.moved(DOCS / "how-to" / "operate.md")  # a folder is named, not linked


def test_links_in_html_are_moved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    page = tmp_path / "README.md"
    page.write_text('<a href="docs/x.md"><img alt="x" src="docs/x.png"></a> <a href="https://arxiv.org">paper</a>')
    assert build.moved(page, "project/readme.md") == (
        '<a href="../x.md"><img alt="x" src="../x.png"></a> <a href="https://arxiv.org">paper</a>'
    )


def test_pages_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "sub").mkdir()
    page = tmp_path / "sub" / "x.html"
    page.write_text(f'<script src="{build.ELSEWHERE}"></script><a href="https://arxiv.org/abs/1">a link</a>')
    build.keep_inside(tmp_path)
    assert f'<script src="../assets/{build.SHIM.name}">' in page.read_text()
    page.write_text('<img alt="x" src="https://example.org/x.png">')
    with pytest.raises(ValueError, match=r"loads https://example\.org/x\.png from elsewhere"):
        build.keep_inside(tmp_path)


def test_links_of_the_built_site_are_checked(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "there.png").touch()
    (tmp_path / "sub" / "x.html").write_text('<h2 id="here">Here</h2><a name="old"></a>')
    (tmp_path / "search.json").write_text('{"items": [{"location": "sub/x.html#here"}, {"location": "gone.html"}]}')
    sound = """<img src="there.png" srcset="there.png 2x"><a href="sub/x.html#here">x</a><a href="sub/x.html#old">y</a>
        <a href="#own" id="own">z</a><a href="#">top</a><a href="https://example.org/no#where">elsewhere</a>"""
    broken = """<img src="gone.png"><img srcset="there.png 1x, gone2.png 2x"><a href="sub/x.html#gone">a</a>
        <a href="#not">b</a><a href="sub/">a folder</a><link rel="stylesheet" href="gone.css"><object data="g.svg">"""
    page = tmp_path / "index.html"
    page.write_text(sound)
    assert [*broken_links(tmp_path)] == ["search: 'gone.html'"]
    page.write_text(sound + broken)
    targets = ["gone.png", "gone2.png", "sub/x.html#gone", "#not", "sub/", "gone.css", "g.svg"]
    assert [*broken_links(tmp_path)] == [*(f"index.html: {target!r}" for target in targets), "search: 'gone.html'"]


def test_vendored_files_are_what_they_were() -> None:
    folder = ROOT / "scripts" / "docs" / "vendor"
    sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())  # type: ignore[misc]
    files = {path.name for path in folder.iterdir()} - {"SHA256SUMS", "README.md"}
    assert {name for name in files if not name.endswith(".LICENSE")} == set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
        assert (folder / re.sub(r"(-subset)?\.\w+$", ".LICENSE", name)).exists()


@pytest.mark.slow
def test_site_is_built_without_a_broken_link() -> None:
    command = [sys.executable, "-m", "scripts.docs"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    policy = (ROOT / "site" / "policies" / "CascadeSWUCB.html").read_text("utf-8")
    assert "<math" in policy
    assert 'class="chart"' in policy
    assert "CascadeKLUCB" in (ROOT / "site" / "tutorial" / "researcher.html").read_text("utf-8").partition("regret")[2]
    assert not (ROOT / "site" / "404.html").exists()


def test_notebook_cells(tmp_path: Path) -> None:
    script = tmp_path / "x.py"
    script.write_text("# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\n")
    assert [(cell.kind, cell.text) for cell in notebooks.cells(script)] == [
        ("markdown", "# Title\n\nText."),
        ("code", "x = 1"),
    ]
    book = notebooks.notebook(script)
    assert [cell["cell_type"] for cell in book["cells"]] == ["markdown", "code"]
    book["cells"][1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": "1\n"}]
    assert notebooks.page("x", book).endswith("Text.\n\n```python\nx = 1\n```\n\n``` { .text .output }\n1\n```\n")
