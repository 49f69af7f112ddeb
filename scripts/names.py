"""Write ``driftrank/_names.pyi``: the names that ``driftrank`` imports on first use, for editors and type checkers.

``--check`` writes nothing and exits with 1 if the file is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path

import driftrank
from driftrank.policies.registry import policies

FILE = Path(driftrank.__file__).with_name("_names.pyi")


def text() -> str:
    """The text of the stub: every module and every policy of driftrank."""
    own = [cls for cls in policies().values() if cls.__module__.startswith("driftrank.")]
    lines = [f"from driftrank import {name} as {name}" for name in sorted(driftrank._modules())]
    lines += sorted(f"from {cls.__module__} import {cls.__name__} as {cls.__name__}" for cls in own)
    return "\n".join(["# Written by scripts/names.py (make format): modules and policies by their names.", *lines, ""])


def main() -> int:
    current = FILE.exists() and FILE.read_text(encoding="utf-8") == text()
    if "--check" in sys.argv[1:]:
        if not current:
            print(f"{FILE}: is not current; make format writes it", file=sys.stderr)
        return 0 if current else 1
    if not current:
        FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
