"""The users of a simulation, for lists made elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftrank.engine.templates import meet
from driftrank.environments.base import Environment
from driftrank.kernels.compile import specialise
from driftrank.kernels.rng import run_keys
from driftrank.validation import check_integer

#: most steps computed ahead
_AHEAD = 100_000


class Users:
    """The users of one run of a query, step by step: the same as in a simulation, by the same compiled code.

    >>> from driftrank.environments import Stationary
    >>> users = Users(Stationary([[0.9, 0.5, 0.1]], k=2))
    >>> users.go_to(1)
    >>> value, clicks = users.meet([2, 0])
    >>> round(value, 2), round(users.optimal, 2), users.best
    (0.91, 0.95, [0, 1])
    """

    def __init__(self, environment: Environment, query: str | int = 0, run: int = 0, seed: int = 0) -> None:
        name, base = environment.lookup(query)
        model = environment.users(name).kernels()  # one kernel for all queries: models differ only in numbers
        self.k = environment.k
        self._meet = specialise(meet, {"CLICK": model.click, "VALUE": model.value})
        keys = run_keys(seed, name, [run])
        self._key = keys[0]
        self._chunk = environment.program.chunk(name, keys)
        self._L, self._churns = len(base), environment.churns
        self._items = np.zeros(self.k, np.uint32)
        self._clicks = np.zeros(self.k, np.int8)
        self._reach = self._t = 0
        self._segment = -1

    def go_to(self, t: int) -> None:
        """Move on to the user of step ``t``, which must be later than the last."""
        check_integer("t", t, self._t + 1)
        chunk, self._t = self._chunk, t
        while t > self._reach:  # segments without a user are skipped one by one
            self._reach = chunk.advance(self._reach + 1, self._reach + _AHEAD)
            self._segment = 0
        while self._segment + 1 < chunk.count[0] and chunk.starts[0, self._segment + 1] <= t:
            self._segment += 1

    @property
    def optimal(self) -> float:
        """The value of the best list."""
        return float(self._chunk.optimal[0, self._segment])

    @property
    def best(self) -> list[int]:
        """The best list."""
        return [int(a) for a in self._chunk.best[0, self._segment * self.k :][: self.k]]

    @property
    def present(self) -> list[int]:
        """The items that can be shown."""
        if not self._churns:
            return list(range(self._L))
        return [int(a) for a in np.flatnonzero(self._chunk.live[0, self._segment * self._L :][: self._L])]

    @property
    def announced(self) -> list[int]:
        """The items that are announced as new at this step."""
        if not self._churns or self._chunk.starts[0, self._segment] != self._t or self._t == 1:
            return []
        return [int(a) for a in np.flatnonzero(self._chunk.live[0, self._segment * self._L :][: self._L] == 2)]

    def meet(self, ranking: Sequence[int]) -> tuple[float, list[int]]:
        """The value of a list, and the positions (from 1) that this user clicks. Several lists may be shown."""
        if len(ranking) != self.k or len(set(ranking)) != self.k or not set(ranking) <= set(range(self._L)):
            raise ValueError(f"ranking={list(ranking)!r}: must be {self.k} different items, from 0 to {self._L - 1}")
        chunk, at = self._chunk, self._segment * self._L
        self._items[:] = ranking
        alpha = chunk.alphas[0, at : at + self._L]
        value = self._meet(chunk.model, alpha, self._key, self._t, self._items, self._clicks, chunk.work)
        return float(value), [int(n) + 1 for n in np.flatnonzero(self._clicks)]
