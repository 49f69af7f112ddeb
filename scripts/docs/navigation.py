"""The navigation of the site: pages of docs/ by their folders, and pages that are made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from driftrank.clickmodels.registry import click_models
from driftrank.environments.registry import environments
from driftrank.policies.registry import policy_groups
from scripts.docs.catalogue import CLICK_MODELS, ENVIRONMENTS, POLICIES
from scripts.docs.reference import FOLDER, ROOT, module_names, page_of

DOCS = ROOT / "docs"
#: pages of the root of the repository, by their place on the site
PROJECT = {
    "README.md": "project/readme.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
Navigation = list[dict[str, Any]]


def navigation() -> Navigation:
    """Titles with pages, or with further titles."""
    served, others = how_to_pages()
    return [
        {"Home": "index.md"},
        {"Tutorials": [*_named(sorted((DOCS / "tutorial").glob("*.md"))), *_notebooks()]},
        {"Serve": _named(served)},
        {"How to": _named(others)},
        {"Explanation": _named(sorted((DOCS / "explanation").glob("*.md")))},
        {
            "Reference": [
                *_named(sorted((DOCS / "reference").glob("*.md"))),
                {"Commands": f"{FOLDER}/commands.md"},
                {"HTTP API": f"{FOLDER}/http.md"},
                {"Python": [*_modules(1), {"Further modules": _modules(2)}]},
            ]
        },
        {
            "Catalogue": [
                {"Policies": [{"All policies": f"{POLICIES}/index.md"}, *_policies()]},
                {
                    "Environments": [
                        {"All environments": f"{ENVIRONMENTS}/index.md"},
                        *_each(ENVIRONMENTS, environments()),
                    ]
                },
                {
                    "Click models": [
                        {"All click models": f"{CLICK_MODELS}/index.md"},
                        *_each(CLICK_MODELS, click_models()),
                    ]
                },
            ]
        },
        {"Project": [{title_of(ROOT / name): page} for name, page in PROJECT.items()]},
    ]


def how_to_pages() -> tuple[list[Path], list[Path]]:
    """The how-to pages about serving, and all others, in the order of the home page, which names every one."""
    found: dict[bool, list[Path]] = {True: [], False: []}
    for section in re.split(r"^## ", (DOCS / "index.md").read_text("utf-8"), flags=re.MULTILINE)[1:]:
        found[section.startswith("Serve")] += [
            DOCS / link for link in re.findall(r"\]\((how-to/[\w-]+\.md)\)", section)
        ]
    return found[True], found[False]


def listed(entries: Navigation) -> list[str]:
    """All pages of a navigation."""
    found: list[str] = []
    for entry in entries:
        for target in entry.values():
            found += listed(target) if isinstance(target, list) else [target]
    return found


def title_of(page: Path) -> str:
    """The first heading of a page, which a notebook has in a comment."""
    heading = re.search(r"^# # (.+)$" if page.suffix == ".py" else r"^# (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert heading is not None, f"{page}: has no title"
    return heading[1].replace("`", "")


def _named(pages: list[Path]) -> Navigation:
    return [{title_of(page): str(page.relative_to(DOCS))} for page in pages]


def _notebooks() -> Navigation:
    return [{title_of(p): f"tutorial/{p.stem}.md"} for p in sorted((DOCS / "tutorial").glob("*.py"))]


def _modules(depth: int) -> Navigation:
    """The modules of the package itself, or those further down."""
    chosen = [name for name in module_names() if (name.count(".") > 1) == (depth > 1)]
    return [{name.removeprefix("driftrank."): page_of(name)} for name in chosen]


def _policies() -> Navigation:
    return [{title: _each(POLICIES, group)} for title, group in policy_groups().items()]


def _each(folder: str, names: Any) -> Navigation:
    return [{name: f"{folder}/{name}.md"} for name in names]
