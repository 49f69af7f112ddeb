"""The base class of environments: queries, users, and how their attraction changes.

An environment has one kernel, ``world``, and a second one, ``live``, if items come and go (``churns``); both as static
methods with the signatures of :class:`KernelSignatures`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import CM, ClickModel
from driftrank.clickmodels.registry import as_click_model
from driftrank.environments.templates import segments, unroll
from driftrank.kernels import kernel
from driftrank.kernels.compile import bind, check_kernels, specialise
from driftrank.kernels.layout import parameter_reader, parameter_row
from driftrank.kernels.rng import run_keys, world_keys
from driftrank.queries import Queries
from driftrank.validation import check_integer, nearest, on_instance

#: a step that is never reached
NEVER = 2**62


class KernelSignatures(Protocol):
    """The kernels of an environment. Steps may be requested in any order, so no state is kept between calls.

    ``p`` are the parameters (:meth:`Environment.parameters`), ``base`` is the default attraction of the query's items
    (or the rows of :meth:`Environment.given`), ``key`` the randomness of the world in this run, ``t`` the step, from 1.
    """

    @staticmethod
    def world(p: Any, base: NDArray[np.float64], key: int, t: int, alpha: NDArray[np.float64]) -> int:
        """Write the attraction of every item at step ``t`` to ``alpha``; return the next step when it may differ."""

    @staticmethod
    def live(p: Any, base: NDArray[np.float64], key: int, t: int, there: NDArray[np.int8]) -> None:
        """Write the state of every item at step ``t`` to ``there``.

        0: absent (with attraction 0), 1: present, 2: present and announced as new at this step.
        """


class Segments(NamedTuple):
    """Segments of constant attraction in one run, a row each."""

    starts: NDArray[np.int64]  #: first steps
    alphas: NDArray[np.float64]  #: attraction by item
    optimal: NDArray[np.float64]  #: the expected reward of the best list
    best: NDArray[np.int32]  #: the best list
    live: NDArray[np.int8]  #: by item, as the kernel ``live`` writes it; empty rows if no item comes or goes


@kernel
def _all_present(p, base, key, t, there):
    for a in range(base.shape[0]):
        there[a] = 1


@dataclass_transform(frozen_default=True, kw_only_default=False)
@dataclasses.dataclass(frozen=True)
class Environment:
    """Queries whose users may change. Subclasses become frozen dataclasses automatically."""

    abstract: ClassVar[bool] = True
    #: the kind of change, which a policy may claim to handle
    kind: ClassVar[str] = "stationary"
    world: ClassVar[Any]
    #: True if items come and go
    churns: ClassVar[bool] = False
    live: ClassVar[Any] = staticmethod(_all_present)
    #: True if a step is a list of one of many queries: every run is a unit, and GPUs cannot run it
    traffic: ClassVar[bool] = False
    #: measures beside those of all environments
    measures: ClassVar[tuple[str, ...]] = ()
    #: string options by parameter; kernels receive their indices
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    queries: ClassVar[Queries]  #: a field, or set by ``__post_init__``
    k: ClassVar[int]  #: positions; likewise
    #: the click model of all users (its class or its spec will do); None: those of the queries, or the cascade model
    click_model: ClickModel | None = dataclasses.field(default=None, kw_only=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        if self.click_model is not None:
            object.__setattr__(self, "click_model", as_click_model(self.click_model))

    def parameters(self) -> dict[str, float]:
        """The parameters of the kernels."""
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
    def program(self) -> CompiledEnvironment:
        return CompiledEnvironment(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "program"}  # compiled code is not pickled

    @on_instance("environment")
    def attraction(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> NDArray[np.float64]:
        """The attraction of every item of a query at step t of a run."""
        check_integer("t", t, 1)
        alpha: NDArray[np.float64] = self.unroll(t, t, query, run, seed).alphas[0]
        return alpha

    @on_instance("environment")
    def breakpoints(self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The steps t < horizon after which the attraction changes."""
        check_integer("horizon", horizon, 1)
        starts, alphas, *_ = self.unroll(1, horizon, query, run, seed)
        return [int(starts[i]) - 1 for i in range(1, len(starts)) if (alphas[i] != alphas[i - 1]).any()]

    @on_instance("environment")
    def variation(self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0) -> float:
        r"""The total variation :math:`V_n = \sum_{t<n} \max_a |\alpha_{t+1}(a) - \alpha_t(a)|`."""
        alphas = self.stretches(horizon, query, run, seed)[1]
        return float(np.abs(np.diff(alphas, axis=0)).max(axis=1).sum())

    @on_instance("environment")
    def present(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The items that can be shown at step t."""
        check_integer("t", t, 1)
        there = self.unroll(t, t, query, run, seed).live[0]
        return [int(a) for a in np.flatnonzero(there)] if self.churns else list(range(len(self.lookup(query)[1])))

    def features(self, query: str | int = 0) -> NDArray[np.float64] | None:
        """The features of a query's items, a row each, or None."""
        return None

    def feature_count(self, query: str | int = 0) -> int:
        """The number of an item's features, 0 if there are none."""
        given = self.features(query)
        return 0 if given is None else given.shape[1]

    @on_instance("environment")
    def users(self, query: str | int = 0) -> ClickModel:
        """The click model of a query."""
        return self.click_model or self.queries.models.get(self.lookup(query)[0]) or CM()

    def optimum(self) -> Any:
        """The kernel that finds the best list, as that of the click model: (m, alpha, best, work) -> its value."""
        return self.users().kernels().optimum

    def given(self, query: str | int = 0) -> NDArray[np.float64]:
        """The argument ``base`` of the kernels: the default attraction of a query, or a row for each of its items."""
        return self.lookup(query)[1]

    @on_instance("environment")
    def optimal_value(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> float:
        """The expected reward of the best list at step t."""
        check_integer("t", t, 1)
        return float(self.unroll(t, t, query, run, seed).optimal[0])

    @on_instance("environment")
    def best(self, t: int, query: str | int = 0, run: int = 0, seed: int = 0) -> list[int]:
        """The best list at step t, as indices."""
        check_integer("t", t, 1)
        return [int(a) for a in self.unroll(t, t, query, run, seed).best[0]]

    @on_instance("environment")
    def stretches(
        self, horizon: int, query: str | int = 0, run: int = 0, seed: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """First step, attraction and optimal value of every segment of constant attraction."""
        check_integer("horizon", horizon, 1)
        return self.unroll(1, horizon, query, run, seed)[:3]

    def lookup(self, query: str | int) -> tuple[str, NDArray[np.float64]]:
        """The name of a query, given by name or number, and its default attraction."""
        if not isinstance(query, str):
            check_integer("query", query, 0, len(self.queries) - 1)
        name = query if isinstance(query, str) else self.names[query]
        if name not in self.queries.attraction:
            raise ValueError(f"query={name!r}: not among this environment's queries{nearest(name, self.queries)}")
        return name, self.queries[name]

    def unroll(self, first: int, last: int, query: str | int, run: int, seed: int) -> Segments:
        """The segments from step ``first`` to ``last``; the first of them may begin earlier."""
        name, _ = self.lookup(query)
        parts: list[tuple[Any, ...]] = []
        chunk = self.program.chunk(name, run_keys(seed, name, [run]))
        while first <= last:
            first = chunk.advance(first, last) + 1
            n, space = chunk.count[0], chunk.starts.shape[1]
            columns = (chunk.alphas, chunk.best, chunk.live)
            alphas, best, live = (column[0].reshape(space, -1)[:n].copy() for column in columns)
            parts.append((chunk.starts[0, :n].copy(), alphas, chunk.optimal[0, :n].copy(), best, live))
        return Segments(*(np.concatenate(column) for column in zip(*parts, strict=True)))


class QueryEnvironment(Environment):
    """An environment that takes queries."""

    abstract: ClassVar[bool] = True

    queries: Any  # type: ignore[misc]  #: :class:`~driftrank.queries.Queries`, or anything ``Queries.of`` takes
    k: int = 3  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
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


class CompiledEnvironment:
    """The compiled kernels of an environment."""

    def __init__(self, environment: Environment) -> None:
        check_kernels(environment, {name: getattr(type(environment), name, None) for name in ("world", "live")})
        parameters = environment.parameters()
        self.environment = environment
        self.row = parameter_row(parameters)
        # one kernel for all queries: their click models differ only in numbers
        names = {
            "WORLD": type(environment).world,
            "OPTIMUM": environment.optimum(),
            "CHURNS": environment.churns,
            "LIVE": type(environment).live,
        }
        self.bindings = {"PARAMETERS": parameter_reader(parameters), "UNROLL": bind(unroll, names)}
        self.segments = specialise(segments, self.bindings)

    def chunk(self, query: str, keys: NDArray[np.uint64]) -> Chunk:
        return Chunk(self, self.environment.given(query), self.environment.users(query), keys)


class Chunk:
    """Segments of constant attraction of several runs of a query, a bounded number at a time."""

    NUMBERS = 1 << 21  # held at a time

    def __init__(
        self, world: CompiledEnvironment, base: NDArray[np.float64], users: ClickModel, keys: NDArray[np.uint64]
    ) -> None:
        self.world = world
        self.base = base
        self.keys = world_keys(keys)
        runs, L, K = len(keys), len(base), world.environment.k
        self.model = users.row(L, K)
        self.work = np.zeros(users.work_size(L, K))
        space = max(1, min(4096, self.NUMBERS // (max(runs, 1) * L)))
        self.count = np.zeros(runs, np.int64)
        self.starts = np.zeros((runs, space), np.int64)
        self.alphas = np.zeros((runs, space * L))  # one segment after the other
        self.optimal = np.zeros((runs, space))
        self.best = np.zeros((runs, space * K), np.int32)
        # the items that are present; empty if all always are
        self.live = np.zeros((runs, space * L if world.environment.churns else 0), np.int8)
        self._ends = np.zeros((runs, space), np.int64)
        self._until = np.zeros(runs, np.int64)  # the step of each run's next change

    def advance(self, first: int, last: int) -> int:
        """Fill in the segments from step ``first``; returns the last step that they cover, at most ``last``."""
        world = self.world
        covered = int(
            world.segments(
                world.row, self.model, self.base, self.keys, first, last,
                self._until, self.count, self.starts, self._ends, self.alphas, self.optimal, self.best,
                self.live, self.work,
            )
        )  # fmt: skip
        self._check()
        return covered

    def _check(self) -> None:
        """Refuse a kernel ``world`` that returns no later step, or an attraction outside [0, 1]."""
        n = int(self.count.max())
        name = type(self.world.environment).__name__
        hint = "driftrank.environments.checks.check_environment finds such mistakes"
        starts, ends = self.starts[:, :n], self._ends[:, :n]
        stuck = (ends <= starts) & (np.arange(n) < self.count[:, None])
        if stuck.any():
            step, until = int(starts[stuck][0]), int(ends[stuck][0])
            raise ValueError(f"{name}.world: step {step} returns {until}, must return a later step, an integer; {hint}")
        alphas = self.alphas[:, : n * len(self.base)]
        low, high = float(alphas.min()), float(alphas.max())
        if not (low >= 0 and high <= 1):
            raise ValueError(f"{name}.world: attraction from {low:g} to {high:g}, must be probabilities; {hint}")
