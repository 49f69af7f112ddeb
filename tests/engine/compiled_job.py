"""A process of CompilerProcesses, for tests: writes what it received to a file."""

from __future__ import annotations

from driftrank.engine.compiling import received

if __name__ == "__main__":
    path, value = received()
    if value == "wrong":
        raise SystemExit(1)
    path.write_text(repr(value))
