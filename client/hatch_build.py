"""The files of driftrank that are the client's, under its name. A source distribution has them in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: of the repository, by their names in the package
FILES = {
    "LICENSE": "LICENSE",
    "driftrank/client": "client",
    "driftrank/extras.py": "extras.py",
    "driftrank/py.typed": "py.typed",
    "driftrank/validation.py": "validation.py",
    "driftrank/wire": "wire",
}


class Files(BuildHookInterface):  # type: ignore[type-arg]
    """Found by hatchling, since it is the only hook of this file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not Path(self.root, "PKG-INFO").exists():
            product = Path(self.root).parent
            build_data["force_include"] |= {
                str(product / name): f"driftrank_client/{there}" for name, there in FILES.items()
            }
