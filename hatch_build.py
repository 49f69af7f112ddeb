"""The README as the description of the distributions: links to files of the repository work elsewhere, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

#: a link or a picture whose target is a file of the repository
_RELATIVE = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)]+)\)")


def description(text: str, repository: str | None) -> str:
    """The text with absolute links. Without the address of a repository, links are their text, and pictures go."""

    def absolute(found: re.Match[str]) -> str:
        picture, name, path = found.groups()
        if repository is None:
            return "" if picture else name
        return f"{picture}[{name}]({repository.rstrip('/')}/{'raw' if picture else 'blob'}/HEAD/{path})"

    return _RELATIVE.sub(absolute, text)


class Description(MetadataHookInterface):
    """Found by hatchling, since it is the only hook of this file."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        repository = metadata.get("urls", {}).get("Repository")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text, repository)}
