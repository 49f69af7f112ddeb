"""The skeleton of policies for the position-based model, and the indices they share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.tuples import Field, field
from driftrank.policies.base import Problem
from driftrank.policies.bonus import bonus_fields
from driftrank.policies.counts import PER_POSITION, Counts
from driftrank.policies.placement import Placed, first_positions, numbers_by_position
from driftrank.validation import check_number


class PBMPolicy(Placed):
    r"""Policies for users who look at position k with probability :math:`\kappa_k`, whatever they clicked before.

    With :math:`N_{a,k}` and :math:`S_{a,k}` how often item a was shown and clicked at position k, the attraction of an
    item is estimated by :math:`\hat\theta_a = S_a/\tilde N_a`, where :math:`S_a = \sum_k S_{a,k}`,
    :math:`N_a = \sum_k N_{a,k}` and :math:`\tilde N_a = \sum_k \kappa_k N_{a,k}`; better items stand at positions that
    are looked at more often. A subclass adds the statistics, of which every position of a list counts, clicked or not:
    ``class Mine(PBMPolicy, Discounted)``.

    The fields ``mean`` and ``radius`` hold :math:`\hat\theta_a` and :math:`\sqrt{N_a}/\tilde N_a`, so that ``mean + q
    radius`` is PBM-UCB's index.
    """

    abstract: ClassVar[bool] = True
    click_model: ClassVar[str] = "PBM"
    #: the feedback mode is part of the click model
    feedback: ClassVar[str] = "all"  # type: ignore[misc]
    counts: ClassVar[Counts] = PER_POSITION
    #: what stands for the mean of an item never seen
    unseen_mean: ClassVar[float] = math.inf

    #: kappa, by position
    examination: tuple[float, ...] | str = "auto"
    #: of the confidence level delta_t = (1 + epsilon) ln t
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        kappa = numbers_by_position("examination", self.examination, "auto", 0, 1, open_low=True)
        object.__setattr__(self, "examination", kappa)
        super().__post_init__()
        check_number("epsilon", self.epsilon, 0)

    def weights(self, K: int) -> Sequence[float]:
        if isinstance(self.examination, str):
            return [1 / (k + 1) for k in range(K)]
        return first_positions("examination", self.examination, K)

    def parameters(self, problem: Problem) -> dict[str, float]:
        return super().parameters(problem) | {"unseen_mean": self.unseen_mean}

    def fields(self, p: Mapping[str, Any]) -> dict[str, Field]:
        return super().fields(p) | {"kappa": field("K", fill=tuple(self.weights(p["K"])))}

    def item_fields(self) -> dict[str, Field]:
        return bonus_fields()

    @staticmethod
    @kernel
    def refresh(p, s, a):
        N = 0.0
        S = 0.0
        looked_at = 0.0
        for k in range(p.K):
            n = s.N[a * p.K + k]
            N += n
            S += s.X[a * p.K + k]
            looked_at += s.kappa[k] * n
        if N > 0.0:
            s.mean[a] = S / looked_at
            s.radius[a] = np.sqrt(N) / looked_at
        else:
            s.mean[a] = p.unseen_mean
            s.radius[a] = 0.0

    @staticmethod
    @kernel
    def believe(p, s, e, a):
        return believe_by_position(p, s, a)


@kernel
def believe_by_position(p, s, a):
    """Clicks of looks, as the policy thinks that users look; and how often it was shown, wherever that was."""
    N = 0.0
    for k in range(p.K):
        N += s.N[a * p.K + k]
    return (s.mean[a] if N > 0.0 else np.nan), N
