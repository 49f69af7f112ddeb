"""The published site: a folder for every release, ``dev`` for the main branch, and ``latest`` for the newest release.

    python -m scripts.docs.versions SITE FOLDER NAME

puts a built site into a folder of versions as NAME, ``dev`` or a release such as ``1.2.3``, and writes the list of
versions that pages offer (``versions.json``) and the page that leads to the newest.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

DEV, LATEST = "dev", "latest"


def put(site: Path, folder: Path, name: str) -> None:
    """Put a built site beside the other versions."""
    if name != DEV and str(_version(name)) != name:
        raise ValueError(f"name={name!r}: must be {DEV}, or a release such as 1.2.3")
    _replace(site, folder / name)
    releases = sorted((path.name for path in folder.iterdir() if _version(path.name)), key=Version, reverse=True)
    if name in releases[:1]:  # an older release does not replace a newer one
        _replace(site, folder / LATEST)
    listed = [{"version": each, "title": each, "aliases": [LATEST] * (each == releases[0])} for each in releases]
    if (folder / DEV).exists():
        listed.append({"version": DEV, "title": DEV, "aliases": []})
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", "utf-8")
    first = LATEST if releases else DEV
    page = f"{first}/index.html"
    (folder / "index.html").write_text(
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>driftrank</title>\n'
        f'<meta http-equiv="refresh" content="0; url={page}"><a href="{page}">driftrank</a></html>\n',
        "utf-8",
    )
    (folder / ".nojekyll").touch()  # the host is not to build anything


def _replace(site: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site, target)


def _version(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


if __name__ == "__main__":
    put(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
