"""Versions of the site, side by side, as the workflow publishes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from scripts.docs.versions import put

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "docs.yml"


def _site(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "index.html").write_text(text)
    return folder


def test_versions_stand_side_by_side(tmp_path: Path) -> None:
    published = tmp_path / "published"
    published.mkdir()

    def listed() -> list[tuple[str, list[str]]]:
        found = json.loads((published / "versions.json").read_text())
        return [(each["version"], each["aliases"]) for each in found]

    put(_site(tmp_path / "site", "main"), published, "dev")
    assert listed() == [("dev", [])]
    assert "url=dev/index.html" in (published / "index.html").read_text()
    for version in ("0.9.0", "0.10.0", "0.9.1"):
        put(_site(tmp_path / "site", version), published, version)
    put(_site(tmp_path / "site", "main again"), published, "dev")
    assert listed() == [("0.10.0", ["latest"]), ("0.9.1", []), ("0.9.0", []), ("dev", [])]
    pages = {path.parent.name: path.read_text() for path in published.glob("*/index.html")}
    assert pages == {"0.9.0": "0.9.0", "0.9.1": "0.9.1", "0.10.0": "0.10.0", "latest": "0.10.0", "dev": "main again"}
    assert "url=latest/index.html" in (published / "index.html").read_text()
    with pytest.raises(ValueError, match="name='v1': must be dev, or a release"):
        put(tmp_path / "site", published, "v1")


@pytest.mark.skipif(not WORKFLOW.exists(), reason="needs the repository's workflows")
def test_the_workflow_keeps_every_version(tmp_path: Path) -> None:
    """The step of the workflow, in a clone of a repository on this machine."""
    lines = WORKFLOW.read_text().partition("Put it beside the other versions\n        run: |\n")[2]
    step = textwrap.dedent("\n".join(iter(lines.splitlines()[: lines[: lines.index("\n      - ")].count("\n") + 1])))
    assert "git push --force" in step

    environment = os.environ | {"PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull}
    for name in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{name}_NAME": "x", f"GIT_{name}_EMAIL": "x@example.org"}

    def run(command: str, folder: Path, **settings: str) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=folder, env=environment | settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("git init --quiet --bare --initial-branch main origin", tmp_path)
    for count, name in enumerate(("dev", "v1.2.3", "dev")):
        clone = tmp_path / f"clone{count}"
        run(f"git clone --quiet origin {clone.name}", tmp_path)
        (clone / "source").touch()
        run("git checkout --quiet -B main && git add source && git commit --quiet --allow-empty -m x", clone)
        run("git push --quiet origin main", clone)
        (clone / ".venv" / "bin").mkdir(parents=True)
        (clone / ".venv" / "bin" / "python").symlink_to(sys.executable)
        _site(clone / "site", f"{name} {count}")
        run(step, clone, NAME=name)
        assert not (clone / "published" / ".git").exists()
    run("git clone --quiet --branch gh-pages origin published", tmp_path)
    published = tmp_path / "published"
    assert {path.name for path in published.iterdir()} - {".git"} == {
        ".nojekyll", "1.2.3", "dev", "index.html", "latest", "versions.json"
    }  # fmt: skip
    assert (published / "dev" / "index.html").read_text() == "dev 2"
    assert (published / "1.2.3" / "index.html").read_text() == "v1.2.3 1"
    assert run("git rev-list --count HEAD", published).strip() == "1"
