"""Check that driftrank could be released now: ``make release-check``.

Builds the distributions into dist/, with a bill of materials and a list of licences, and tries them in fresh
environments. Nothing is published. Exit code 1 and a list if anything is wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path

from driftrank import __version__
from scripts.release import facts, installs, licences, packages
from scripts.release.facts import ROOT

DIST = ROOT / "dist"
#: prints a title, with its problems if there are any
Step = Callable[[str, Iterable[str]], None]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--no-installs", action="store_true", help="do not try the distributions")
    parser.add_argument("--no-container", action="store_true", help="do not build the container")
    parser.add_argument("--publish", action="store_true", help="require a dated section of the version in CHANGELOG.md")
    given = parser.parse_args()
    found: list[str] = []

    def step(title: str, problems: Iterable[str]) -> None:
        new = list(problems)
        found.extend(new)
        print(f"{'FAIL' if new else 'ok  '} {title}", *new, sep="\n       ", flush=True)

    step(f"version {__version__} agrees with CHANGELOG.md and CITATION.cff", facts.version_problems())
    if given.publish and not facts.released():
        step("released", [f"CHANGELOG.md: has no dated section [{__version__}]"])
    step(f"files of others: {len(facts.vendored_folders())} folders", facts.vendored_problems())
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    files = packages.build(DIST)
    step(f"distributions: {', '.join(file.name for file in files)}", packages.problems(files))
    step("licences of run-time dependencies", _licences())
    if not given.no_installs:
        _try(files, step)
    if not given.no_container:
        _container(step)
    print(f"{len(found)} problems" if found else f"driftrank {__version__} could be released; files in dist/")
    return 1 if found else 0


def _licences() -> list[str]:
    """Write the bills of materials and the lists of licences; returns what is refused."""
    refused = []
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    for name, requirements in (("driftrank", ["driftrank[all]"]), ("driftrank-client", client)):
        parts = licences.components(*requirements)
        stem = f"{name}-{__version__}"
        (DIST / f"{stem}.cdx.json").write_text(licences.bill_of_materials(name, __version__, parts), "utf-8")
        lines = [f"{part.name} {part.version}: {part.licence or 'no licence stated'}" for part in parts]
        (DIST / f"{stem}.licences.txt").write_text("\n".join(lines) + "\n", "utf-8")
        refused += [line for part, line in zip(parts, lines, strict=True) if part.refused]
    return refused


def _try(files: list[Path], step: Step) -> None:
    wheels = {file.name.partition("-")[0]: file for file in files if file.suffix == ".whl"}
    sources = {file.name.partition("-")[0]: file for file in files if file.suffix == ".gz"}
    for version, python in installs.pythons().items():
        if python is None:
            print(f"--   Python {version} is not here", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                for done in installs.check(python, wheels, sources, Path(folder)):
                    print(f"ok   Python {version}: {done}", flush=True)
            except (RuntimeError, AssertionError, subprocess.SubprocessError) as error:
                step(f"Python {version}", [str(error)])


def _container(step: Step) -> None:
    builder = next((name for name in ("podman", "buildah", "docker") if _works(name)), None)
    if builder is None:
        print("--   container: not built, for lack of podman, buildah or docker that works here")
        return
    how = [] if builder == "docker" else ["--format", "docker"]
    command = [builder, "build", *how, "--file", "deploy/Containerfile", "--tag", f"driftrank:{__version__}", "."]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode and re.search("container registry|no such host|dial tcp", done.stderr):
        print(f"--   container: not built, {builder} cannot reach the registry of the base image")
    elif done.returncode:
        step(f"container, with {builder}", [done.stderr.strip()[-1500:]])
    elif builder == "buildah":
        print("ok   container: built with buildah, not run")
    else:
        run = [builder, "run", "--rm", f"driftrank:{__version__}", "key"]
        tried = subprocess.run(run, capture_output=True, text=True)
        step(f"container, built and run with {builder}", [tried.stderr.strip()[-1500:]] if tried.returncode else [])


def _works(builder: str) -> bool:
    """True if a builder is installed, and its daemon, if it needs one, is running."""
    if shutil.which(builder) is None:
        return False
    return subprocess.run([builder, "info"], capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
