"""Simulated users against a running service: what to do, in words, and doing it."""

from __future__ import annotations

import asyncio
import signal
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from driftrank.environments.base import Environment
from driftrank.environments.registry import environments
from driftrank.experiments.breakpoints import marked_breakpoints
from driftrank.experiments.drive_check import check_driven, policy_of, why_not_checked, why_ranker_not_checked
from driftrank.experiments.drive_result import Driven
from driftrank.experiments.drive_session import Mishaps, Session
from driftrank.experiments.spec import Spec
from driftrank.progress import Progress, chosen_progress
from driftrank.validation import check_integer

if TYPE_CHECKING:
    from driftrank.client import AsyncClient

T = TypeVar("T")

#: how patient users are: a service that is started anew meanwhile loses none of them
_PATIENCE: dict[str, Any] = {"timeout": 10.0, "retries": 100, "deadline": 60.0}


@dataclass(frozen=True, kw_only=True)
class Drive:
    """Which users meet which ranker, and how their clicks reach it.

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
    steps: int = 200  #: lists of every query
    seed: int = 0
    rate: float = 0.0  #: lists and feedbacks per second, of all users; 0: as fast as it goes
    connections: int = 32  #: requests at a time
    batch: int = 1  #: lists, or feedbacks, in one request
    mishaps: Mishaps = field(default_factory=Mishaps)
    name: str = ""  #: event ids begin with it; a new one by default

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, 1)
        check_integer("connections", self.connections, 1, 100)
        check_integer("batch", self.batch, 1)
        self.mishaps.check(self.rate)

    def environment(self) -> Environment:
        """The users."""
        by_folded = {name.lower(): name for name in environments()}
        name, colon, parameters = self.env.partition(":")
        env = by_folded.get(name.strip().lower(), name) + colon + parameters
        spec = Spec(
            env=env, queries=self.queries, k=self.k, click_model=self.click_model, horizon=self.steps, seed=self.seed
        )
        return spec.build()[1]

    def run(self, *, check: bool = False, progress: bool | Progress | None = None) -> Driven:
        """Have the users come, and see what they get.

        With ``check`` the simulator runs the same policy with the same users, and every list is compared. On Ctrl-C,
        and when the service is gone for good, it ends with what was done so far.
        """
        environment = self.environment()
        reason = why_not_checked(self, environment) if check else ""
        if reason:
            raise ValueError(f"check: {reason}")
        from driftrank.client import AsyncClient, ServiceError

        driven = Driven.empty(self, environment)
        driven.breakpoints = marked_breakpoints(environment, self.steps, 1, self.seed)
        totals = {"lists": driven.regret.size}

        async def main() -> None:
            async with AsyncClient(self.url, key=self.key, ranker=self.ranker) as client:
                before = await client.ranker()  # where nobody listens, that is said at once
            async with AsyncClient(self.url, key=self.key, ranker=self.ranker, **_PATIENCE) as client:
                settings = before.settings
                if settings.k < environment.k:
                    raise ValueError(f"k={environment.k}: the ranker {self.ranker!r} shows at most {settings.k}")
                if check and (reason := why_ranker_not_checked(settings)):
                    raise ValueError(f"check: {reason}")
                if check:
                    await _check_fresh(client, environment)
                driven.settings, driven.policy = settings, policy_of(settings).spec
                with chosen_progress(progress, totals, "lists") as bar:
                    session = Session(client, self, environment, driven, bar)
                    with _asked_to_stop(session.stop):
                        await session.run()
                if driven.error is None:
                    try:
                        driven.learnt = (await client.ranker()).steps - before.steps
                    except ServiceError as error:  # all else is done, and worth having
                        driven.error = error

        asyncio.run(main())
        if check and driven.settings is not None:
            driven.check = check_driven(driven, driven.settings, environment)
        return driven

    def event_name(self) -> str:
        return self.name or f"drive-{uuid.uuid4().hex[:12]}"


async def _check_fresh(client: AsyncClient, environment: Environment) -> None:
    from driftrank.client import NotFound

    async def lists(query: str) -> int:
        try:
            return (await client.query(query)).lists
        except NotFound:
            return 0

    for query, n in zip(environment.names, await _all(map(lists, environment.names)), strict=True):
        if n:
            raise ValueError(
                f"check: the query {query!r} was asked {n} times before; reset the ranker, or have it begin anew"
            )


async def _all(calls: Iterator[Awaitable[T]]) -> list[T]:
    """The results, a few calls at a time."""
    room = asyncio.Semaphore(32)

    async def one(call: Awaitable[T]) -> T:
        async with room:
            return await call

    return list(await asyncio.gather(*map(one, calls)))


@contextmanager
def _asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, and a polite request to end, are passed on; the second time there is no waiting."""
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
