"""What an environment is: queries, users, and how what attracts them changes.

The one kernel of an environment is ``world(p, base, key, t, alpha)``: fill in the attraction of every item at step t,
and return the first later step at which it may be different. ``base`` is the query's default attraction (or what the
method ``given`` says instead), ``key`` the world's randomness in this run. Steps may be asked for in any order, so that
nothing can be kept from one call to the next.

Where items come and go (``churns``), a second kernel ``live(p, base, key, t, there)`` says of every item at step t
whether it is absent (0, its attraction being 0), there (1), or there and announced as new at this very step (2).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import CM, ClickModel
from driftrank.environments.steps import segments, unroll
from driftrank.kernels import kernel
from driftrank.kernels.compile import bind, specialise
from driftrank.kernels.rng import run_keys, world_keys
from driftrank.kernels.tuples import parameter_reader, parameter_row
from driftrank.queries import Queries
from driftrank.validation import check_integer, nearest

#: a step that never comes
NEVER = 2**62


@kernel
def _all_there(p, base, key, t, there):
    for a in range(base.shape[0]):
        there[a] = 1


@dataclass_transform(frozen_default=True, kw_only_default=False)
@dataclasses.dataclass(frozen=True)
class Environment:
    """Queries whose users may change. Subclasses become frozen dataclasses by themselves."""

    #: what a policy may claim to cope with
    kind: ClassVar[str] = "stationary"
    world: ClassVar[Any]
    #: whether items come and go
    churns: ClassVar[bool] = False
    live: ClassVar[Any] = staticmethod(_all_there)
    #: words that a parameter may be; kernels see their places
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    queries: ClassVar[Queries]  #: a field, or set when it is made
    k: ClassVar[int]  #: positions; likewise
    #: how users click; where it is not said, as the queries say, or else by the cascade model
    click_model: ClickModel | None = dataclasses.field(default=None, kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True)(cls)

    def parameters(self) -> dict[str, float]:
        """The numbers that the kernel sees."""
        numbers: dict[str, float] = {"k": self.k}
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.name in self.choices:
                value = self.choices[f.name].index(value)
            if isinstance(value, (int, float)):
                numbers[f.name] = value
        return numbers

    @property
    def names(self) -> list[str]:
        return list(self.queries)

    @cached_property
    def program(self) -> World:
        return World(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "program"}  # compiled code stays here

    def attraction(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> NDArray[np.float64]:
        """The attraction of every item of a query at step t of a run."""
        check_integer("t", t, 1)
        alpha: NDArray[np.float64] = self._segments(t, t, query, run, seed)[1][0]
        return alpha

    def breakpoints(self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The steps t < horizon after which the attraction changes."""
        check_integer("horizon", horizon, 1)
        starts, alphas, *_ = self._segments(1, horizon, query, run, seed)
        return [int(starts[i]) - 1 for i in range(1, len(starts)) if (alphas[i] != alphas[i - 1]).any()]

    def variation(self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> float:
        r"""How much changes in all: :math:`V_n = \sum_{t<n} \max_a |\alpha_{t+1}(a) - \alpha_t(a)|`."""
        alphas = self.stretches(horizon, query, run, seed)[1]
        return float(np.abs(np.diff(alphas, axis=0)).max(axis=1).sum())

    def present(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The items that can be shown at step t."""
        check_integer("t", t, 1)
        there = self._segments(t, t, query, run, seed)[4][0]
        return [int(a) for a in np.flatnonzero(there)] if self.churns else list(range(len(self._base(query)[1])))

    def features(self, query: str | int = 0) -> NDArray[np.float64] | None:
        """What describes the items of a query, a row each; None where nothing does."""
        return None

    def users(self, query: str | int = 0) -> ClickModel:
        """How the users of a query click."""
        return self.click_model or self.queries.models.get(self._base(query)[0]) or CM()

    def given(self, query: str | int = 0) -> NDArray[np.float64]:
        """What the kernels get as ``base``: the default attraction of a query, or rows about its items."""
        return self._base(query)[1]

    def optimal_value(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> float:
        """The expected reward of the best list at step t."""
        check_integer("t", t, 1)
        return float(self._segments(t, t, query, run, seed)[2][0])

    def best(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The best list at step t, as indices."""
        check_integer("t", t, 1)
        return [int(a) for a in self._segments(t, t, query, run, seed)[3][0]]

    def stretches(
        self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """First step, attraction and optimal value of every stretch without change."""
        check_integer("horizon", horizon, 1)
        return self._segments(1, horizon, query, run, seed)[:3]

    def _base(self, query: str | int) -> tuple[str, NDArray[np.float64]]:
        """A query's name and its default attraction."""
        if not isinstance(query, str):
            check_integer("query", query, 0, len(self.queries) - 1)
        name = query if isinstance(query, str) else self.names[query]
        if name not in self.queries.attraction:
            raise ValueError(f"query={name!r}: not among this environment's queries{nearest(name, self.queries)}")
        return name, self.queries[name]

    def _segments(self, first: int, last: int, query: str | int, run: int, seed: int) -> tuple[Any, ...]:
        name, _ = self._base(query)
        parts: list[tuple[Any, ...]] = []
        chunk = self.program.chunk(name, run_keys(seed, name, [run]))
        while first <= last:
            first = chunk.advance(first, last) + 1
            n, room = chunk.count[0], chunk.starts.shape[1]
            columns = (chunk.alphas, chunk.best, chunk.live)
            alphas, best, live = (column[0].reshape(room, -1)[:n].copy() for column in columns)
            parts.append((chunk.starts[0, :n].copy(), alphas, chunk.optimal[0, :n].copy(), best, live))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


class QueryEnvironment(Environment):
    """An environment made of given queries."""

    abstract: ClassVar[bool] = True

    queries: Any  # type: ignore[misc]  #: :class:`~driftrank.queries.Queries`, or anything ``Queries.of`` takes
    k: int = 3  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", Queries.of(self.queries))
        check_integer("k", self.k, 1)
        for name, alpha in self.queries.attraction.items():
            if self.k > len(alpha):
                raise ValueError(
                    f"k={self.k!r}: must be an integer from 1 to the number of items, {len(alpha)} in query {name!r}"
                )
            try:
                self.users(name).row(len(alpha), self.k)
            except ValueError as error:
                raise ValueError(f"query {name!r}: {error}") from None


class World:
    """An environment's kernel, compiled."""

    def __init__(self, environment: Environment) -> None:
        parameters = environment.parameters()
        self.environment = environment
        self.row = parameter_row(parameters)
        # one kernel for all queries, whose users differ in numbers only
        names = {
            "WORLD": type(environment).world,
            "OPTIMUM": environment.users().kernels().optimum,
            "CHURNS": environment.churns,
            "LIVE": type(environment).live,
        }
        self.bindings = {"PARAMETERS": parameter_reader(parameters), "UNROLL": bind(unroll, names)}
        self.segments = specialise(segments, self.bindings)

    def chunk(self, query: str, keys: NDArray[np.uint64]) -> Chunk:
        return Chunk(self, self.environment.given(query), self.environment.users(query), keys)


class Chunk:
    """Stretches of constant attraction, a bounded number at a time, of several runs of a query."""

    ROOM = 1 << 21  # numbers held at a time

    def __init__(self, world: World, base: NDArray[np.float64], users: ClickModel, keys: NDArray[np.uint64]) -> None:
        self.world = world
        self.base = base
        self.keys = world_keys(keys)
        runs, L, K = len(keys), len(base), world.environment.k
        self.model = users.row(L, K)
        self.work = np.zeros(users.room(L, K))
        room = max(1, min(4096, self.ROOM // (max(runs, 1) * L)))
        self.count = np.zeros(runs, np.int64)
        self.starts = np.zeros((runs, room), np.int64)
        self.alphas = np.zeros((runs, room * L))  # one stretch after the other
        self.optimal = np.zeros((runs, room))
        self.best = np.zeros((runs, room * K), np.int32)
        # which items are there; empty where all always are
        self.live = np.zeros((runs, room * L if world.environment.churns else 0), np.int8)
        self._ends = np.zeros((runs, room), np.int64)
        self._until = np.zeros(runs, np.int64)  # when each run changes next

    def advance(self, first: int, last: int) -> int:
        """Fill in the stretches from step ``first``; returns the step up to which they reach, at most ``last``."""
        world = self.world
        return int(
            world.segments(
                world.row, self.model, self.base, self.keys, first, last,
                self._until, self.count, self.starts, self._ends, self.alphas, self.optimal, self.best,
                self.live, self.work,
            )
        )  # fmt: skip
