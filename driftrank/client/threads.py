"""The runtime of the blocking client: threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from .calls import Call
from .connection import request_of

if TYPE_CHECKING:
    from .core import Answer

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("a coroutine on threads must not suspend")


class Threads:
    """Coroutines that block instead of suspending, and a thread that sends feedback."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.lock = threading.Condition()
        self._http = httpx.Client(**options)
        self._sender: threading.Thread | None = None

    async def request(self, call: Call[Any], timeout: float, node: str, headers: Mapping[str, str]) -> Answer:
        end = time.monotonic() + timeout
        response = self._http.send(request_of(self._http, call, timeout, node, headers), stream=True)
        try:
            parts = []
            for part in response.iter_bytes():  # httpx restarts its timeout for every part
                parts.append(part)
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("the answer comes too slowly")
        finally:
            response.close()
        return response.status_code, response.headers, b"".join(parts)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        with self.lock:
            return bool(self.lock.wait_for(condition, timeout))

    def notify(self) -> None:
        with self.lock:
            self.lock.notify_all()

    def start(self, sender: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        if self._sender is not None and self._sender.is_alive():
            return False
        self._sender = threading.Thread(target=lambda: run(sender()), name="driftrank feedback", daemon=True)
        self._sender.start()
        return True

    async def join(self, timeout: float) -> None:
        if self._sender is not None:
            self._sender.join(timeout)

    async def close(self) -> None:
        self._http.close()
