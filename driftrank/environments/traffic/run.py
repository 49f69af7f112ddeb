"""One run of Traffic, list by list: for tests, and for lists that are made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ClickModel
from driftrank.environments.traffic import templates
from driftrank.environments.traffic.world import new_world
from driftrank.kernels.compile import specialise
from driftrank.kernels.layout import parameter_reader, parameter_row
from driftrank.kernels.rng import policy_key, run_keys, users_key, world_keys
from driftrank.validation import check_integer

if TYPE_CHECKING:
    from driftrank.environments.traffic.traffic import Traffic


class TrafficKernels:
    """The compiled kernels of Traffic with given parameters."""

    def __init__(self, environment: Traffic) -> None:
        parameters = environment.parameters()
        self.row = parameter_row(parameters)
        self.read = parameter_reader(parameters)
        bindings = {"PARAMETERS": self.read}
        self.begin, self.advance, self.order, self.count = (
            specialise(template, bindings)
            for template in (templates.begin, templates.advance, templates.order, templates.count)
        )

    @cached_property
    def parameters(self) -> Any:
        """The parameters by name."""
        return self.read(self.row)


@dataclass(frozen=True, eq=False)
class TrafficList:
    """One list of Traffic: its query, its candidates by slot, and its user."""

    query: int
    items: NDArray[np.int64]
    attraction: NDArray[np.float64]
    k: int  #: the length of the list
    key: int  #: of the user
    users: ClickModel
    model: NDArray[np.float64]
    work: NDArray[np.float64]

    @cached_property
    def best(self) -> list[int]:
        """The best list, as slots."""
        best = np.zeros(self.k, np.int32)
        self.users.kernels().optimum(self.model, self.attraction, best, self.work)
        return [int(a) for a in best]

    @property
    def optimal(self) -> float:
        """The value of the best list."""
        return self.value(self.best)

    def value(self, ranking: Sequence[int]) -> float:
        """The value of a list of slots."""
        return float(self.users.kernels().value(self.model, self.attraction, self._slots(ranking), self.work))

    def clicks(self, ranking: Sequence[int]) -> list[int]:
        """The click vector of the user on a list of slots."""
        clicks = np.zeros(len(ranking), np.int8)
        self.users.kernels().click(self.model, self.attraction, np.uint64(self.key), self._slots(ranking), clicks)
        return [int(c) for c in clicks]

    def meet(self, ranking: Sequence[int]) -> tuple[float, list[int]]:
        """The value of a list, and the positions (from 1) that the user clicks."""
        return self.value(ranking), [n for n, clicked in enumerate(self.clicks(ranking), 1) if clicked]

    def _slots(self, ranking: Sequence[int]) -> NDArray[np.uint32]:
        L = len(self.items)
        if len(ranking) > self.k or len(set(ranking)) < len(ranking) or not set(ranking) <= set(range(L)):
            raise ValueError(f"ranking={list(ranking)!r}: must be at most {self.k} different slots, from 0 to {L - 1}")
        return np.array(ranking, np.uint32)


class TrafficRun:
    """The lists of one run of Traffic: the same queries, candidates and users as in a simulation.

    >>> from driftrank.environments import Traffic
    >>> run = Traffic(n_queries=50, candidates=6, K=2, catalogue=30).run(seed=1)
    >>> run.go_to(1)
    >>> len(run.items), run.optimal >= run.baseline
    (6, True)
    """

    def __init__(self, environment: Traffic, run: int = 0, seed: int = 0) -> None:
        self.environment = environment
        self.program = environment.program
        self.world = new_world(self.program.parameters, environment.stream)
        keys = run_keys(seed, environment.names[0], [run])
        self.key, self.world_key = keys[0], world_keys(keys)[0]
        self.program.begin(self.program.row, self.world, self.world_key)
        users, sizes = environment.users(), (environment.candidates, environment.k)
        self._users, self._model, self._work = users, users.row(*sizes), np.zeros(users.work_size(*sizes))
        self.list = 0  #: the present list
        self.query = 0  #: its query

    def go_to(self, i: int, query: int | None = None) -> None:
        """Move on to list ``i``; optionally as though it were of another query."""
        check_integer("i", i, max(1, self.list))
        self.list = i
        self.__dict__.pop("asked", None)
        asked = -1 if query is None else query
        self.query = int(self.program.advance(self.program.row, self.world, self.world_key, i, asked))

    def counts(self, lists: int) -> NDArray[np.int64]:
        """The number of lists of every query among the first ``lists``."""
        out = np.zeros(self.environment.n_queries, np.int64)
        self.program.count(self.world, self.world_key, lists, out)
        return out

    @property
    def items(self) -> NDArray[np.int64]:
        """The items by slot, as numbers that no other item has."""
        return self.world.token[self._pairs]

    @property
    def new(self) -> NDArray[np.int64]:
        """The slots whose item was replaced since the last list of this query."""
        return np.flatnonzero(self.world.fresh == 2)

    @property
    def attraction(self) -> NDArray[np.float64]:
        """The attraction by slot."""
        return self.world.alpha[self._pairs]

    @property
    def features(self) -> NDArray[np.float64]:
        """The features of the items, a row for every slot."""
        return self.world.dense.reshape(-1, self.environment.d)[self.world.place[self._pairs]]

    @property
    def topics(self) -> NDArray[np.uint64]:
        """The topic of the query, if there are any."""
        return self.world.topic[self.query : self.query + min(1, self.environment.topics)]

    def call(self) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        """The caller's order: the slots in this order, and the place of every slot, from 1 (0: no order)."""
        n = self.size
        slots, place = np.zeros(n, np.uint32), np.zeros(n)
        self.program.order(self.program.row, self.world, self.world_key, self.list, self.query, slots, place)
        return slots, place

    @property
    def size(self) -> int:
        """The number of candidates."""
        return int(self.environment.sizes[self.query])

    @property
    def k(self) -> int:
        """The length of the list."""
        return min(self.environment.k, self.size)

    @cached_property
    def asked(self) -> TrafficList:
        """The present list, which stays as it is when the run moves on."""
        key = users_key(int(self.key), self.list)
        return TrafficList(
            self.query, self.items.copy(), self.attraction.copy(), self.k, key, self._users, self._model, self._work
        )

    @property
    def best(self) -> list[int]:
        """The best list, as slots."""
        return self.asked.best

    @property
    def optimal(self) -> float:
        """The value of the best list."""
        return self.asked.optimal

    @property
    def baseline(self) -> float:
        """The value of the caller's list."""
        return self.value(self.call()[0][: self.k].tolist())

    def value(self, ranking: Sequence[int]) -> float:
        """The value of a list of slots."""
        return self.asked.value(ranking)

    def clicks(self, ranking: Sequence[int]) -> list[int]:
        """The click vector of the present user on a list of slots."""
        return self.asked.clicks(ranking)

    @property
    def policy_key(self) -> int:
        """The key of a policy's randomness at this list."""
        return policy_key(int(self.key), self.list)

    @property
    def _pairs(self) -> slice:
        begins = self.world.begins
        return slice(int(begins[self.query]), int(begins[self.query + 1]))
