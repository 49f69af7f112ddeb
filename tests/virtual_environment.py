"""New virtual environments, to test what is declared as a dependency."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


class Environment:
    """An empty virtual environment."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = str(folder / "bin" / "python")
        (self.site_packages,) = folder.glob("lib/python*/site-packages")

    def install(self, *what: str) -> None:
        """Install with pip, in the versions of the lock."""
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.python,
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "--constraint", str(ROOT / "requirements.lock"), *what], check=True, timeout=300)

    def link(self, requirement: str) -> None:
        """Link the packages that a requirement brings, from this environment: in a second and without a network."""
        for name in required(requirement) - {"driftrank"}:
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                link = self.site_packages / top
                if not link.exists():
                    link.symlink_to(Path(str(found.locate_file(top))))

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        command = [self.python, *arguments]
        return subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=120)


def required(requirement: str) -> set[str]:
    """The names of all distributions that a requirement brings, as declared."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    seen: set[tuple[str, str]] = set()
    left = [Requirement(requirement)]
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        for extra in {"", *one.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            if name == "driftrank":
                declared = project["optional-dependencies"][extra] if extra else project["dependencies"]
            else:
                declared = distribution(name).requires or []
            requirements = map(Requirement, declared)
            left += [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in seen}
