"""The skeleton of policies for the dependent click model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from driftrank.policies.placement import Placed, first_positions, numbers_by_position


class DCMPolicy(Placed):
    r"""Policies for users who may click several times, in the dependent click model.

    After a click at position k such a user leaves, satisfied, with probability :math:`v_k`. Everything down to the last
    click was looked at, and the best list has its most attractive item where :math:`v` is largest, the next where it is
    next to largest, and so on. So any policy for the cascade model becomes one for this model when it learns from the
    positions down to the last click and its items are placed in that order: ``class Mine(DCMPolicy, CascadeTS)``. (What
    was looked at below the last click is not known, so that this overrates items at the bottom; ``feedback="first"``
    does not. See :class:`DCMKLUCB`.)
    """

    abstract: ClassVar[bool] = True
    click_model: ClassVar[str] = "DCM"

    #: how likely a click at each position is the last, or other numbers in that order
    termination: tuple[float, ...] | str = "decreasing"
    feedback: str = "last"  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "termination", numbers_by_position("termination", self.termination, "decreasing"))
        super().__post_init__()
        on_top = isinstance(self.termination, str) or self.termination[0] == max(self.termination)
        if getattr(self, "initial", "") == "first_position" and not on_top:
            raise ValueError(
                f"termination={self.termination!r}: cannot go with initial='first_position', which shows an item on "
                "top, where the best one does not stand"
            )

    def weights(self, K: int) -> Sequence[float]:
        if isinstance(self.termination, str):
            return range(K, 0, -1)
        return first_positions("termination", self.termination, K)
