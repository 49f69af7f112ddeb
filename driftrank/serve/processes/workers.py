"""Several equal processes behind one listening socket, and the process that supervises them.

All of them accept connections from the same socket: one that is busy takes fewer, and with one that dies no connection
is lost that was not accepted yet. The supervisor answers no requests and opens no store.
"""

from __future__ import annotations

import logging
import os
import pickle
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import NamedTuple, NoReturn

from driftrank.serve.log.store.base import store_at
from driftrank.serve.log.store.shared import SharedStore
from driftrank.serve.monitoring.logging import set_worker
from driftrank.serve.settings.server import ServerSettings

_log = logging.getLogger("driftrank.serve")
#: a worker's message when it answers requests, and the messages to a worker
READY, STOP, STOP_NOW, RELOAD = b"r", b"s", b"n", b"h"
#: seconds between two starts of a worker, at least
_PAUSE = 1.0


def check_workers(settings: ServerSettings) -> None:
    """Raise if there are several workers, and the store or the system does not allow that."""
    if settings.workers == 1:
        return
    if not hasattr(os, "fork"):
        raise ValueError(f"workers={settings.workers}: must be 1 on this system")
    if not issubclass(store_at(settings.store), SharedStore):
        raise ValueError(
            f"workers={settings.workers}: must be 1 with a store that one process writes to; to use several cores, "
            "move the log to PostgreSQL, on this machine or another (driftrank store copy), and serve with "
            "--store postgresql://..."
        )


class Worker(NamedTuple):
    """One of the processes, seen by itself."""

    number: int
    link: socket.socket  #: to the supervisor; it ends if that has ended
    alone: bool  #: no other one answers requests yet
    sockets: tuple[Path, ...]  #: Unix sockets at which all workers answer each other

    def ready(self) -> None:
        self.link.send(READY)


@dataclass
class _Child:
    """A worker, seen by the supervisor."""

    pid: int
    link: socket.socket
    since: float
    sent: bytes = b""  #: READY, or the reason why it could not start

    @property
    def ready(self) -> bool:
        return self.sent.startswith(READY)


class Supervisor:
    """Starts workers, and starts one again that ends.

    The first is started alone: what it compiles, and the tables that it creates, are there for the others. If a worker
    cannot start at the beginning, or if none is left, the supervisor ends with an error; otherwise it tries again.

    Parameters
    ----------
    workers
        Their number.
    work
        Called in each of them.
    all_ready
        Called once, when all of them answer requests.
    """

    def __init__(self, workers: int, work: Callable[[Worker], None], all_ready: Callable[[], None]) -> None:
        self._n, self._work, self._all_ready = workers, work, all_ready
        self._children: dict[int, _Child] = {}
        self._due: dict[int, float] = {}  # when a worker that has ended may start again
        self._complete = False  # all of them were ready once
        self._stops = 0  # signals to stop
        self._error: Exception | None = None

    def run(self) -> None:
        """Supervise until a signal to stop, and until all workers have ended."""
        with tempfile.TemporaryDirectory(prefix="driftrank-") as folder, self._signals() as received:
            sockets = tuple(Path(folder, str(number)) for number in range(self._n))
            while self._children or not self._stops:
                for number, seconds in self._missing().items():
                    if seconds <= 0.0:
                        self._start(number, sockets)
                self._wait(received)
                for number, child in list(self._children.items()):
                    self._reap(number, child)
        if self._error is not None:
            raise self._error

    # -- start and end -------------------------------------------------------------------------------------------------

    def _missing(self) -> dict[int, float]:
        """Workers to be started, and in how many seconds."""
        if self._stops:
            return {}
        n = self._n if self._complete or any(child.ready for child in self._children.values()) else 1
        now = monotonic()
        return {number: self._due.get(number, now) - now for number in range(n) if number not in self._children}

    def _start(self, number: int, sockets: tuple[Path, ...]) -> None:
        ours, theirs = socket.socketpair()
        sys.stdout.flush()
        alone = not (self._complete or self._children)
        # a signal that comes before the worker has its own handlers waits for them
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._handlers)
        pid = os.fork()
        if pid == 0:
            for link in (ours, *(child.link for child in self._children.values())):
                link.close()  # else nobody would see the supervisor end
            self._be(Worker(number, theirs, alone, sockets), before)
        theirs.close()
        ours.setblocking(False)
        self._children[number] = _Child(pid, ours, monotonic())
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _be(self, worker: Worker, mask: set[int]) -> NoReturn:
        """Work, and end this process. An error goes to the supervisor, which reports it as its own."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            set_worker(worker.number)
            self._work(worker)
            code = 0
        except KeyboardInterrupt:  # asked to stop before it could listen
            code = 0
        except (ValueError, OSError) as error:
            with suppress(OSError):
                worker.link.sendall(pickle.dumps(error))
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    def _reap(self, number: int, child: _Child) -> None:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if not pid:
            return
        self._read(child)
        child.link.close()
        del self._children[number]
        code = os.waitstatus_to_exitcode(status)
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        if self._stops:
            if code:
                self._error = self._error or OSError(f"worker {number} did not shut down gracefully ({ended})")
            return
        self._due[number] = child.since + _PAUSE
        if child.ready:
            _log.error("worker %d has ended (%s); it is started again", number, ended)
            return
        reason = _reason(number, child, ended)
        if self._complete and self._children:
            self._due[number] = monotonic() + _PAUSE
            _log.error("worker %d cannot start: %s; it is tried again", number, reason)
            return
        self._error = reason
        self._stops = 1
        self._tell(STOP)

    # -- messages and signals --------------------------------------------------------------------------------------

    def _wait(self, received: socket.socket) -> None:
        """Until a signal, a message, or the time of the next start."""
        with selectors.DefaultSelector() as selector:
            selector.register(received, selectors.EVENT_READ)
            for child in self._children.values():
                if not child.sent:
                    selector.register(child.link, selectors.EVENT_READ)
            selector.select(min(self._missing().values(), default=None))
        with suppress(BlockingIOError):
            for number in received.recv(1000):
                self._signalled(number)
        for child in self._children.values():
            self._read(child)
        if not self._complete and len(self._children) == self._n and all(it.ready for it in self._children.values()):
            self._complete = True
            self._all_ready()

    def _signalled(self, number: int) -> None:
        if number in (signal.SIGINT, signal.SIGTERM):
            self._stops += 1
            self._tell(STOP if self._stops == 1 else STOP_NOW)
        elif number == signal.SIGHUP:
            self._tell(RELOAD)

    def _tell(self, message: bytes) -> None:
        for child in self._children.values():
            with suppress(OSError):  # it has ended
                child.link.send(message)

    def _read(self, child: _Child) -> None:
        with suppress(OSError):
            while data := child.link.recv(65536):
                child.sent += data

    @contextmanager
    def _signals(self) -> Iterator[socket.socket]:
        """Let signals write their numbers into a socket."""
        received, sent = socket.socketpair()
        received.setblocking(False)
        sent.setblocking(False)
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
        self._handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
        before = signal.set_wakeup_fd(sent.fileno(), warn_on_full_buffer=False)
        try:
            yield received
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            received.close()
            sent.close()


def _reason(number: int, child: _Child, ended: str) -> Exception:
    """The error for which a worker could not start."""
    with suppress(pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError):
        error = pickle.loads(child.sent)
        if isinstance(error, Exception):
            return error
    return OSError(f"worker {number} has ended before it was ready ({ended})")
