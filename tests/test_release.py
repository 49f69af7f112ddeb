"""The check before a release: what it must refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hatch_build
from driftrank import __version__
from scripts.release import facts, installs, licences, packages
from scripts.release.licences import Component

ROOT = Path(__file__).resolve().parents[1]


def test_versions_of_the_repository_agree() -> None:
    assert not list(facts.version_problems())
    assert not list(facts.vendored_problems())


@pytest.mark.parametrize(
    ("citation", "changes", "problem"),
    [
        ("1.2.3", "## [Unreleased]\n\n1.2.3, the next one, is in preparation.\n", None),
        ("1.2.3", "## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n", None),
        ("1.2.2", "## [1.2.3] - 2026-01-31\n", "CITATION.cff: version 1.2.2"),
        ("1.2.3", "## [Unreleased]\n\n- 1.2.3 is mentioned\n", "CHANGELOG.md: must have a dated section"),
        ("1.2.3", "## [1.2.3]\n", "CHANGELOG.md: must have a dated section"),
    ],
)
def test_versions_that_disagree_are_refused(citation: str, changes: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "CITATION.cff").write_text(f"version: {citation}\n")
    (tmp_path / "CHANGELOG.md").write_text(changes)
    found = list(facts.version_problems(tmp_path, "1.2.3"))
    assert [text for text in found if problem is None or not text.startswith(problem)] == []
    assert bool(found) == (problem is not None)
    assert facts.released(tmp_path, "1.2.3") == ("[1.2.3] - " in changes)


@pytest.mark.parametrize("broken", ["nothing", "file", "licence"])
def test_files_of_others_need_their_checksum_and_licence(broken: str, tmp_path: Path) -> None:
    import hashlib

    (tmp_path / "thing-1.0.js").write_text("x")
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(b'x').hexdigest()}  thing-1.0.js\n")
    (tmp_path / "thing-1.0.LICENSE").write_text("MIT")
    if broken == "file":
        (tmp_path / "thing-1.0.js").write_text("y")
    if broken == "licence":
        (tmp_path / "thing-1.0.LICENSE").unlink()
    found = list(facts.vendored_problems(tmp_path))
    assert len(found) == (broken != "nothing")


@pytest.mark.parametrize(
    ("licence", "refused"),
    [
        ("MIT", False),
        ("BSD-3-Clause AND 0BSD", False),
        ("LGPL-3.0-only", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("GPL-3.0-or-later OR MIT", False),
        ("GPL-3.0-only", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("MIT AND AGPL-3.0-only", True),
        ("LGPL-3.0-only AND GPL-3.0-only", True),
        ("", True),
    ],
)
def test_licences_that_are_refused(licence: str, refused: bool) -> None:
    assert Component("x", "1", licence).refused is refused


def test_run_time_dependencies_are_not_gpl_alone() -> None:
    parts = licences.components("driftrank[all]")
    assert {"numba", "psycopg", "uvicorn"} <= {part.name for part in parts}
    assert not {"pytest", "zensical"} & {part.name for part in parts}
    assert [part for part in parts if part.refused] == []


def test_bill_of_materials() -> None:
    parts = [Component("numpy", "2.0", "BSD-3-Clause")]
    text = licences.bill_of_materials("driftrank", "1.0", parts)
    found = json.loads(text)
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", found["serialNumber"])
    assert found["components"][0]["purl"] == "pkg:pypi/numpy@2.0"
    known = {found["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in found["components"])}
    assert {ref for one in found["dependencies"] for ref in (one["ref"], *one["dependsOn"])} == known
    assert licences.bill_of_materials("driftrank", "1.0", parts) == text


def test_pythons_are_of_their_versions() -> None:
    found = installs.pythons()
    assert list(found) == ["3.11", "3.12", "3.13"]
    assert any(found.values())


def test_links_of_the_readme_work_elsewhere() -> None:
    text = "![A figure](docs/a.png) [Two\nlines](docs/b.md#c) [out](https://x.org) [here](#use)"
    assert hatch_build.description(text, "https://x.org/driftrank/") == (
        "![A figure](https://x.org/driftrank/raw/HEAD/docs/a.png) "
        "[Two\nlines](https://x.org/driftrank/blob/HEAD/docs/b.md#c) [out](https://x.org) [here](#use)"
    )
    assert hatch_build.description(text, None) == " Two\nlines [out](https://x.org) [here](#use)"
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "](docs/" in readme
    assert "](docs/" not in hatch_build.description(readme, None)


def test_the_source_of_the_client_gives_its_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d"]
    subprocess.run([*build, str(tmp_path)], cwd=ROOT / "client", check=True, capture_output=True)
    (source,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    with tarfile.open(source) as file:
        file.extractall(tmp_path, filter="data")
    place = tmp_path / source.name.removesuffix(".tar.gz")
    subprocess.run([*build, str(tmp_path / "again"), "-t", "wheel"], cwd=place, check=True, capture_output=True)
    again = tmp_path / "again" / wheel.name
    names = [sorted(zipfile.ZipFile(it).namelist()) for it in (wheel, again)]
    assert names[0] == names[1]
    assert {"driftrank_client/client/core.py", "driftrank_client/wire/ranking.py"} <= {*names[0]}
    assert list(packages.problems([source, wheel, again])) == []


def test_a_description_with_dead_links_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / f"driftrank_client-{__version__}-py3-none-any.whl"
    head = f"Metadata-Version: 2.4\nName: driftrank-client\nVersion: {__version__}\nLicense-Expression: Apache-2.0\n"
    with zipfile.ZipFile(wheel, "w") as file:
        for name in (*packages.needed("driftrank-client"), "LICENSE"):
            file.writestr(name, "")
        description = "Description-Content-Type: text/markdown\n\nSee [the docs](docs/index.md).\n"
        file.writestr(f"driftrank_client-{__version__}.dist-info/METADATA", head + description)
    (found,) = packages.problems([wheel])
    assert found == f"{wheel.name}: links of the description that are dead elsewhere: docs/index.md"


def test_a_wheel_without_the_live_page_is_refused(tmp_path: Path) -> None:
    needed = packages.needed("driftrank")
    page = {name for name in needed if name.startswith("driftrank/serve/page/") and not name.endswith(".py")}
    assert {Path(name).suffix for name in page} >= {".css", ".html", ".js"}
    wheel = tmp_path / f"driftrank-{__version__}-py3-none-any.whl"
    head = f"Metadata-Version: 2.4\nName: driftrank\nVersion: {__version__}\nLicense-Expression: Apache-2.0\n"
    with zipfile.ZipFile(wheel, "w") as file:
        for name in (*(needed - page), "LICENSE"):
            file.writestr(name, "")
        description = "Description-Content-Type: text/markdown\n\nText.\n"
        file.writestr(f"driftrank-{__version__}.dist-info/METADATA", head + description)
    (found,) = packages.problems([wheel])
    assert found.startswith(f"{wheel.name}: lacks driftrank/serve/page/")


@pytest.mark.slow
def test_distributions_are_sound(tmp_path: Path) -> None:
    files = packages.build(tmp_path)
    assert {file.name for file in files} == {
        f"driftrank-{__version__}.tar.gz",
        f"driftrank-{__version__}-py3-none-any.whl",
        f"driftrank_client-{__version__}.tar.gz",
        f"driftrank_client-{__version__}-py3-none-any.whl",
    }
    assert list(packages.problems(files)) == []
