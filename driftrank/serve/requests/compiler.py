"""Compile what rankers need before their first ranking, while other requests are answered."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable
from contextlib import suppress

from driftrank.serve.core import ServiceCore
from driftrank.serve.settings.ranker import arms_of, policy_of, settings_of_arm
from driftrank.serve.state.query import warm_up
from driftrank.wire import RankerSettings

_log = logging.getLogger("driftrank.serve")
#: seconds after which it is logged that a policy is being compiled: compiled ones are loaded by then
_SOON = 2.0
_THREAD = "driftrank compiling"


def compiling() -> bool:
    """True if a policy is being compiled in this process."""
    return any(thread.name == _THREAD for thread in threading.enumerate())


async def _in_thread(work: Callable[[], int]) -> int:
    """Work in a thread that nobody waits for at the end: compiling cannot be interrupted, and takes up to a minute."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[int] = loop.create_future()

    def settle(size: int, error: BaseException | None) -> None:
        if done.done():  # cancelled
            return
        if error is None:
            done.set_result(size)
        else:
            done.set_exception(error)

    def run() -> None:
        size, failed = 0, None
        try:
            size = work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, size, failed)

    threading.Thread(target=run, name=_THREAD, daemon=True).start()
    return await done


class RankerCompiler:
    """Compiles the policies of rankers, in threads."""

    def __init__(self, core: ServiceCore) -> None:
        self._core = core

    async def compile_all(self) -> None:
        for arm in list(self._core.state.every_arm()):
            with suppress(ValueError):  # it was accepted when there was more memory
                await self.compile(arm.settings)

    async def compile_if_possible(self, settings: RankerSettings) -> None:
        with suppress(ValueError):  # another service, with more memory, has accepted it
            await self.compile(settings)

    async def compile(self, settings: RankerSettings) -> None:
        """Compile before the first ranking, in a thread: other requests are answered meanwhile."""
        core = self._core
        for arm in arms_of(settings):
            await self.compile(settings_of_arm(settings, arm))
        policy, most = policy_of(settings), core.settings.memory_bytes
        if core.starting:
            core.doing = f"compiling {policy.spec}"
        slow = asyncio.get_running_loop().call_later(_SOON, self._log_compiling, policy.spec)
        try:
            size: float = await _in_thread(lambda: warm_up(policy, settings.k, settings.horizon, most))
        except MemoryError:
            size = math.inf
        finally:
            slow.cancel()
        if size > most:
            raise ValueError(
                f"policy={policy.spec!r}: a query or its shared model takes {size:.3g} bytes, "
                "more than the memory for all"
            )

    def _log_compiling(self, spec: str) -> None:
        meanwhile = "; until then rankings are the caller's order" if self._core.starting else ""
        _log.info("compiling %s: the first time takes up to a minute%s", spec, meanwhile)
