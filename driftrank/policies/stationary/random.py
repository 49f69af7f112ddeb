"""Random: lists drawn uniformly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field
from driftrank.kernels.rng import derive, uniform
from driftrank.policies.index_policy import IndexPolicy


class Random(IndexPolicy):
    """A uniformly random list at every step: the baseline of every policy.

    Examples
    --------
    >>> import driftrank as dr
    >>> sorted(dr.Random().start(items=["a", "b"], k=2).rank())
    ['a', 'b']
    """

    claims: ClassVar[tuple[str, ...]] = ()
    costly: ClassVar[bool] = True

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {}

    @staticmethod
    @kernel
    def index(p, s, e, c, a, q):
        return uniform(derive(e.key, c.token[a]))

    @staticmethod
    @kernel
    def update(p, s, e, r, clicks, observed):
        pass

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        pass
