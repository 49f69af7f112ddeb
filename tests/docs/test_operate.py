"""Names of metrics, messages and limits in the pages about the service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from driftrank.serve.monitoring.metrics import COUNTERS, GAUGES, HISTOGRAMS
from driftrank.serve.settings.server import ServerSettings

ROOT = Path(__file__).parents[2]
OPERATE = (ROOT / "docs" / "how-to" / "operate.md").read_text("utf-8")
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "driftrank serve" in page.read_text("utf-8")]


def _table(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading."""
    part = OPERATE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].partition("\n|")[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines()]
    return [[cell.strip() for cell in row] for row in rows[2:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_metrics_are_there(page: Path) -> None:
    known = {f"driftrank_{name}_total" for name in COUNTERS} | {f"driftrank_{name}" for name in GAUGES}
    known |= {f"driftrank_{name}{end}" for name in HISTOGRAMS for end in ("", "_bucket", "_sum", "_count")}
    named = set(re.findall(r"\bdriftrank_[a-z0-9_]+", page.read_text("utf-8"))) - {"driftrank_client"}  # a package
    assert named <= known


def test_messages_are_in_the_code() -> None:
    files = [*(ROOT / "driftrank" / "serve").rglob("*.py"), ROOT / "driftrank" / "cli" / "serve.py"]
    # string literals over several lines are one message
    code = re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text("utf-8") for file in files))
    messages = [message for row in _table("Messages") for message in re.findall(r"`([^`]+ [^`]+)`", row[0])]
    assert len(messages) > 10
    for message in messages:
        # placeholders are not in the code: split there
        pieces = re.split(r"\.\.\.|\bN\b|'[^']*'|127\.0\.0\.1:8080|: Address.*|[(){}]", message)
        assert max(pieces, key=len).strip() in code, message


def test_limits_have_these_defaults() -> None:
    settings = ServerSettings()
    for names, defaults, _ in _table("Limits, memory, disk"):
        for name, default in zip(re.findall(r"`(\w+)`", names), defaults.split(", "), strict=True):
            assert str(getattr(settings, name)) == default.replace(",", ""), name
