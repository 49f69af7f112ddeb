"""The policies there are, found by looking: every public subclass of ``Policy`` in this package or imported by you."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.reflection import Registry

registry: Registry[Policy] = Registry("policy", Policy, "driftrank.policies")


def policies() -> dict[str, type[Policy]]:
    """Every known policy, by name."""
    return registry.all()


def parse_policy(spec: str) -> Policy:
    """A policy written as ``NAME`` or ``NAME:key=value,...``.

    >>> parse_policy("CascadeSWUCB:window=500").spec
    'CascadeSWUCB:window=500'
    """
    return registry.parse(spec)
