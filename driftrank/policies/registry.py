"""The known policies: every public subclass of ``Policy`` in this package, and those that you import."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.reflection import Registry

registry: Registry[Policy] = Registry("policy", Policy, "driftrank.policies")


def policies() -> dict[str, type[Policy]]:
    """Every known policy, by name."""
    return registry.all()


def policy_groups() -> dict[str, dict[str, type[Policy]]]:
    """Every known policy, by the title of its group (see :meth:`Registry.groups`) and its name; the default first.

    >>> list(policy_groups()["Policies for stationary users"])[:2]
    ['CascadeKLUCB', 'CascadeTS']
    """
    groups = registry.groups()
    first = next(title for title, group in groups.items() if type(default_policy()).__name__ in group)
    return {first: groups[first], **groups}


def default_policy() -> Policy:
    """The policy to use unless there is a reason for another: it needs no tuning.

    >>> default_policy().spec
    'PriorRegimeTS'
    """
    from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS  # alone: all policies take 0.2 s

    return PriorRegimeTS()


def parse_policy(spec: str) -> Policy:
    """The policy of a spec, ``NAME`` or ``NAME:key=value,...``.

    >>> parse_policy("CascadeSWUCB:window=500").spec
    'CascadeSWUCB:window=500'
    """
    return registry.parse(spec)
