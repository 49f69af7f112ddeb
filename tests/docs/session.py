"""A page as a session: its commands, its Python and its files, from top to bottom, in one folder, with one server.

What a page may have in it:

- a block of ``sh``: run by bash. ``driftrank serve`` in it starts a server in the background, in the place of one that
  runs already, and waits until it listens. Variables that are exported stay.
- a block of ``python``: run in a process that lasts as long as the page.
- a block of ``json`` or ``text`` right after one of these (or with words in between): what it printed. In JSON the text
  "..." stands for anything, and numbers are as exact as they are written. In text, ... stands for anything.
- a block of ``toml`` that begins with the comment ``# NAME.toml``: a file of that name.

Pages speak of http://127.0.0.1:8080; a session has a port of its own in its place. Where there is no curl, one written
in Python, beside this file, does what pages ask of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from scripts.docs.remembering import Remembering
from tests.serve.running import OUTSIDE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ADDRESS = "127.0.0.1:8080"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh$", re.MULTILINE)


class Block(NamedTuple):
    """A block of a page, and the line where it begins."""

    kind: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    return [Block(found[1], found[2], text[: found.start(2)].count("\n") + 1) for found in FENCE.finditer(text)]


def is_session(page: Path) -> bool:
    return SHELL.search(page.read_text("utf-8")) is not None


class Session:
    """What a reader has on the desk: a folder, a shell, a Python, and a server on a port of its own."""

    def __init__(self, folder: Path, *, curl: str | None = None) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._exported = folder / "exported.sh"
        self._exported.touch()
        self.pid = folder / "server.pid"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._environment = OUTSIDE | {
            "PATH": os.pathsep.join((str(self._bin), os.environ["PATH"])),
            "DRIFTRANK_PORT": str(self.port),
            "SESSION": str(folder),
            "MPLBACKEND": "agg",
        }
        self._put("driftrank", HERE / "command.py")
        self._put("python", None)
        curl = curl or shutil.which("curl")
        self._put("curl", HERE / "curl.py" if curl is None else Path(curl))
        self._python: Remembering | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._python is not None:
            self._python.close()
        if self.pid.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self.pid.read_text()), signal.SIGKILL)

    def run(self, page: Path) -> None:
        """All blocks of a page. AssertionError names the line where it does other things than it says."""
        last: str | None = None
        for block in blocks(page.read_text("utf-8")):
            try:
                if block.kind == "sh":
                    last = self.shell(block.text)
                elif block.kind == "python":
                    last = self.python(block.text)
                elif block.kind == "toml":
                    self.file(block.text)
                elif block.kind in ("json", "text"):
                    assert last is not None, "nothing was run whose output this could be"
                    check(block.kind, block.text, last)
                    last = None
                else:
                    raise AssertionError(f"a block of {block.kind or 'nothing'}: cannot be run")
            except AssertionError as error:
                raise AssertionError(f"{page.name}, line {block.line}: {error}\n{self._log()}") from None

    def shell(self, text: str) -> str:
        """The output of commands."""
        commands = f". {self._exported}\nset -euo pipefail\n{self._here(text)}\nexport -p > {self._exported}\n"
        done = subprocess.run(
            ["bash", "-c", commands], cwd=self.folder, env=self._environment, capture_output=True, text=True,
            timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return self._there(done.stdout)

    def python(self, text: str) -> str:
        """The output of Python, which remembers what was run before."""
        if self._python is None:
            self._python = Remembering(self.folder, self._environment)
        return self._there(self._python.run(self._here(text)))

    def file(self, text: str) -> None:
        named = re.match(r"# (\S+\.toml)\n", text)
        assert named, "the first line of a file is a comment with its name"
        (self.folder / named[1]).write_text(self._here(text), "utf-8")

    def _put(self, name: str, what: Path | None) -> None:
        """A command, before all others of its name."""
        target = f'"{sys.executable}" "$@"'
        if what is not None:
            target = f'"{sys.executable}" "{what}" "$@"' if what.suffix == ".py" else f'"{what}" "$@"'
        (self._bin / name).write_text(f"#!/bin/sh\nexec {target}\n")
        (self._bin / name).chmod(0o755)

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, f"127.0.0.1:{self.port}")

    def _there(self, text: str) -> str:
        return text.replace(f"127.0.0.1:{self.port}", ADDRESS)

    def _log(self) -> str:
        log = self.folder.parent / "server.log"
        return f"the server says: {log.read_text()[-3000:]}" if log.exists() else ""


def check(kind: str, wanted: str, got: str) -> None:
    """Hold what was printed against what the page says."""
    if kind == "json":
        told = json.loads(got, parse_float=str)
        differs = _difference("", json.loads(wanted, parse_float=str), told)
        assert differs is None, f"{differs}\nthe output was {got}"
    else:
        pattern = r"\A" + re.escape(wanted.strip()).replace(r"\.\.\.", ".*?") + r"\Z"
        assert re.match(pattern, got.strip(), re.DOTALL), f"the output was\n{got}"


def _difference(at: str, wanted: Any, got: Any) -> str | None:
    """Where two documents differ, if they do. Numbers with a point are texts here."""
    if wanted == "...":
        return None
    if isinstance(wanted, dict) and isinstance(got, dict):
        if wanted.keys() != got.keys():
            return f"{at or 'top'} has {sorted(got)}, the page says {sorted(wanted)}"
        return next((d for key in wanted if (d := _difference(f"{at}.{key}", wanted[key], got[key]))), None)
    if isinstance(wanted, list) and isinstance(got, list):
        if wanted and wanted[-1] == "...":
            wanted, got = wanted[:-1], got[: len(wanted) - 1]
        if len(wanted) != len(got):
            return f"{at or 'top'} has {len(got)} elements, the page says {len(wanted)}"
        pairs = enumerate(zip(wanted, got, strict=True))
        return next((d for n, (w, g) in pairs if (d := _difference(f"{at}[{n}]", w, g))), None)
    if isinstance(wanted, str) and isinstance(got, str) and re.fullmatch(r"-?\d+\.\d+", wanted):
        try:
            same = f"{float(got):.{len(wanted.partition('.')[2])}f}" == wanted
        except ValueError:
            same = False
    else:
        same = wanted == got and isinstance(wanted, bool) == isinstance(got, bool)
    return None if same else f"{at} is {got!r}, the page says {wanted!r}"
