"""SDBN: the simplified dynamic Bayesian network model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.base import ITEM
from driftrank.clickmodels.dbn import DBN


class SDBN(DBN):
    r"""The simplified dynamic Bayesian network: :class:`DBN` in which only satisfied users leave,
    :math:`\gamma = 1` (Chapelle and Zhang, 2009).

    Every item above the last click has been read, which makes it easy to fit. Objectives: ``"sat"``, best with the
    items of largest :math:`\alpha s`, in any order; ``"any"``, as in the cascade model; ``"clicks"``, by a dynamic
    program, items that satisfy less first.

    Parameters
    ----------
    satisfaction
        s of every item.

    >>> SDBN(satisfaction=(0.9, 0.1, 0.5)).best([0.5, 0.9, 0.6], 2)
    [0, 2]
    """

    shape: ClassVar[Mapping[str, str]] = {"satisfaction": ITEM}
    continuation: ClassVar[float] = 1.0  # type: ignore[misc]

    def row(self, L: int, K: int) -> NDArray[np.float64]:
        return np.append(1.0, super().row(L, K))
