"""Write requirements.lock: one version of every package that the checks install, good for every supported Python.

pip resolves the requirements in pyproject.toml for each Python in turn, the oldest first, and each within what was
chosen before. Nothing is installed. Run by the oldest supported Python, since pip takes conditions such as
``python_version < "3.12"`` from the Python it runs on.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13")
HEADER = """\
# What the checks run with on Python {first} to {last}: constraints, for pip install -c. Written by `make lock`.
"""


def requirements() -> list[str]:
    """What the package, its checks and its build need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras["dev"]]
    own = re.compile(r"driftrank\[([\w,]+)\](;.*)?$")
    named = [name for match in map(own.match, wanted) if match for name in match[1].split(",")]
    return [r for r in wanted if not own.match(r)] + [r for name in named for r in extras[name]]


def resolve(wanted: list[str], python: str, chosen: dict[str, str]) -> dict[str, str]:
    """The version pip picks of every package, on that Python."""
    with tempfile.TemporaryDirectory() as folder:
        report, constraints = Path(folder, "report.json"), Path(folder, "constraints.txt")
        constraints.write_text(listing(chosen), encoding="utf-8")
        where = ["--python-version", python, "--only-binary", ":all:", "--target", folder, "-c", str(constraints)]
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "--dry-run", "--ignore-installed", "--report", str(report), *where, *wanted], check=True)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = {item["metadata"]["name"]: item["metadata"]["version"] for item in installed}
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found.items()}


def listing(chosen: dict[str, str]) -> str:
    return "".join(f"{name}=={chosen[name]}\n" for name in sorted(chosen))


def main() -> None:
    if sys.version_info[:2] != tuple(map(int, PYTHONS[0].split("."))):
        raise SystemExit(f"lock.py: must be run by Python {PYTHONS[0]}, the oldest that is supported")
    chosen: dict[str, str] = {}
    for python in PYTHONS:
        chosen |= resolve(requirements(), python, chosen)
    text = HEADER.format(first=PYTHONS[0], last=PYTHONS[-1]) + listing(chosen)
    (ROOT / "requirements.lock").write_text(text, encoding="utf-8")
    print(f"requirements.lock: {len(chosen)} packages")


if __name__ == "__main__":
    main()
