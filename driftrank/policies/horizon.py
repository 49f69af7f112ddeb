"""The horizon of policies that cannot do without one."""

from __future__ import annotations

from driftrank.policies.base import Problem


def planned_horizon(policy: str, own: int | None, problem: Problem) -> int:
    """The number of steps to plan for: the policy's ``own`` parameter, else the problem's.

    >>> planned_horizon("TopRank", None, Problem(L=10, K=3, horizon=500))
    500
    """
    horizon = problem.horizon if own is None else own
    if horizon is None:
        raise ValueError(
            f"horizon=None: {policy} must know how many steps it will run; give it as {policy}(horizon=...) "
            "or where it is started"
        )
    return horizon
