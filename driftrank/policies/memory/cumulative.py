"""Forget nothing: the counts of policies for stationary users."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.policies.memory.counts import CountingPolicy, forget_counts, refresh_all
from driftrank.policies.policy_kernels import PolicyKernels


class Cumulative(CountingPolicy):
    """Policies whose index uses all observations N and clicks X so far.

    A subclass writes ``index``, and ``refresh(p, s, a)`` if the index needs more than the counts: it is called when
    those of item ``a`` have changed.
    """

    abstract: ClassVar[bool] = True

    def kernels(self) -> PolicyKernels:
        own = super().kernels()
        return own._replace(
            init=own.init or refresh_all(self.refresh),
            update=own.update or _update_by(self.refresh, self.counts.add),
            forget=own.forget or forget_counts(self.refresh, self.counts.clear),
        )


@cache
def _update_by(refresh: Any, add: Any) -> Any:
    @kernel
    def update(p, s, e, r, clicks, observed):
        for i in range(observed):
            a = np.int64(r.items[i])
            add(p, s, a, i, clicks[i], 1.0)
            refresh(p, s, a)

    return update
