"""Install driftrank into the environment of this Python, in the versions of requirements.lock: ``install.py '.[dev]'``.

uv installs in a fifth of pip's time. It does not read pip's settings, so those that say where packages are found are
passed to it. pip installs if uv cannot be had here, fails, or would miss a setting.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# without build isolation, so that their versions are locked too
BUILD = ["hatchling", "editables"]
LOCKED = ["--quiet", "--constraint", "requirements.lock"]
# Python compiles what is imported; compiling everything takes half as long again as the installation
PIP = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", *LOCKED]
UV = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *LOCKED]

#: settings of pip, with uv's variables and what separates several values there
PASSED = {
    "cert": ("SSL_CERT_FILE", ""),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", ""),
    "no-index": ("UV_NO_INDEX", ""),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}
#: settings that do not change what is installed, or that uv has as well
IRRELEVANT = {
    "break-system-packages",
    "cache-dir",
    "default-timeout",
    "disable-pip-version-check",
    "no-cache-dir",
    "no-color",
    "no-input",
    "no-python-version-warning",
    "progress-bar",
    "require-virtualenv",
    "retries",
    "root-user-action",
    "timeout",
}


def settings(listing: str) -> dict[str, str] | None:
    """uv's variables for the settings that ``pip config list`` prints; None if uv has no such setting.

    The environment counts more than the section of the command, and that more than the global section.
    """
    found: dict[str, str] = {}
    lines = re.findall(r"^([^.]+)\.([^=]+)=(.*)$", listing, re.MULTILINE)
    for counts in ("global", "install", ":env:"):
        found |= {name: ast.literal_eval(value) for section, name, value in lines if section == counts}
    if set(found) - set(PASSED) - IRRELEVANT:
        return None
    variables = {}
    for name in set(found) & set(PASSED):
        variable, separator = PASSED[name]
        variables[variable] = separator.join(found[name].split())
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", **variables}  # as pip: the best version of all indexes


def install(installer: list[str], what: str, **options: Any) -> bool:
    """Install the build tools, then the package; False if an installer failed."""
    commands = ([*installer, *BUILD], [*installer, "--no-build-isolation", "--editable", what])
    return all(subprocess.run(command, cwd=ROOT, **options).returncode == 0 for command in commands)


def with_uv(what: str) -> bool:
    """Install with uv; False if that is not possible."""
    listing = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True)
    variables = settings(listing.stdout) if listing.returncode == 0 else None
    if variables is None:
        return False
    got = subprocess.run([*PIP, "--only-binary", ":all:", "uv"], cwd=ROOT, capture_output=True).returncode == 0
    return got and install(UV, what, env={**variables, **os.environ}, capture_output=True)


def main() -> int:
    (what,) = sys.argv[1:]
    print("driftrank: installing into .venv", flush=True)
    if with_uv(what) or install(PIP, what):
        return 0
    # the last line after pip's errors
    print(
        "driftrank: pip could not install the above; it needs access to a package index or a folder of wheels",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
