"""Processes with the product imported: forks of one that has done nothing else.

To start Python and import numba takes a second of a processor, and the tests start a hundred servers. A fork is a
process like any other; only what happens at import was done before it, so these are for the first start of a server
whose settings are not read by then.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).parents[1]
_ONE_AT_A_TIME = threading.Lock()


class ForkedProcess:
    """``driftrank`` with ``arguments``, as much like :class:`subprocess.Popen` with pipes as its users need."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        ends = [os.pipe() for _ in range(3)]
        call = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        with _ONE_AT_A_TIME:
            link = _parent()
            link.sendall(len(call).to_bytes(4, "big"))
            socket.send_fds(link, [call[:1]], [write for _, write in ends])
            link.sendall(call[1:])
        for _, write in ends:
            os.close(write)
        self.stdout: IO[str] = os.fdopen(ends[0][0], encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(ends[1][0], encoding="utf-8")
        self._news = ends[2][0]  #: its number, then how it ended
        self.pid = self._next()
        self.returncode: int | None = None

    def _next(self) -> int:
        data = os.read(self._news, 4)
        assert len(data) == 4, "the process that is forked has ended"
        return int.from_bytes(data, "big", signed=True)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("driftrank", timeout or 0)
            self.returncode = self._next()
            os.close(self._news)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def _parent() -> socket.socket:
    """The process that is forked; it ends when this one does."""
    ours, its = socket.socketpair()
    command = [sys.executable, "-m", "tests.forked", str(its.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
    its.close()

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours


def _serve(link: socket.socket) -> list[str]:
    """Fork as often as asked; returns in the children only, with the arguments of each."""
    running: dict[int, int] = {}
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([link, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                news = running.pop(pid)
                os.write(news, os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
                os.close(news)
        if link in ready:
            length = link.recv(4, socket.MSG_WAITALL)
            if not length:
                _end(running)
            first, (out, err, news), _, _ = socket.recv_fds(link, 1, 3)
            call = json.loads(first + link.recv(int.from_bytes(length, "big") - 1, socket.MSG_WAITALL))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in (link.detach(), wake, woken, news, *running.values()):
                    os.close(other)
                os.dup2(out, 1)
                os.dup2(err, 2)
                os.close(out)
                os.close(err)
                os.chdir(call["cwd"])
                os.environ.clear()
                os.environ.update(call["env"])
                arguments: list[str] = call["arguments"]
                return arguments
            running[pid] = news
            os.close(out)
            os.close(err)
            os.write(news, pid.to_bytes(4, "big"))


def _end(running: Mapping[int, int]) -> NoReturn:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    sys.exit()


def _imported() -> None:
    """Everything that a server needs, numba's own tables too."""
    import numba
    import uvloop  # noqa: F401

    import driftrank.cli.demo
    import driftrank.cli.serve
    import driftrank.serve.app
    import driftrank.serve.http.routes.rank
    import driftrank.serve.log.store.sqlite  # noqa: F401
    from driftrank.policies.registry import policies

    policies()
    numba.njit(lambda x: x + 1)(1)


if __name__ == "__main__":
    from driftrank.cli import main

    _imported()
    sys.argv = ["driftrank", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    main()
