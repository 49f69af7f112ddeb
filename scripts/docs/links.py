"""Links of the built site: every page, file and anchor that its HTML and its search lead to must be there.

The generator's strict mode looks at links of Markdown only: not at images, not at links written in HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: attributes with one address
ADDRESSES = {"href", "src", "data", "poster", "xlink:href"}


class _Links(HTMLParser):
    """The anchors of a page, and the addresses that it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for key, value in attributes:
            if key == "id" or (tag, key) == ("a", "name"):
                self.anchors.add(value or "")
            elif key in ADDRESSES:
                self.targets.append(value or "")
            elif key == "srcset":
                self.targets += [candidate.split()[0] for candidate in (value or "").split(",")]


def broken_links(site: Path) -> Iterator[str]:
    """Links that lead nowhere, as ``page: target``. Other hosts are not asked."""
    pages = {path: _Links(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for page, links in pages.items():
        for target in dict.fromkeys(links.targets):
            if not _leads(page, target, pages):
                yield f"{page.relative_to(site)}: {target!r}"
    for target in _found_by_search(site):
        if not _leads(site / "index.html", target, pages):
            yield f"search: {target!r}"


def _leads(page: Path, target: str, pages: dict[Path, _Links]) -> bool:
    """True for other hosts, and if file and anchor exist. A folder has no page if no server chooses one."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.is_file():
        return False
    return not parts.fragment or path not in pages or unquote(parts.fragment) in pages[path].anchors


def _found_by_search(site: Path) -> list[str]:
    """The places that the search index leads to."""
    return [item["location"] for item in json.loads((site / "search.json").read_text("utf-8"))["items"]]
