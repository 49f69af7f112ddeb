"""A server for a test: the command that users run, in a process of its own, with a free port and a folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked import ForkedProcess

ROOT = Path(__file__).parents[2]
#: the environment of a server: without any settings, but with the kernels of the tests
OUTSIDE = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith("DRIFTRANK_") or name == "DRIFTRANK_CACHE_DIR"
}
OUTSIDE["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


class Running:
    """``driftrank serve`` for the length of a ``with`` block. It can be stopped or killed, and started again."""

    python = sys.executable
    command = "serve"

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        self.folder, self._options, self._variables = folder, options, variables
        self.url = ""
        self.port = 0  #: the same after a restart
        self.log = ""  #: standard error so far
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """With SIGKILL."""
        self._process.kill()
        self._end()

    def stop(self) -> int:
        """Shut down gracefully; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        self._end()
        return self._process.returncode

    def restart(self, *options: str) -> None:
        """Start it again, on the same port."""
        self._options = options or self._options
        self._start()

    def _start(self) -> None:
        arguments = [self.command, "--port", str(self.port), *self._options]
        self._process = self._forked(arguments) if self._may_be_forked() else self._executed(arguments)
        # a full pipe would block the server
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.match(r"driftrank listens on (https?://\S+:(\d+)|unix:\S+),", line)
        if found is None:
            self.kill()
            raise AssertionError(f"the server did not start: {line}{self.log}")
        self.url, self.port = found[1], int(found[2] or 0)

    def _may_be_forked(self) -> bool:
        """Not after a restart: a process has other hashes of texts than the one before, and must not depend on them."""
        settings = all(name.startswith("DRIFTRANK_") and "CACHE" not in name for name in self._variables)
        return settings and self.python == sys.executable and not self.port and sys.platform == "linux"

    def _forked(self, arguments: list[str]) -> ForkedProcess:
        return ForkedProcess(arguments, cwd=self.folder, env=OUTSIDE | self._variables)

    def _executed(self, arguments: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-m", "driftrank", *arguments], cwd=self.folder, env=OUTSIDE | self._variables, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log += line

    def _end(self) -> None:
        try:
            self._process.wait(30)
        finally:
            self._process.kill()
            self._reader.join(10)
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe is not None:
                    pipe.close()
