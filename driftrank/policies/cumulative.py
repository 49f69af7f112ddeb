"""Forget nothing: the statistics of policies for a world that does not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field
from driftrank.policies.base import IndexPolicy, provide
from driftrank.policies.counts import PER_ITEM, Counts


class Cumulative(IndexPolicy):
    """Policies whose index looks at all observations N and clicks X so far.

    A subclass writes ``index``, and ``refresh(p, s, a)``: the counts of item ``a`` have changed; keep what the index
    needs of them.
    """

    abstract: ClassVar[bool] = True
    #: what is counted
    counts: ClassVar[Counts] = PER_ITEM

    refresh: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "refresh"):
            provide(cls, "init", _init_by(cls.refresh))
            provide(cls, "update", _update_by(cls.refresh, cls.counts))
            provide(cls, "forget", _forget_by(cls.refresh, cls.counts))

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {**self.counts.fields, **self.item_fields()}

    def item_fields(self) -> dict[str, Field]:
        """What a subclass keeps of every item."""
        return {}


def _init_by(refresh: Any) -> Any:
    @kernel
    def init(p, s, e, c):
        for a in range(p.L):
            refresh(p, s, a)

    return init


def _update_by(refresh: Any, counts: Counts) -> Any:
    add = counts.add

    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = np.int64(r.items[i])
            add(p, s, a, i, clicks[i], 1.0)
            refresh(p, s, a)

    return update


def _forget_by(refresh: Any, counts: Counts) -> Any:
    clear = counts.clear

    @kernel
    def forget(p, s, e, a):
        clear(p, s, a)
        refresh(p, s, a)

    return forget
