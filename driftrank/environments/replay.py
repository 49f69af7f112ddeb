"""Replay: changes found in a click log."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import NEVER, QueryEnvironment
from driftrank.kernels import kernel
from driftrank.validation import check_number


class Replay(QueryEnvironment):
    """Queries change as they did in a log: each at its own steps, to the attraction estimated there.

    The changes are part of the queries (:attr:`~driftrank.queries.Queries.changes`): ``driftrank fit --drift`` writes
    them, :func:`driftrank.logs.environment` finds them. A step is a list that was shown for the query; nothing changes
    after the last change. A query without changes never changes.

    Parameters
    ----------
    speed
        Speed relative to the log: 2 halves every segment.

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
        """A row for every item that alternates the last step of a segment and the attraction up to it."""
        name, base = self.lookup(query)
        segments: list[NDArray[np.float64]] = []
        alpha = base
        for step, changed in self.queries.changes.get(name, ()):
            segments += [np.full(len(base), max(1.0, np.floor(step / self.speed))), alpha]
            alpha = np.array(changed)
        return np.column_stack([*segments, np.full(len(base), float(NEVER)), alpha])

    @staticmethod
    @kernel
    def world(p, base, key, t, alpha):
        i = 0
        while base[0, i] < t:
            i += 2
        for a in range(base.shape[0]):
            alpha[a] = base[a, i + 1]
        return np.int64(base[0, i]) + 1
