"""Checks of the repository alone: versions that must agree, and files of others with their licences."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from driftrank import __version__

ROOT = Path(__file__).resolve().parents[2]
#: folders that tools make
_BUILT = ("build", "dist", "node_modules", "out", "site")


def version_problems(root: Path = ROOT, version: str = __version__) -> Iterator[str]:
    """Places that state another version than the package, or none.

    A version that is not yet released stands in the first lines under *Unreleased*; a released one has a heading.
    """
    citation = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if citation is None or citation[1] != version:
        yield f"CITATION.cff: version {citation[1] if citation else 'missing'}, the package has {version}"
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    heading = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE)
    prepared = re.search(rf"^## \[Unreleased\]\n+{re.escape(version)}\b[^\n]*in preparation", changes, re.MULTILINE)
    if not heading and not prepared:
        yield f"CHANGELOG.md: must have a dated section [{version}], or name it as in preparation under Unreleased"
    if heading and prepared:
        yield f"CHANGELOG.md: {version} is released and in preparation"


def released(root: Path = ROOT, version: str = __version__) -> bool:
    """True if the changelog has a dated section for this version, which publishing requires."""
    return re.search(rf"^## \[{re.escape(version)}\] - ", (root / "CHANGELOG.md").read_text("utf-8"), re.M) is not None


def vendored_problems(root: Path = ROOT) -> Iterator[str]:
    """Files of others that differ from their checksums, or lack a licence beside them.

    A folder with such files has a file ``SHA256SUMS``; the licence of ``name-1.2.js`` is ``name-1.2.LICENSE``, or any
    file of the folder whose name begins with that of the package and ends in LICENSE.
    """
    for sums in vendored_folders(root):
        for line in sums.read_text("utf-8").splitlines():
            digest, name = line.split()
            file = sums.parent / name
            if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
                yield f"{file.relative_to(root)}: is missing, or not the file of the checksum"
            package = re.split(r"[-.]\d", name)[0].partition(".")[0].lower()
            licences = [p.name.lower() for p in sums.parent.iterdir() if "license" in p.name.lower()]
            if not any(licence.startswith((package, "license")) for licence in licences):
                yield f"{file.relative_to(root)}: has no licence beside it"


def vendored_folders(root: Path = ROOT) -> list[Path]:
    """The lists of checksums, without those in environments and in what was built."""
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in _BUILT]
        found += [Path(folder, name) for name in files if name == "SHA256SUMS"]
    return sorted(found)
