"""The cells in which the rows of a log are added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.evaluation.sequences import BUCKETS

#: parts of the users, by the parity of their bucket: what a model says of one comes from the other
FOLDS = 2


@dataclass(frozen=True)
class Cells:
    """The cells in which rows are added up: since the last change of the query or before, window, bucket."""

    windows: int
    buckets: int = BUCKETS

    @property
    def shape(self) -> tuple[int, int, int]:
        return 2, self.windows, self.buckets

    @property
    def count(self) -> int:
        return 2 * self.windows * self.buckets

    def number(self, now: NDArray[Any], window: NDArray[Any], bucket: NDArray[Any]) -> NDArray[np.int64]:
        """The numbers of cells."""
        cell: NDArray[np.int64] = (now.astype(np.int64) * self.windows + window) * self.buckets + bucket
        return cell
