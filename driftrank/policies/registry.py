"""The known policies: every public subclass of ``Policy`` in this package, and those that you import."""

from __future__ import annotations

from collections.abc import Iterable

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


#: a policy, its class (with the default parameters) or its spec
PolicyLike = Policy | type[Policy] | str


def as_policy(given: PolicyLike) -> Policy:
    """The policy that an object, a class or a spec stands for.

    >>> from driftrank.policies.stationary.random import Random
    >>> as_policy(Random).spec, as_policy("CascadeSWUCB:window=500").spec
    ('Random', 'CascadeSWUCB:window=500')
    """
    return registry.read("policy", given, "CascadeSWUCB:window=500")


def as_policies(given: PolicyLike | Iterable[PolicyLike]) -> list[Policy]:
    """The policies that one object, class or spec, or many of them, stand for."""
    return [as_policy(policy) for policy in registry.several("policies", given)]
