"""The requests of a drive: users of every query one after another, and their feedback, sooner or later."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from driftrank.drive.asked_lists import AskedList, lists_of_query, lists_of_traffic
from driftrank.drive.simulation_check import policy_of
from driftrank.environments.base import Environment
from driftrank.environments.traffic.traffic import Traffic
from driftrank.kernels.rng import key_of
from driftrank.progress import Progress
from driftrank.validation import check_number
from driftrank.wire import Clicked, Feedback, RankRequest

if TYPE_CHECKING:
    from driftrank.client import AsyncClient
    from driftrank.drive.drive import Drive
    from driftrank.drive.result import DriveResult

A = TypeVar("A")
B = TypeVar("B")


#: the longest query that is part of an event id
_LONG = 100


@dataclass(frozen=True)
class FeedbackFaults:
    """Delays and losses of feedback."""

    delay: float = 0.0  #: mean seconds until it is sent, exponentially distributed
    drop: float = 0.0  #: the share that is never sent
    duplicate: float = 0.0  #: the share that is sent twice

    def check(self, rate: float) -> None:
        check_number("rate", rate, 0.0)
        check_number("delay", self.delay, 0.0)
        check_number("drop", self.drop, 0.0, 1.0)
        check_number("duplicate", self.duplicate, 0.0, 1.0)

    @property
    def none(self) -> bool:
        return not (self.delay or self.drop or self.duplicate)

    def delays(self, seed: int, query: str, t: int) -> list[float]:
        """The delay in seconds of every copy of a feedback; a function of the seed, query and step.

        >>> FeedbackFaults(duplicate=1.0).delays(0, "q", 1), FeedbackFaults(drop=1.0).delays(0, "q", 1)
        ([0.0, 0.0], [])
        """
        if self.none:
            return [0.0]
        draw = random.Random(f"{seed}/{query}/{t}")
        dropped, duplicated = draw.random() < self.drop, draw.random() < self.duplicate
        copies = 0 if dropped else 2 if duplicated else 1
        return [draw.expovariate(1.0 / self.delay) if self.delay else 0.0 for _ in range(copies)]


class Session:
    """All users of an environment at a service. The next list of a query waits for the feedback to its last one, unless
    feedback is delayed; with ``in_order`` every list of Traffic waits for that of all before."""

    def __init__(
        self,
        client: AsyncClient,
        drive: Drive,
        environment: Environment,
        result: DriveResult,
        bar: Progress,
        *,
        in_order: bool = False,
    ) -> None:
        self._in_order = in_order  # one list of Traffic after the other
        self._client, self._drive, self._environment = client, drive, environment
        self._result, self._bar = result, bar
        self._name = drive.event_name()
        assert result.settings is not None
        self._settings = result.settings
        self._k = None if environment.k == result.settings.k else environment.k
        self._connections = asyncio.Semaphore(drive.connections)
        self._next = 0.0  # when the next request may be sent
        self._stopped = asyncio.Event()
        self._rank = self._batched(client.rank_many, result.rank_seconds)
        self._feedback_many = self._batched(client.feedback_many, result.feedback_seconds)
        self._later: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """End after the pending requests."""
        self._result.stopped = True
        self._stopped.set()

    async def run(self) -> None:
        begin = time.perf_counter()
        environment, drive = self._environment, self._drive
        if isinstance(environment, Traffic):
            features = policy_of(self._settings).contextual
            lists = lists_of_traffic(environment, drive.steps, drive.seed, features=features)
            await self._guarded(self._one_by_one(lists) if self._in_order else self._at_once(lists))
        else:
            rows = range(len(environment.names))
            queries = (lists_of_query(environment, row, drive.steps, drive.seed) for row in rows)
            await asyncio.gather(*(self._guarded(self._one_by_one(lists)) for lists in queries))
        if self._later:
            await asyncio.wait(self._later)
        self._result.seconds = time.perf_counter() - begin

    async def _guarded(self, users: Awaitable[None]) -> None:
        """Keep the first error and stop; the results so far remain."""
        from driftrank.client import ServiceError

        try:
            await users
        except (ServiceError, ValueError) as error:
            self._result.error = self._result.error or error
            self._stopped.set()

    async def _one_by_one(self, lists: Iterator[AskedList]) -> None:
        for asked in lists:
            if self._stopped.is_set():
                return
            await self._show(asked)

    async def _at_once(self, lists: Iterator[AskedList]) -> None:
        """Lists of different queries at the same time, those of one query in their order."""
        free = asyncio.Semaphore(self._drive.connections * self._drive.batch)
        last: dict[str, asyncio.Task[None]] = {}

        async def after(before: asyncio.Task[None] | None, asked: AskedList) -> None:
            if before is not None:
                await before
            if not self._stopped.is_set():
                await self._show(asked)

        for asked in lists:
            await free.acquire()
            if self._stopped.is_set():
                break
            task = asyncio.create_task(self._guarded(after(last.get(asked.query), asked)))
            task.add_done_callback(lambda _: free.release())
            last[asked.query] = task
        await asyncio.gather(*last.values())

    async def _show(self, asked: AskedList) -> None:
        """Ask for a list, show it to its user, and send the feedback, now or later."""
        drive, result = self._drive, self._result
        request = rank_request(self._name, asked, self._k)
        answer = await self._rank(request)
        ranking = [asked.slots[item.id] for item in answer.items]
        value, clicks = asked.meet(ranking)
        references = [asked.meet(reference) for reference in asked.references]
        held = all(item.why == "baseline" for item in answer.items)
        result.put(asked, ranking, value, len(clicks), references, held=held)
        self._bar.advance("lists", 1)
        copies = drive.faults.delays(drive.seed, asked.query, asked.number)
        if not copies:
            result.outcomes["never sent"] += 1
        for delay in copies:
            if drive.faults.delay:
                task = asyncio.create_task(self._guarded(self._feedback(answer.event_id, clicks, delay)))
                self._later.add(task)
                task.add_done_callback(self._later.discard)
            else:
                await self._feedback(answer.event_id, clicks, 0.0)

    async def _feedback(self, event: str, clicks: list[int], delay: float) -> None:
        if delay:
            try:
                await asyncio.wait_for(self._stopped.wait(), delay)
            except TimeoutError:
                pass
            else:
                self._result.outcomes["never sent"] += 1
                return
        answer = await self._feedback_many(Feedback(event, [Clicked(position=click) for click in clicks]))
        self._result.outcomes[answer.outcome] += 1

    def _batched(self, call: Callable[[list[A]], Awaitable[list[B]]], seconds: list[float]) -> Batcher[A, B]:
        """Batch calls, within the limits on connections and rate, and record their durations."""

        async def timed(requests: list[A]) -> list[B]:
            async with self._connections:
                if self._drive.rate:
                    now = time.perf_counter()
                    self._next = max(self._next + len(requests) / self._drive.rate, now)
                    with suppress(TimeoutError):  # a stop does not wait for a slow rate
                        async with asyncio.timeout(self._next - now):
                            await self._stopped.wait()
                begin = time.perf_counter()
                answers = await call(requests)
                seconds.append(time.perf_counter() - begin)
                return answers

        return Batcher(timed, self._drive.batch)


class Batcher(Generic[A, B]):
    """Sends the requests that arrive during a call together in the next one, at most ``limit`` of them."""

    def __init__(self, call: Callable[[list[A]], Awaitable[list[B]]], limit: int) -> None:
        self._call, self._limit = call, limit
        self._waiting: list[tuple[A, asyncio.Future[B]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def __call__(self, request: A) -> B:
        if self._limit == 1:
            return (await self._call([request]))[0]
        future: asyncio.Future[B] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        return await future

    async def _send(self) -> None:
        while self._waiting:
            part, self._waiting = self._waiting[: self._limit], self._waiting[self._limit :]
            try:
                answers = await self._call([request for request, _ in part])
            except Exception as error:  # for every request of the batch
                for _, future in part:
                    future.set_exception(error)
            else:
                for (_, future), answer in zip(part, answers, strict=True):
                    future.set_result(answer)
            await asyncio.sleep(0)  # let callers add their next requests


def rank_request(name: str, asked: AskedList, k: int | None) -> RankRequest:
    """The request for a list. It takes the draw that a simulation takes, the number of the list of its query."""
    plain = len(asked.query) <= _LONG and asked.query.isprintable()  # ids have limits that queries of a log have not
    event = f"{name}:{asked.query if plain else f'{key_of(asked.query):016x}'}:{asked.number}"
    return RankRequest(asked.query, asked.items, k, event, items_unordered=not asked.ordered, draw=asked.number)
