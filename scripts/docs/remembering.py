"""Python in a process of its own that runs one block after the other, and remembers."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Remembering:
    """The process, in a folder. Warnings are errors there."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, code: str) -> str:
        """The output of a block. AssertionError has the traceback if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "Python ended"
        printed, error = json.loads(line)
        assert error is None, f"{printed}{error}"
        return str(printed)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Read blocks as JSON texts, a line each; answer each with what it printed and what went wrong."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        printed = io.StringIO()
        error = None
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(json.loads(line), "page", "exec"), names)
            except BaseException:
                error = traceback.format_exc()
        print(json.dumps([printed.getvalue(), error]), flush=True)


if __name__ == "__main__":
    main()
