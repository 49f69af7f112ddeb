"""Policies for the dependent click model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from driftrank.policies.base import Policy
from driftrank.policies.detecting.base import ChangeDetection
from driftrank.policies.detecting.presets import GLRTCascadeKLUCB
from driftrank.policies.detecting.restartable import RestartableKLUCB
from driftrank.policies.forgetting.cascade_dklucb import CascadeDKLUCB
from driftrank.policies.forgetting.cascade_ducb import CascadeDUCB
from driftrank.policies.forgetting.cascade_swklucb import CascadeSWKLUCB
from driftrank.policies.forgetting.cascade_swucb import CascadeSWUCB
from driftrank.policies.policy_kernels import PolicyKernels
from driftrank.policies.several_clicks.placement import Placed, first_positions, numbers_by_position
from driftrank.policies.stationary.cascade_klucb import CascadeKLUCB
from driftrank.policies.stationary.cascade_ucb1 import CascadeUCB1


class DCMPolicy(Placed):
    r"""Policies for users who may click several times, in the dependent click model.

    After a click at position k such a user leaves, satisfied, with probability :math:`v_k`. All positions down to the
    last click were examined, and the best list has the k-th most attractive item at the position with the k-th largest
    :math:`v`. So any policy for the cascade model becomes one for this model if it learns from the positions down to
    the last click and its items are placed in that order: ``class Mine(DCMPolicy, CascadeTS)``. (Examination below the
    last click is unknown, so this overrates items at the bottom; ``feedback="first"`` does not. See :class:`DCMKLUCB`.)
    """

    abstract: ClassVar[bool] = True
    click_model: ClassVar[str] = "DCM"
    renamed: ClassVar[Mapping[str, str]] = {"termination": "stop_after_click"}

    #: the probability that a click at each position is the last, or other numbers in the same order
    stop_after_click: tuple[float, ...] | str = "decreasing"
    feedback: str = "last"  # type: ignore[misc]

    def __post_init__(self) -> None:
        v = numbers_by_position("stop_after_click", self.stop_after_click, "decreasing")
        object.__setattr__(self, "stop_after_click", v)
        super().__post_init__()
        on_top = isinstance(self.stop_after_click, str) or self.stop_after_click[0] == max(self.stop_after_click)
        if getattr(self, "initial", "") == "first_position" and not on_top:
            raise ValueError(
                f"stop_after_click={self.stop_after_click!r}: cannot be combined with initial='first_position', which "
                "shows an item at the top, where the best one is not placed"
            )

    @property
    def termination(self) -> tuple[float, ...] | str:
        """The old name of ``stop_after_click``."""
        return self.stop_after_click

    def weights(self, K: int) -> Sequence[float]:
        if isinstance(self.stop_after_click, str):
            return range(K, 0, -1)
        return first_positions("stop_after_click", self.stop_after_click, K)


class DCMUCB(DCMPolicy, CascadeUCB1):
    r"""UCB1 for the dependent click model (dcmUCB; Katariya, Kveton, Szepesvári and Wen, 2016).

    As :class:`DCMKLUCB`, with the index of :class:`CascadeUCB1`,

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{1.5 \ln(t-1)}{N(a)}}.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    exploration, initial
        As in :class:`CascadeUCB1`.

    Notes
    -----
    State: 4 L floats and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMUCB(stop_after_click=(0.2, 0.9)).start(items=["a", "b"], k=2, seed=0)
    >>> learner.update(["a", "b"], clicks=[1, 0])
    >>> learner.rank()  # b was not examined; the first choice is placed where users leave
    ['a', 'b']
    """


class DCMKLUCB(DCMPolicy, CascadeKLUCB):
    r"""KL-UCB for the dependent click model (dcmKL-UCB; Katariya, Kveton, Szepesvári and Wen, 2016).

    Users may click several times; after a click at position k they leave, satisfied, with probability :math:`v_k`.
    Positions above the last click were examined, so they count as observed; all of them if there is no click. Items
    have the index of :class:`CascadeKLUCB`,

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln t + c \ln\ln t\},

    and the item with the k-th largest index is placed at the position with the k-th largest :math:`v`. Only the order
    of the positions must be known.

    Parameters
    ----------
    stop_after_click
        :math:`v`, the probability that a click at each position is the last, or any numbers in the same order, at least
        K; ``"decreasing"``: larger for higher positions.
    c, initial
        As in :class:`CascadeKLUCB`.

    Notes
    -----
    Guarantee, in a stationary world: Katariya et al. bound the regret in the probability of a satisfied user, :math:`1
    - \prod_k (1 - v_k \alpha(R(k)))`, by :math:`O(\ln n)`, under their assumptions.

    Items examined below the last click and not clicked are not counted, which overrates items, more so at lower
    positions and the fewer users leave after a click above. The effect is small if :math:`v` decreases. If it
    increases, the best items are at the bottom, and overrated ones may stay there; then ``feedback="first"`` is better,
    which learns from fewer but unbiased labels.

    State: 4 L floats and K integers. A step costs O(L + K), up to :math:`O(L + K^2)` if :math:`v` increases.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMKLUCB(stop_after_click=(0.2, 0.3, 0.9)).start(items=["a", "b", "c", "d"], k=3, seed=0)
    >>> for _ in range(50):
    ...     learner.update(["d", "c", "b"], clicks=[0, 1, 0])  # b is below the last click and not counted
    >>> learner.rank()[::-1]  # never seen, so they come first, where users leave
    ['a', 'b', 'c']
    """


class DCMDUCB(DCMPolicy, CascadeDUCB):
    r"""Discounted UCB for the dependent click model: :class:`DCMUCB` that forgets by discounting.

    All positions down to the last click count as observed, items have the index of :class:`CascadeDUCB`, and the one
    with the k-th largest is placed at the position whose click has the k-th largest probability of being the last, as
    in :class:`DCMKLUCB`.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    discount, half_life, n_breakpoints, epsilon, unseen, clock, first_horizon, restart
        As in :class:`CascadeDUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 6 floats, one more with a ``half_life``, and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMDUCB(discount=0.5).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[1, 1, 0])
    >>> learner.scores()["c"]  # below the last click
    inf
    """


class DCMDKLUCB(DCMPolicy, CascadeDKLUCB):
    r"""Discounted KL-UCB for the dependent click model: :class:`DCMKLUCB` that forgets by discounting.

    All positions down to the last click count as observed, items have the index of :class:`CascadeDKLUCB`, and the one
    with the k-th largest is placed at the position whose click has the k-th largest probability of being the last, as
    in :class:`DCMKLUCB`.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    discount, half_life, n_breakpoints, clock, first_horizon, restart
        As in :class:`CascadeDKLUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 6 floats, one more with a ``half_life``, and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMDKLUCB(discount=0.5).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[0, 1, 0])
    >>> round(learner.scores()["a"], 3)  # one observation without a click: 1 - 1/N_2(1/2)
    0.333
    """


class DCMSWUCB(DCMPolicy, CascadeSWUCB):
    r"""Sliding-window UCB for the dependent click model: :class:`DCMUCB` over the last steps only.

    All positions down to the last click count as observed, items have the index of :class:`CascadeSWUCB`, and the one
    with the k-th largest is placed at the position whose click has the k-th largest probability of being the last, as
    in :class:`DCMKLUCB`.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    window, capacity, n_breakpoints, epsilon, unseen, first_horizon, restart
        As in :class:`CascadeSWUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 3 floats and :math:`\tau` K + K + 2 integers; with a
    window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMSWUCB(window=2).start(items=["a", "b", "c"], k=3, seed=0)
    >>> learner.update(["a", "b", "c"], clicks=[1, 1, 0])
    >>> learner.scores()["c"]  # below the last click
    inf
    """


class DCMSWKLUCB(DCMPolicy, CascadeSWKLUCB):
    r"""Sliding-window KL-UCB for the dependent click model: :class:`DCMKLUCB` over the last steps only.

    All positions down to the last click count as observed, items have the index of :class:`CascadeSWKLUCB`, and the one
    with the k-th largest is placed at the position whose click has the k-th largest probability of being the last, as
    in :class:`DCMKLUCB`.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    window, capacity, n_breakpoints, first_horizon, restart
        As in :class:`CascadeSWKLUCB`.

    Notes
    -----
    No guarantee is known. State: 4 L + 3 floats and :math:`\tau` K + K + 2 integers; with a
    window in time, :math:`\tau` more floats.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMSWKLUCB(window=2).start(items=["a", "b", "c"], k=3, seed=0)
    >>> for clicks in ([1, 1, 0], [0, 0, 1], [0, 0, 1]):
    ...     learner.update(["a", "b", "c"], clicks)
    >>> round(learner.scores()["a"], 3)  # two observations without a click: 1 - exp(-ln(2)/2)
    0.293
    """


class _RestartableDCMKLUCB(DCMPolicy, RestartableKLUCB):
    """The policy that ranks."""


class GLRTDCMKLUCB(DCMPolicy, GLRTCascadeKLUCB):
    r"""KL-UCB for the dependent click model with a likelihood ratio test of every item: :class:`DCMKLUCB` that detects
    changes.

    As :class:`GLRTCascadeKLUCB`, but every label down to the last click counts and enters its item's test, and the item
    with the k-th largest index is placed at the position whose click has the k-th largest probability of being the
    last. In a fraction p of the steps the items take turns at the top, where they are always observed, in place of the
    worst.

    Parameters
    ----------
    stop_after_click
        Probability that a click at each position is the last, or any numbers in the same order, at least K;
        ``"decreasing"``: larger for higher positions.
    explore, delta, c, schedule, restart, n_breakpoints, threshold, every
        As in :class:`GLRTCascadeKLUCB`.

    Notes
    -----
    No guarantee is known. State: 267 L + 136 numbers and K integers. A step costs O(L).

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.GLRTDCMKLUCB().start(items=["a", "b", "c"], k=2, horizon=1000)
    >>> for clicked in [0] * 20 + [1] * 9:
    ...     learner.update(["a", "b"], [0, clicked])
    >>> learner.alarms
    [Alarm(step=26, item='b', everything=True)]
    """

    def make_base(self) -> Policy:
        return _RestartableDCMKLUCB(**self.shared("c", "stop_after_click"))

    def kernels(self) -> PolicyKernels:
        return ChangeDetection.kernels(self)  # the base places its items, and a forced item goes to the top
