"""The distributions that a requirement of driftrank brings, as declared by what is installed."""

from __future__ import annotations

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]


def required(requirement: str) -> set[str]:
    """The names of all distributions that a requirement brings."""
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
