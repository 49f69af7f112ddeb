"""An AsyncClient on its own event loop, so that one test covers both clients."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

from driftrank.client import AsyncClient


class Awaited:
    """Calls coroutine methods as if they were blocking."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        try:
            self._client = AsyncClient(*args, **settings)
        except BaseException:
            self.end()
            raise

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if not inspect.iscoroutinefunction(value):
            return value
        return lambda *args, **kwargs: asyncio.run_coroutine_threadsafe(value(*args, **kwargs), self._loop).result()

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.end()

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(_ended(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _ended() -> None:
    """Cancel what still runs, and let connections close: a loop that is closed before leaves sockets open."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.01)
