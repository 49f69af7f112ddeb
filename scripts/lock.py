"""Write requirements.lock: one version of every package that the checks install, for all supported Pythons.

pip resolves the requirements in pyproject.toml for each Python in turn, the oldest first, each constrained by the
versions chosen before. Nothing is installed. Run by the oldest supported Python, since pip takes conditions such as
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
# Versions for the checks on Python {first} to {last}: constraints, for pip install -c. Written by `make lock`.
"""


def requirements() -> list[str]:
    """The requirements of the package, its checks, its build and its installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]

    def expanded(requirement: str) -> list[str]:
        own = re.match(r"driftrank\[([\w,]+)\]", requirement)
        return [r for name in own[1].split(",") for e in extras[name] for r in expanded(e)] if own else [requirement]

    tools = [*project["build-system"]["requires"], *project["dependency-groups"]["install"]]
    wanted = [*tools, *project["project"]["dependencies"], "driftrank[dev]"]
    return list(dict.fromkeys(r for requirement in wanted for r in expanded(requirement)))


def resolve(wanted: list[str], python: str, chosen: dict[str, str]) -> dict[str, str]:
    """The version of every package that pip chooses on that Python."""
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
