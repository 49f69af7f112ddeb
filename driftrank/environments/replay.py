"""Replay: the changes that were found in a click log."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import NEVER, QueryEnvironment
from driftrank.kernels import kernel
from driftrank.validation import check_number


class Replay(QueryEnvironment):
    """Queries change as they did in a log: each at its own steps, to the attraction that was estimated there.

    The queries say how (:attr:`~driftrank.queries.Queries.changes`): those that ``driftrank fit --drift`` writes, or
    :func:`driftrank.logs.environment` finds. A step is a list that was shown for the query; after the last change
    everything stays as it is. A query without changes never changes.

    Parameters
    ----------
    speed
        How much faster than in the log: 2 halves every stretch.

    >>> from driftrank.queries import Queries
    >>> queries = Queries({"q": np.array([0.5, 0.1])}, changes={"q": ((1000, (0.2, 0.1)), (3000, (0.2, 0.7)))})
    >>> Replay(queries, k=1).breakpoints(5000), Replay(queries, k=1, speed=10).best(400)
    ([1000, 3000], [1])
    """

    kind: ClassVar[str] = "abrupt"

    speed: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("speed", self.speed, 0, open_low=True)

    def given(self, query: str | int = 0) -> NDArray[np.float64]:
        """A row for every item: the steps after which something changes, and its attraction up to there, in turn."""
        name, base = self._base(query)
        stretches: list[NDArray[np.float64]] = []
        alpha = base
        for step, changed in self.queries.changes.get(name, ()):
            stretches += [np.full(len(base), max(1.0, np.floor(step / self.speed))), alpha]
            alpha = np.array(changed)
        return np.column_stack([*stretches, np.full(len(base), float(NEVER)), alpha])

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        i = 0
        while base[0, i] < t:
            i += 2
        for a in range(base.shape[0]):
            alpha[a] = base[a, i + 1]
        return np.int64(base[0, i]) + 1
