"""The runtime of the asyncio client: an event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import httpx

from .calls import Call
from .connection import LIMITS, request_of

if TYPE_CHECKING:
    from .core import Answer


class EventLoop:
    """A task that sends feedback, and connections that are each an httpx client of its own.

    The pool of httpx looks at every one of its connections before and after every request: with twenty of them a
    request takes 4.1 ms of this machine's time, with a pool for each 1.2.
    """

    lock = nullcontext()  # tasks of one loop do not interrupt each other between awaits

    def __init__(self, options: Mapping[str, Any]) -> None:
        # certificates are read once, and not at all without encryption
        verify = httpx.create_ssl_context() if options["base_url"].scheme == "https" else False
        one = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=LIMITS.keepalive_expiry)
        self._options = {**options, "limits": one, "verify": verify}
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin()

    def _begin(self) -> None:
        self._free = asyncio.Semaphore(LIMITS.max_connections or 1)
        self._idle: defaultdict[str, list[httpx.AsyncClient]] = defaultdict(list)  # by node
        self._changed = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    def _here(self) -> asyncio.AbstractEventLoop:
        """The running loop. Connections and the sender of a loop before it, which has ended, are given up.

        Nothing can be awaited in a loop that has ended: the garbage collector closes its sockets.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._loop is not None:
                self._begin()
            self._loop = loop
        return loop

    async def request(self, call: Call[Any], timeout: float, node: str, headers: Mapping[str, str]) -> Answer:
        self._here()
        async with asyncio.timeout(timeout), self._free:
            if self._closed:
                raise RuntimeError("this client is closed")
            # the one that was used last, so that the others can expire
            idle = self._idle[node]
            http = idle.pop() if idle else httpx.AsyncClient(**self._options)
            whole = False
            try:
                response = await http.send(request_of(http, call, timeout, node, headers))
                whole = True
            finally:
                if whole and not self._closed:
                    idle.append(http)
                else:  # after a cancelled request its pool may be full for ever
                    await http.aclose()
        return response.status_code, response.headers, response.content

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, condition: Callable[[], object], timeout: float | None = None) -> bool:
        self._here()
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return bool(condition())
        return True

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def start(self, sender: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        loop = self._here()
        if self._sender is not None and not self._sender.done():
            return False
        self._sender = loop.create_task(sender(), name="driftrank feedback")
        return True

    async def join(self, timeout: float) -> None:
        self._here()
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=timeout)

    async def close(self) -> None:
        """Close idle connections; those in use are closed when their request ends."""
        self._closed = True
        self._here()
        for idle in self._idle.values():
            while idle:
                await idle.pop().aclose()
