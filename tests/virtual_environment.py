"""New virtual environments, to test what is declared as a dependency."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

from scripts.required import required

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
