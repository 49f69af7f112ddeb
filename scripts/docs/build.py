"""The build: the sources of the site go to build/docs, the site itself to site/."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from scripts.docs import catalogue, notebooks, reference
from scripts.docs.links import broken_links
from scripts.docs.navigation import DOCS, PROJECT, listed, navigation
from scripts.docs.reference import ROOT

BUILD, SITE = ROOT / "build" / "docs", ROOT / "site"
FEATURES = (
    "navigation.tabs", "navigation.indexes", "navigation.top", "navigation.prune", "search.highlight",
    "content.code.copy",
)  # fmt: skip
VENDOR = Path(__file__).with_name("vendor")
#: the generator has pages load this, from another host
ELSEWHERE, SHIM = "https://unpkg.com/iframe-worker/shim", VENDOR / "iframe-worker-1.0.4.js"
#: what a browser fetches from another host while it shows a page
LOADED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?\s(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
_ATTRIBUTE = re.compile(r"""(<(?:a|img)\s[^>]*?\b(?:href|src)=)"([^"#]+)\"""")
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")


def build(*, versioned: bool = False) -> int:
    """Build the site, with a choice of versions if it is published beside others; returns the exit code."""
    begin = time.perf_counter()
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = BUILD / "pages"
    nav = navigation()
    books = tutorials()
    for path, text in contents(books).items():
        target = pages / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for name, book in books.items():
        (pages / "tutorial" / f"{name}.ipynb").write_text(json.dumps(book, indent=1), "utf-8")
    copied_files(pages)
    written = {str(path.relative_to(pages)) for path in pages.rglob("*.md")}
    if written != set(listed(nav)):
        print(f"not in the navigation, or without a page: {sorted(written ^ set(listed(nav)))}", file=sys.stderr)
        return 1
    (BUILD / "zensical.toml").write_text(settings(nav, versioned), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(BUILD / "zensical.toml")]
    if code := subprocess.run(command, env=os.environ | {"NO_COLOR": "1"}).returncode:
        return code
    (BUILD / "site" / "404.html").unlink()  # its links are those of a site at the root of a server
    keep_inside(BUILD / "site")
    if broken := [*broken_links(BUILD / "site")]:
        print("links that lead nowhere:", *broken, sep="\n", file=sys.stderr)
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    (BUILD / "site").rename(SITE)
    size = sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file()) / 1e6
    print(f"site/: {len(written)} pages, {size:.1f} MB, {time.perf_counter() - begin:.0f} s; open site/index.html")
    return 0


def tutorials() -> dict[str, dict[str, Any]]:
    """The notebooks, run side by side, by name."""
    scripts = sorted((DOCS / "tutorial").glob("*.py"))
    with ThreadPoolExecutor() as pool:
        books = pool.map(notebooks.executed, map(notebooks.notebook, scripts))
        return {path.stem: book for path, book in zip(scripts, books, strict=True)}


def contents(books: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """The text of every page, by its path."""
    own = catalogue.entries()
    known = reference.targets(own)
    found = {str(path.relative_to(DOCS)): moved(path) for path in sorted(DOCS.rglob("*.md"))}
    found["index.md"] += ONLY_HERE
    found |= {page: moved(ROOT / name, page) for name, page in PROJECT.items()}
    found |= {f"tutorial/{name}.md": notebooks.page(name, book) for name, book in books.items()}
    made = [*catalogue.pages(known), reference.command_page(), reference.http_page()]
    for name in reference.module_names():
        module = sys.modules.get(name)
        entries = {
            key: path
            for key, path in own.items()
            if hasattr(module, key) and name in _HOMES.get(path.partition("/")[0], ())
        }
        made.append(reference.module_page(name, known, entries))
    return found | {page.path: page.text for page in made}


#: pages that exist on the site only
ONLY_HERE = """
## Only on this site

[Policies](policies/index.md), [environments](environments/index.md) and [click models](click-models/index.md): formula,
parameters, guarantee, a figure, and where each wins and loses. [Commands](reference/commands.md), the [HTTP
API](reference/http.md), and the [Python reference](reference/driftrank.md). [Changes](project/changes.md).
"""

#: modules that offer what the catalogue describes
_HOMES = {
    catalogue.POLICIES: ("driftrank",),
    catalogue.ENVIRONMENTS: ("driftrank.environments",),
    catalogue.CLICK_MODELS: ("driftrank.clickmodels",),
}


def moved(source: Path, page: str | None = None) -> str:
    """A page with its links as they are on the site. Files of the repository come along; folders are named only."""
    page = page or str(source.relative_to(DOCS))

    def place(target: str) -> str | None:
        """The path from the page to a file of the repository; None for a folder."""
        path = (source.parent / target).resolve()
        if path.is_dir():
            return None
        at = PROJECT.get(str(path.relative_to(ROOT)))
        at = at or str(path.relative_to(DOCS) if path.is_relative_to(DOCS) else Path("files") / path.relative_to(ROOT))
        at = re.sub(r"^(tutorial/[\w-]+)\.py$", r"\1.md", at)
        return os.path.relpath(at, os.path.dirname(page) or ".")

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target:
            return found[0]
        there = place(target)
        return f"{text}({there}{anchor})" if there else text.strip("[]")

    def attribute(found: re.Match[str]) -> str:
        return found[0] if "://" in found[2] else f'{found[1]}"{place(found[2])}"'

    return _ATTRIBUTE.sub(attribute, _LINK.sub(link, source.read_text("utf-8")))


def copied_files(pages: Path) -> None:
    """Images, style, fonts, and the files of the repository that pages link to."""
    shutil.copytree(DOCS / "images", pages / "images")
    style = (ROOT / "driftrank" / "reporting" / "tokens.css").read_text("utf-8")
    (pages / "assets").mkdir()
    for font in VENDOR.glob("*.woff"):
        shutil.copy(font, pages / "assets")
    (pages / "assets" / "site.css").write_text(
        style + (Path(__file__).with_name("site.css")).read_text("utf-8"), "utf-8"
    )
    for page in pages.rglob("*.md"):
        for link in re.findall(r"\((?:\.\./)*files/([^)#]+)\)", page.read_text("utf-8")):
            target = pages / "files" / link
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / link, target)


def keep_inside(site: Path) -> None:
    """Let pages load the shim that makes search work without a server from the site; refuse anything from elsewhere."""
    shutil.copy(SHIM, site / "assets" / SHIM.name)
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8").replace(
            ELSEWHERE, f"{os.path.relpath(site / 'assets', page.parent)}/{SHIM.name}"
        )
        if found := LOADED.search(text):
            raise ValueError(f"{page}: loads {found[1]} from elsewhere")
        page.write_text(text, encoding="utf-8")


def settings(nav: object, versioned: bool = False) -> str:
    """The settings of the site. Nothing is loaded from elsewhere: no fonts, no scripts."""
    from driftrank import __version__

    lines = [
        "[project]",
        'site_name = "driftrank"',
        f'site_description = "driftrank {__version__}: online learning to rank for users who change"',
        'docs_dir = "pages"',
        'site_dir = "site"',
        "use_directory_urls = false",
        f'copyright = "driftrank {__version__}, Apache License 2.0"',
        'extra_css = ["assets/site.css"]',
        f"nav = {_toml(nav)}",
        "[project.extra]",
        "generator = false",
        *(["[project.extra.version]", 'provider = "mike"'] if versioned else []),  # reads ../versions.json
        "[project.theme]",
        "font = false",
        'language = "en"',
        f"features = {_toml([*FEATURES])}",
        "[[project.theme.palette]]",
        'media = "(prefers-color-scheme: light)"',
        'scheme = "default"',
        "toggle = { icon = 'lucide/sun', name = 'Use dark colours' }",
        "[[project.theme.palette]]",
        'media = "(prefers-color-scheme: dark)"',
        'scheme = "slate"',
        "toggle = { icon = 'lucide/moon', name = 'Use light colours' }",
        "[project.plugins.search]",
        "[project.plugins.offline]",
        "[project.markdown_extensions]",
        *(
            f'"{name}" = {{}}'
            for name in ("attr_list", "def_list", "md_in_html", "tables", "pymdownx.superfences", "pymdownx.highlight")
        ),
        "[project.markdown_extensions.toc]",
        "permalink = true",
    ]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
