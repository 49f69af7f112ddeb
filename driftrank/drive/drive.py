"""Simulated users for a running service."""

from __future__ import annotations

import asyncio
import signal
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from driftrank.drive.result import DriveResult
from driftrank.drive.session import FeedbackFaults, Session
from driftrank.drive.simulation_check import compare_with_simulation, policy_of, why_not_checked, why_ranker_not_checked
from driftrank.environments.base import Environment
from driftrank.environments.registry import environments
from driftrank.environments.traffic.traffic import Traffic
from driftrank.experiments.simulation.breakpoints import marked_breakpoints
from driftrank.experiments.simulation.settings import EnvironmentSettings
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer
from driftrank.wire import RankerInfo

if TYPE_CHECKING:
    from driftrank.client import AsyncClient

T = TypeVar("T")

#: timeouts and retries: no request is lost while a service restarts
_RETRYING: dict[str, Any] = {"timeout": 10.0, "retries": 100, "deadline": 60.0}


@dataclass(frozen=True, kw_only=True)
class Drive:
    """Settings of a drive: the users, the ranker, and how clicks reach it.

    Examples
    --------
    >>> drive = Drive(env="abrupt", queries="yandex-like:2", steps=10)
    >>> drive.environment().names
    ['yandex-like-0-0', 'yandex-like-0-1']
    """

    url: str = "http://127.0.0.1:8080"
    key: str | None = field(default=None, repr=False)
    ranker: str = "default"
    env: str = "Abrupt"
    queries: str = ""
    k: int | None = None
    click_model: str = ""
    steps: int = 200  #: lists per query, of Traffic lists in all
    seed: int = 0
    rate: float = 0.0  #: lists and feedbacks per second, of all users; 0: as fast as possible
    connections: int = 32  #: concurrent requests
    batch: int = 1  #: lists, or feedbacks, per request
    faults: FeedbackFaults = field(default_factory=FeedbackFaults)
    name: str = ""  #: prefix of event ids; a new one by default

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, 1)
        check_integer("connections", self.connections, 1, 100)
        check_integer("batch", self.batch, 1)
        self.faults.check(self.rate)

    def environment(self) -> Environment:
        """The environment of the users."""
        by_folded = {name.lower(): name for name in environments()}
        name, colon, parameters = self.env.partition(":")
        env = by_folded.get(name.strip().lower(), name) + colon + parameters
        users = EnvironmentSettings(
            env=env, queries=self.queries, k=self.k, click_model=self.click_model, seed=self.seed
        )
        return users.environment()

    def run(self, *, check: bool = False, progress: bool | Progress | None = None) -> DriveResult:
        """Send the users to the service.

        With ``check`` the simulator runs the same policy with the same users, and every list is compared. On Ctrl-C,
        and if the service does not come back, it ends with the results so far.
        """
        environment = self.environment()
        if isinstance(environment, Traffic):
            for name, instead in (("delay", "feedback is delayed by seconds"), ("warm", "its mode is shadow")):
                if getattr(environment, name):
                    raise ValueError(f"{name}={getattr(environment, name)!r}: must be 0 at a service: {instead}")
        reason = why_not_checked(self, environment) if check else ""
        if reason:
            raise ValueError(f"check: {reason}")
        from driftrank.client import AsyncClient, ServiceError

        result = DriveResult.empty(self, environment)
        result.breakpoints = marked_breakpoints(environment, self.steps, 1, self.seed)
        totals = {"lists": result.regret.size}

        async def main() -> None:
            async with AsyncClient(self.url, key=self.key, ranker=self.ranker) as client:
                before = await client.ranker()  # fails at once if there is no service
            async with AsyncClient(self.url, key=self.key, ranker=self.ranker, **_RETRYING) as client:
                settings = before.settings
                if settings.k < environment.k:
                    raise ValueError(f"k={environment.k}: the ranker {self.ranker!r} shows at most {settings.k}")
                if check and (reason := why_ranker_not_checked(before, environment)):
                    raise ValueError(f"check: {reason}")
                if check:
                    await _check_fresh(client, environment, before)
                result.settings, result.policy = settings, policy_of(settings).spec
                with chosen_progress(progress, totals, "lists") as bar:
                    session = Session(client, self, environment, result, bar, in_order=check)
                    with _stop_on_signal(session.stop):
                        await session.run()
                if result.error is None:
                    try:
                        result.learnt = (await client.ranker()).steps - before.steps
                    except ServiceError as error:  # keep the results
                        result.error = error

        asyncio.run(main())
        if check and result.settings is not None:
            result.check = compare_with_simulation(result, result.settings, environment)
        return result

    def event_name(self) -> str:
        return self.name or f"drive-{uuid.uuid4().hex[:12]}"


async def _check_fresh(client: AsyncClient, environment: Environment, info: RankerInfo) -> None:
    from driftrank.client import NotFound

    if environment.traffic:  # of any query, as it has many
        if info.lists:
            raise ValueError(f"check: the ranker {info.name!r} has {info.lists} lists already; reset it")
        return

    async def lists(query: str) -> int:
        try:
            return (await client.query(query)).lists
        except NotFound:
            return 0

    for query, n in zip(environment.names, await _all(map(lists, environment.names)), strict=True):
        if n:
            raise ValueError(f"check: the query {query!r} has {n} lists already; reset the ranker")


async def _all(calls: Iterator[Awaitable[T]]) -> list[T]:
    """The results of all calls, 32 at a time."""
    slots = asyncio.Semaphore(32)

    async def one(call: Awaitable[T]) -> T:
        async with slots:
            return await call

    return list(await asyncio.gather(*map(one, calls)))


@contextmanager
def _stop_on_signal(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on SIGINT or SIGTERM; the second one raises KeyboardInterrupt."""
    before: dict[signal.Signals, Any] = {}
    loop = asyncio.get_running_loop()
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        loop.call_soon_threadsafe(stop)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
