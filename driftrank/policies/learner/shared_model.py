"""A shared model: what all queries of a ranker have learnt, as a prior for each of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.structures import Described
from driftrank.policies.base import Policy, RankingProblem, check_policy
from driftrank.policies.learner import serialization, templates
from driftrank.policies.learner.click_vector import click_vector
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.ranked_items import RankedItems, described_at

#: the model does not depend on the problem
_ANY_PROBLEM = RankingProblem(1, 1)


class Prior(NamedTuple):
    """The prior Beta(A, B) of every described item, from a shared model."""

    counts: NDArray[np.float64]  #: A and B of the first item, then of the next
    going_on: float  #: the probability that a user goes on after an item without a click
    described: Described
    after_click: float = 0.0  #: the same after a click
    model: SharedModel | None = None  #: that it is from

    @property
    def A(self) -> NDArray[np.float64]:
        return self.counts[::2]

    @property
    def B(self) -> NDArray[np.float64]:
        return self.counts[1::2]

    @property
    def strength(self) -> NDArray[np.float64]:
        """The number of observations that each prior is worth."""
        return self.A + self.B

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean attraction of each item."""
        return self.A / self.strength

    def at(self, numbers: NDArray[np.intp]) -> Prior:
        """The prior of some of the items."""
        counts, described = self.counts.reshape(-1, 2)[numbers].ravel(), described_at(self.described, numbers)
        return self._replace(counts=counts, described=described)

    def because(self) -> list[dict[str, float]]:
        """By item, what each column of the model in use adds to the logit of its mean."""
        return [{} for _ in self.A] if self.model is None else self.model.contributions(self.described)


class SharedModel:
    """The shared state of a ranker: gives priors to the items of all queries, and learns from all their lists.

    It is a fold over the lists of a ranker, as a learner is over those of one query, and neither reads the other: a
    list carries what both need. ``policy.start(..., shared=model)`` makes a learner that uses it.

    >>> import driftrank as dr
    >>> model = SharedModel(dr.PriorRegimeTS(hash_bits=8))
    >>> for query in range(30):
    ...     learner = model.policy.start(["a", "b", "c"], k=3, query=str(query), shared=model)
    ...     learner.update(learner.rank(["c", "b", "a"]), clicks="b")
    >>> model.policy.start(["a", "b", "c"], k=3, query="new", shared=model).rank(["c", "a", "b"])[0]
    'b'
    """

    def __init__(self, policy: Policy) -> None:
        check_policy(policy)
        self.policy = policy
        self._compile()
        self._floats, self._ints = self.compiled.shared_layout.empty()
        self._call(templates.shared_init_step)

    def __repr__(self) -> str:
        return f"<SharedModel {self.policy.spec}>"

    def _compile(self) -> None:
        self.compiled = CompiledPolicy.cached(self.policy, _ANY_PROBLEM)
        if not self.compiled.shares:
            raise ValueError(f"policy={self.policy.spec}: must be a policy with a shared model")

    def prior(self, described: Described) -> Prior:
        """The prior of the described items. Does not change the model."""
        self._check(described)
        counts = np.empty(2 * len(described.item))
        going_on, after_click = self._call(templates.shared_prior_step, *described, counts)
        return Prior(counts, float(going_on), described, float(after_click), self)

    def learn(self, ranking: RankedItems, clicks: Any = None) -> bool:
        """Learn from the clicks on a list, given as to ``learner.update``.

        Returns False, and learns nothing, if the list has no description or its memo is lost.
        """
        n, memo, described = len(ranking), ranking.memo, ranking.described
        if described is None or not n or not ranking.intact or memo.shape != (n * self.policy.memo,) or memo[0] < 0.0:
            return False
        if len(described.item) != n:
            raise ValueError(f"ranking has {n} items: its description has {len(described.item)}")
        self._check(described)
        if not memo.flags.carray:
            memo = memo.copy()
        slots, vector = np.zeros(n, np.uint32), click_vector(ranking, clicks)
        self._call(templates.shared_learn_step, np.uint64(ranking.key), *described, slots, memo, vector)
        return True

    def contributions(self, described: Described) -> list[dict[str, float]]:
        """By described item, what each column of the model in use adds to the logit of its prior."""
        return self.policy.shared_contributions(self.compiled.parameters, self.views(), described)

    def summary(self) -> dict[str, Any]:
        """The model in use: its columns, the strength of its priors, how often users go on, attraction by place."""
        return self.policy.shared_summary(self.compiled.parameters, self.views())

    def copy(self) -> SharedModel:
        """An independent copy."""
        other = SharedModel.__new__(SharedModel)
        other.__dict__.update(self.__dict__)
        other._floats, other._ints = self._floats.copy(), self._ints.copy()
        return other

    def to_bytes(self) -> bytes:
        """The model as compressed bytes, without pickle."""
        header = {"format": serialization.FORMAT, "shared": self.policy.spec, "version": self.policy.version}
        return serialization.pack(serialization.Saved(header, self._floats, self._ints))

    @classmethod
    def from_bytes(cls, packed: bytes) -> SharedModel:
        """The model packed by ``to_bytes``."""
        try:
            return cls._restored(serialization.unpack(packed))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"not the bytes of a shared model ({error})") from error

    @classmethod
    def _restored(cls, parts: serialization.Saved) -> SharedModel:
        header = parts.header
        serialization.check_format(header)
        model = cls.__new__(cls)
        model.policy = serialization.policy_of(header["shared"], header["version"])
        model._compile()
        serialization.check_rows(parts, model.compiled.shared_layout)
        model._floats, model._ints = parts.floats, parts.ints
        return model

    @property
    def nbytes(self) -> int:
        """The memory of its state, in bytes."""
        return int(self._floats.nbytes + self._ints.nbytes)

    def views(self) -> dict[str, NDArray[Any]]:
        """The fields of its state, which share memory with it."""
        return self.compiled.shared_layout.views(self._floats, self._ints)

    def _check(self, described: Described) -> None:
        n, most = len(described.item), int(self.compiled.parameters.get("dense", 0))
        if len(described.dense) > n * most:
            raise ValueError(f"dense: {len(described.dense) // n} numbers for an item, at most {most} are allowed")

    def _call(self, template: Any, *arguments: Any) -> Any:
        compiled = self.compiled
        offsets = compiled.shared_layout.offsets
        return compiled.step(template)(self._floats, self._ints, offsets, compiled.row, *arguments)
