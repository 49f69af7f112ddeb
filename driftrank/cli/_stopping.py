"""Ctrl-C, and a polite request to end (SIGTERM), which is treated the same."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, NoReturn

#: seconds between two looks at whether an interrupt was lost
_LOOK = 0.1


class Stopping:
    """While a command runs, signals to stop become ``KeyboardInterrupt``, and none is lost.

    An exception in a callback from compiled code is only reported, never raised (the compiler makes such callbacks),
    and any library may swallow one. So somebody looks whether an interrupt that came is being dealt with; if not, it
    comes again. The compiler may have failed of it meanwhile, so ``asked`` tells what was the reason.
    """

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0
        self._over = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Stopping:
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) != usual:  # somebody else sees to it, or wants it ignored
                continue
            try:
                self._handlers[number] = signal.signal(number, self._interrupt)
            except ValueError:  # not in the main thread
                break
        self._reporting = sys.unraisablehook
        sys.unraisablehook = self._unraisable
        if self._handlers:
            threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._reporting

    def _interrupt(self, number: int, frame: FrameType | None) -> NoReturn:
        self._since = time.monotonic()
        self.asked = True
        raise KeyboardInterrupt

    def _unraisable(self, what: Any) -> None:
        if not isinstance(what.exc_value, KeyboardInterrupt):
            self._reporting(what)

    def _look(self) -> None:
        main = threading.main_thread().ident or 0
        while not self._over:
            time.sleep(_LOOK)
            waited = self.asked and time.monotonic() - self._since > _LOOK
            if waited and not self._over and not _deals_with_an_exception(main):
                _interrupt_main(main)


def _deals_with_an_exception(thread: int) -> bool:
    found: Any = sys._current_exceptions().get(thread)
    return found not in (None, (None, None, None))


def _interrupt_main(main: int) -> None:
    if hasattr(signal, "pthread_kill"):  # this wakes a thread that waits, the other does not
        signal.pthread_kill(main, signal.SIGINT)
    else:
        _thread.interrupt_main()
