"""Checks that the page of any report must pass."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from driftrank.reporting.page import style


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


def check_page(path: Path, pictures: int) -> None:
    """Assert that a page has the common frame, opens offline, and says what its pictures show."""
    text = path.read_text(encoding="utf-8")
    assert style() in text
    tags = _Tags()
    tags.feed(text)
    names = [tag for tag, _ in tags.found]
    assert [names.count(tag) for tag in ("html", "main", "h1", "title", "footer")] == [1] * 5
    assert ("html", {"lang": "en"}) in tags.found
    assert any(given.get("name") == "viewport" for _, given in tags.found)
    assert not {"script", "link", "iframe", "object", "base"} & set(names)
    assert not re.search(r"@import|url\(", text)
    sources = [
        given[key] or "" for _, given in tags.found for key in ("src", "href", "srcset", "action") if key in given
    ]
    assert all(source.startswith(("data:image/", "#")) for source in sources)
    images = [given for tag, given in tags.found if tag == "img"]
    assert len(images) == pictures
    for image in images:
        seen = image["alt"] or ""
        assert len(seen) > 40, f"{seen!r} does not say what is seen"
        assert "nan" not in seen.lower().split()
    # whatever is wider than a phone scrolls in a box that the keyboard reaches
    for table in re.finditer("<table", text):
        assert text[: table.start()].endswith("tabindex=0>")
