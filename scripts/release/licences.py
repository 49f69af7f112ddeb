"""Licences of run-time dependencies, and the bill of materials (CycloneDX)."""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass
from importlib.metadata import distribution

from scripts.required import required

#: licences that would bind those who ship driftrank; the lesser and the alternative ones do not
_REFUSED = re.compile(r"\b(A?GPL)\b|General Public License|Affero", re.IGNORECASE)
_LESSER = re.compile(r"\bLGPL|Lesser|Library General", re.IGNORECASE)


@dataclass(frozen=True)
class Component:
    """An installed distribution."""

    name: str
    version: str
    licence: str  #: an expression of SPDX if the distribution states one, otherwise its own words

    @property
    def refused(self) -> bool:
        """True if every alternative of the licence is a GPL, or none is stated."""
        choices = re.split(r"\bOR\b", self.licence)
        return not self.licence or all(_REFUSED.search(_without_lesser(choice)) for choice in choices)


def _without_lesser(licence: str) -> str:
    """The parts that are combined by AND, without those under a lesser licence."""
    return " ".join(part for part in re.split(r"\bAND\b|,", licence) if not _LESSER.search(part))


def components(*requirements: str) -> list[Component]:
    """All distributions that requirements bring, in the versions installed."""
    names: set[str] = set().union(*map(required, requirements))
    return [_component(name) for name in sorted(names - {"driftrank"})]


def _component(name: str) -> Component:
    facts = distribution(name).metadata
    named = [
        line.rpartition("::")[2].strip() for line in facts.get_all("Classifier") or [] if line.startswith("License")
    ]
    free = (facts.get("License") or "").strip()
    short = free if free and "\n" not in free and len(free) < 60 else ""
    licence = facts.get("License-Expression") or short or " OR ".join(named)
    return Component(name, facts["Version"], licence)


def bill_of_materials(name: str, version: str, parts: list[Component]) -> str:
    """A document of CycloneDX 1.6. The same parts give the same bytes."""
    reference = f"pkg:pypi/{name}@{version}"
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([reference, *map(str, parts)]))
    return json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{serial}",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference,
                    "licenses": [{"license": {"id": "Apache-2.0"}}],
                }
            },
            "components": [
                {
                    "type": "library", "bom-ref": f"pkg:pypi/{part.name}@{part.version}", "name": part.name,
                    "version": part.version, "purl": f"pkg:pypi/{part.name}@{part.version}",
                    "licenses": [{"license": {"name": part.licence}}],
                }
                for part in parts
            ],
            "dependencies": [{"ref": reference, "dependsOn": [f"pkg:pypi/{p.name}@{p.version}" for p in parts]}],
        },
        indent=1,
    ) + "\n"  # fmt: skip
