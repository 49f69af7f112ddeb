"""Ctrl-C, and SIGTERM, which is treated the same."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from types import FrameType
from typing import Any, NoReturn


class Stopping:
    """Turns signals to stop into ``KeyboardInterrupt`` while a command runs, and loses none.

    An exception in a callback from compiled code is only reported, never raised. If that happens to an interrupt (the
    compiler makes such callbacks), it is raised again a moment later; the compiler may have failed because of it
    meanwhile, and ``asked`` is then true.
    """

    def __init__(self) -> None:
        self.asked = False
        self._handlers: dict[signal.Signals, Any] = {}
        self._again: threading.Timer | None = None

    def __enter__(self) -> Stopping:
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) != usual:  # handled elsewhere, or ignored on purpose
                continue
            try:
                self._handlers[number] = signal.signal(number, self._interrupt)
            except ValueError:  # not in the main thread
                break
        self._reporting = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        return self

    def __exit__(self, *_: object) -> None:
        if self._again is not None:
            self._again.cancel()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._reporting

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        self.asked = True
        raise KeyboardInterrupt

    def _unraisable(self, what: Any) -> None:
        if not isinstance(what.exc_value, KeyboardInterrupt):
            self._reporting(what)
            return
        self._again = threading.Timer(0.1, _interrupt_main)
        self._again.daemon = True
        self._again.start()


def _interrupt_main() -> None:
    if hasattr(signal, "pthread_kill"):  # wakes a waiting thread, unlike interrupt_main
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
