"""Distributions: built, and their contents and metadata checked."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata

from driftrank import __version__
from scripts.release.facts import ROOT


def needed(name: str) -> set[str]:
    """Files that a wheel must have: of the product every one of the package, with templates, styles and scripts."""
    if name == "driftrank-client":
        return {"driftrank_client/py.typed", "driftrank_client/client/core.py", "driftrank_client/LICENSE"}
    files = (path for path in (ROOT / "driftrank").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in files}


def build(folder: Path) -> list[Path]:
    """Build the product and the client, source and wheel, into a folder; returns the files."""
    hatch = [sys.executable, "-m", "hatchling", "build", "-d", str(folder.absolute()), "-t", "sdist", "-t", "wheel"]
    for place in (ROOT, ROOT / "client"):
        done = subprocess.run(hatch, cwd=place, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{place}: could not be built\n{done.stdout}{done.stderr}")
    return sorted(path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz")))


def problems(files: list[Path]) -> Iterator[str]:
    """Whatever is wrong with the distributions."""
    for file in files:
        names, text = _read(file)
        try:
            facts = Metadata.from_email(text, validate=True)
        except ExceptionGroup as group:  # of InvalidMetadata
            yield from (f"{file.name}: {error}" for error in group.exceptions)
            continue
        if str(facts.version) != __version__:
            yield f"{file.name}: version {facts.version}, must be {__version__}"
        if facts.license_expression != "Apache-2.0":
            yield f"{file.name}: license expression {facts.license_expression!r}"
        if not facts.description or facts.description_content_type != "text/markdown":
            yield f"{file.name}: has no description in Markdown"
        if dead := re.findall(r"\]\((?!https?:|mailto:|#)([^)]+)\)", facts.description or ""):
            yield f"{file.name}: links of the description that are dead elsewhere: {', '.join(dead[:5])}"
        if not any("LICENSE" in name for name in names):
            yield f"{file.name}: has no licence"
        if file.suffix == ".whl":
            missing = needed(facts.name) - names
            if missing:
                yield f"{file.name}: lacks {', '.join(sorted(missing)[:5])}"
        if unwanted := sorted(n for n in names if "__pycache__" in n or n.endswith((".db", ".pyc"))):
            yield f"{file.name}: has {', '.join(unwanted[:5])}"


def _read(file: Path) -> tuple[set[str], bytes]:
    """The names in a distribution, and its metadata."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            names = set(wheel.namelist())
            return names, wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA")))
    with tarfile.open(file) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
        member = source.extractfile(next(n for n in source.getnames() if n.count("/") == 1 and n.endswith("/PKG-INFO")))
        assert member is not None
        return names, member.read()
