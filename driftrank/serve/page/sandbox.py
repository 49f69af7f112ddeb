"""Simulated users for ``driftrank demo``: one query whose users change their minds when somebody presses a button."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.wire import Clicked, Feedback, RankerSettings, RankRequest

_log = logging.getLogger("driftrank.serve")
RANKER, QUERY = "sandbox", "breakfast"
ITEMS = ("porridge", "toast", "eggs", "muesli", "pancakes", "fruit salad", "croissant", "yoghurt")
#: the probability that a user who sees an item clicks it, from the most popular one down
_ATTRACTION = (0.38, 0.30, 0.24, 0.09, 0.07, 0.05, 0.04, 0.03)
#: the probability that a user who has not clicked reads on: from users who always do, the default policy, which has to
#: learn that, overestimates low positions
_GOING_ON = 0.9
_K = 3
#: mean seconds from a list to its feedback
_DELAY = 0.3
#: seconds whose counts are kept
KEPT = 120


class Second(NamedTuple):
    """The lists that were ranked in a second, without those in the fixed order."""

    second: int
    lists: int
    clicks: int
    best: float  #: clicks per list of the best order at the end of that second
    fixed: float  #: and of the fixed order


class Sandbox:
    """Users who read from the top, and leave with their first click, or before it."""

    def __init__(self, *, rate: float = 50.0, seed: int = 0) -> None:
        self._rate = rate
        self._random = random.Random(seed)
        self.seconds: deque[Second] = deque(maxlen=KEPT)
        self.changed: deque[float] = deque(maxlen=20)  #: when users changed their minds
        self._change = False
        self._attraction = self._new_taste(())

    @property
    def settings(self) -> RankerSettings:
        """Of its ranker."""
        return RankerSettings(k=_K, holdout=0.1, wait="1m", planned=10_000)

    @property
    def taste(self) -> list[tuple[str, float]]:
        """The items with the probability of a click on each that is seen, the most popular first."""
        return sorted(self._attraction.items(), key=lambda pair: -pair[1])

    @property
    def best(self) -> float:
        """Clicks per list of the best order."""
        return _clicks_per_list(p for _, p in self.taste[:_K])

    @property
    def fixed(self) -> float:
        """Clicks per list of the order in which the items are offered."""
        return _clicks_per_list(self._attraction[item] for item in ITEMS[:_K])

    def change_minds(self) -> None:
        """Users like other items from the next list on."""
        self._change = True

    def _new_taste(self, before: Sequence[str]) -> dict[str, float]:
        """Other favourites than ``before``, which come last: a change should be noticed."""
        others = [item for item in ITEMS if item not in before]
        self._random.shuffle(others)
        return dict(zip([*others, *before], _ATTRACTION, strict=True))

    async def run(self, service: Service) -> None:
        """Users come until this is cancelled."""
        await service.put_ranker(RANKER, self.settings, by="demo")
        loop = asyncio.get_running_loop()
        at, waiting = loop.time(), set[asyncio.Task[None]]()
        while True:
            at = max(at + self._random.expovariate(self._rate), loop.time() - 1)
            await asyncio.sleep(max(0.0, at - loop.time()))
            if self._change:
                self._change = False
                self._attraction = self._new_taste([item for item, _ in self.taste[:_K]])
                self.changed.append(service.now())
            task = asyncio.create_task(self._user(service))
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    async def _user(self, service: Service) -> None:
        try:
            (ranking,) = await service.rank(RANKER, [RankRequest(QUERY, list(ITEMS))])
            clicks: list[str | int | Clicked] = []
            for item in ranking.items:
                if self._random.random() < self._attraction[str(item.id)]:
                    clicks = [Clicked(position=item.position)]
                    break
                if self._random.random() >= _GOING_ON:
                    break
            await asyncio.sleep(self._random.expovariate(1 / _DELAY))
            if all(item.why == "baseline" for item in ranking.items):
                self._count(service.now(), 0, 0)
            else:
                self._count(service.now(), 1, len(clicks))
            await service.feedback(RANKER, [Feedback(ranking.event_id, clicks)])
        except Refused as problem:  # the service stops, or somebody has deleted the ranker
            _log.debug("a simulated user was refused: %s", problem)

    def _count(self, now: float, lists: int, clicks: int) -> None:
        second = int(now)
        if not self.seconds or self.seconds[-1].second < second:
            self.seconds.append(Second(second, 0, 0, self.best, self.fixed))
        last = self.seconds[-1]
        self.seconds[-1] = Second(last.second, last.lists + lists, last.clicks + clicks, self.best, self.fixed)


def _clicks_per_list(attraction: Iterable[float]) -> float:
    """The probability of a click on a list of items with this attraction, from the top."""
    out, reading = 0.0, 1.0
    for p in attraction:
        out += reading * p
        reading *= (1 - p) * _GOING_ON
    return out
