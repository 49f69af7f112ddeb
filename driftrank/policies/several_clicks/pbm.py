"""Policies for the position-based model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.elementary import log
from driftrank.kernels.layout import Field, field
from driftrank.policies.base import RankingProblem
from driftrank.policies.indices.mean_plus_bonus import bonus_fields, bonus_index
from driftrank.policies.memory.counts import PER_POSITION, Counts
from driftrank.policies.memory.cumulative import Cumulative
from driftrank.policies.memory.discounted import Discounted, present
from driftrank.policies.memory.windowed import Windowed
from driftrank.policies.several_clicks.placement import Placed, first_positions, numbers_by_position
from driftrank.validation import check_number


class PBMPolicy(Placed):
    r"""Policies for users who examine position k with probability :math:`\kappa_k`, independently of their clicks.

    With :math:`N_{a,k}` and :math:`S_{a,k}` the numbers of times that item a was shown and clicked at position k, its
    attraction is estimated by :math:`\hat\theta_a = S_a/\tilde N_a`, where :math:`S_a = \sum_k S_{a,k}`, :math:`N_a =
    \sum_k N_{a,k}` and :math:`\tilde N_a = \sum_k \kappa_k N_{a,k}`; better items are placed at positions that are
    examined more often. A subclass adds the statistics, which count every position of a list, clicked or not: ``class
    Mine(PBMPolicy, Discounted)``.

    The fields ``mean`` and ``radius`` hold :math:`\hat\theta_a` and :math:`\sqrt{N_a}/\tilde N_a`, so that ``mean + q
    radius`` is PBM-UCB's index.
    """

    abstract: ClassVar[bool] = True
    click_model: ClassVar[str] = "PBM"
    #: the feedback mode is part of the click model
    feedback: ClassVar[str] = "all"  # type: ignore[misc]
    counts: ClassVar[Counts] = PER_POSITION
    #: the mean of an item never seen
    unseen_mean: ClassVar[float] = math.inf

    #: kappa, by position
    examination: tuple[float, ...] | str = "auto"
    #: parameter of the confidence level delta_t = (1 + epsilon) ln t
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

    def parameters(self, problem: RankingProblem) -> dict[str, float]:
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
    def believe(p, s, e, c, a):
        return believe_by_position(p, s, a)


@kernel
def believe_by_position(p, s, a):
    """Clicks per examination, by the policy's examination probabilities; and the number of lists that showed the
    item."""
    N = 0.0
    for k in range(p.K):
        N += s.N[a * p.K + k]
    return (s.mean[a] if N > 0.0 else np.nan), N


class PBMUCB(PBMPolicy, Cumulative):
    r"""UCB for the position-based model (PBM-UCB; Lagrée, Vernade and Cappé, 2016).

    Users examine position k with known probability :math:`\kappa_k`. With :math:`S_a` clicks on item a in :math:`N_a`
    lists, and :math:`\tilde N_a = \sum_k \kappa_k N_{a,k}` expected examinations, the index is

    .. math:: U_t(a) = \frac{S_a}{\tilde N_a} + \sqrt{\frac{N_a}{\tilde N_a}} \sqrt{\frac{\delta_t}{2 \tilde N_a}},
        \quad \delta_t = (1 + \epsilon) \ln t,

    and the item with the k-th largest index is placed at the position with the k-th largest :math:`\kappa`. Items never
    seen come first.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.

    Notes
    -----
    Guarantee, in a stationary world: regret of order :math:`\ln n` in the number of clicks, :math:`\sum_k \kappa_k
    \alpha(R(k))`. Every position of a list counts as shown (feedback ``"all"``), as in the model. State: 2 K L + 2 L +
    K floats and K integers. A step costs :math:`O(L + K^2)`.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMUCB(examination=(1, 0.5)).start(items=["a", "b", "c"], k=2, seed=0)
    >>> for _ in range(10):
    ...     learner.update(["a", "b"], clicks=[0, 1])
    >>> round(learner.scores()["b"], 3)  # 10 clicks of 5 looks, and sqrt(10 ln(11) / 2) / 5
    2.693
    """

    optimistic = True

    @staticmethod
    @kernel
    def level(p, s, e):
        return np.sqrt(0.5 * (1.0 + p.epsilon) * log(np.float64(e.t)))

    index = staticmethod(bonus_index)


class PBMDUCB(PBMPolicy, Discounted):
    r"""Discounted UCB for the position-based model: :class:`PBMUCB` that forgets by discounting.

    Every step multiplies the counts :math:`N_{a,k}` and :math:`S_{a,k}` by the discount :math:`\gamma`, and
    :math:`\delta_t = (1 + \epsilon) \ln N_t(\gamma)` with :math:`N_t(\gamma) = (1-\gamma^t)/(1-\gamma)`.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.
    discount, half_life, n_breakpoints, first_horizon, restart
        As in :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), as in the model. State: 2 K L
    + 2 L + K + 6 floats, one more with a ``half_life``, and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMDUCB(discount=0.5, examination=(1, 0.5)).start(items=["a", "b"], k=2, seed=0)
    >>> for clicks in ([1, 0], [0, 1]):
    ...     learner.update(["a", "b"], clicks)
    >>> round(learner.scores()["b"], 3)  # 1 click of 1.5/2 looks, and sqrt(1.5 ln(1.75) / 2) / 0.75
    2.197
    """

    optimistic = True

    @staticmethod
    @kernel
    def level(p, s, e):
        unit, log_clock = present(p, s, e)
        return np.sqrt(0.5 * (1.0 + p.epsilon) * log_clock * unit)

    index = staticmethod(bonus_index)
    rescaled = staticmethod(PBMPolicy.refresh)

    @staticmethod
    @kernel
    def believe(p, s, e, c, a):
        estimate, shown = believe_by_position(p, s, a)
        return estimate, shown / present(p, s, e)[0]


class PBMSWUCB(PBMPolicy, Windowed):
    r"""Sliding-window UCB for the position-based model: :class:`PBMUCB` over the last steps only.

    The counts :math:`N_{a,k}` and :math:`S_{a,k}` are those of the last :math:`\tau` steps, and
    :math:`\delta_t = (1 + \epsilon) \ln(t \wedge \tau)`. Items not in the window come first.

    Parameters
    ----------
    examination
        :math:`\kappa`, the examination probability of each position, at least K numbers in (0, 1]; ``"auto"``: 1/k at
        position k.
    epsilon
        Parameter of the confidence level.
    window, capacity, n_breakpoints, first_horizon, restart
        As in :class:`CascadeSWUCB`.

    Notes
    -----
    No guarantee is known. Every position of a list counts as shown (feedback ``"all"``), as in the model. State: 2 K L
    + 2 L + K + 3 floats and :math:`\tau` K + K + 2 integers; with a window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.PBMSWUCB(window=2, examination=(1, 0.5)).start(items=["a", "b"], k=2, seed=0)
    >>> for clicks in ([0, 1], [0, 1], [0, 0]):
    ...     learner.update(["a", "b"], clicks)
    >>> round(learner.scores()["b"], 3)  # 1 click of 1 look, and sqrt(2 ln(2) / 2)
    1.833
    """

    optimistic = True

    @staticmethod
    @kernel
    def level_of(p, steps):
        return np.sqrt(0.5 * (1.0 + p.epsilon) * log(steps))

    index = staticmethod(bonus_index)
