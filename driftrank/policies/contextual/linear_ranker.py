"""Linear rankers that climb a gradient: a weight for every feature, shared by all items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, field, integers
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.contextual.ridge import own_axis
from driftrank.validation import check_number


class LinearRanker(Policy):
    r"""Policies that score an item by :math:`f(a) = \theta^\top x_a` and learn :math:`\theta`, which is 0 at first.

    Scores only order items; they are not estimates of attraction. One learner serves many queries: its items are the
    documents of all of them, and ``rank(candidates)`` gets those of one query.

    Items without features have an indicator each: their weight is forgotten with them.
    """

    abstract: ClassVar[bool] = True
    contextual: ClassVar[bool] = True
    click_model: ClassVar[str] = "PBM"  # several clicks; they have no model of examination

    #: ties between equal scores: at random, or by the smaller slot
    ties: str = "random"
    #: the step along the gradient
    rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("rate", self.rate, 0, 1e6, open_low=True)

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
        return super().parameters(problem) | {"features": problem.features or problem.L}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return {"features": field("L", p["features"]), "theta": field(p["features"]), "one_hot": integers(1)}

    @staticmethod
    @kernel
    def init(p, s, e, c):
        s.one_hot[0] = p.features == p.L
        for a in range(p.L):
            if s.one_hot[0] and not own_axis(s.features, a, p.features):
                s.one_hot[0] = 0

    @staticmethod
    @kernel
    def scores(p, s, e, c, out):
        for j in range(c.items.shape[0]):
            out[j] = linear_score(p, s, c.items[j])

    @staticmethod
    @kernel
    def forget(p, s, e, a):
        if s.one_hot[0]:
            if a < p.features and own_axis(s.features, a, p.features):
                s.theta[a] = 0.0
            else:
                s.one_hot[0] = 0  # from now on, axes are features

    @staticmethod
    @kernel
    def features_changed(p, s, e, slots):
        for i in range(slots.shape[0]):
            a = slots[i]
            if s.one_hot[0] and not (a < p.features and own_axis(s.features, a, p.features)):
                s.one_hot[0] = 0


@kernel
def linear_score(p, s, a):
    """f(a), the sum of weights times features."""
    first = int(a) * p.features
    total = 0.0
    for i in range(p.features):
        total += s.features[first + i] * s.theta[i]
    return total
