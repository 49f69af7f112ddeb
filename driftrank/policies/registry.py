"""The policies there are, found by looking: every public subclass of ``Policy`` in this package or imported by you."""

from __future__ import annotations

from driftrank.policies.base import Policy
from driftrank.policies.cascade_regime_ts import CascadeRegimeTS
from driftrank.reflection import Registry

registry: Registry[Policy] = Registry("policy", Policy, "driftrank.policies")


def policies() -> dict[str, type[Policy]]:
    """Every known policy, by name."""
    return registry.all()


def default_policy() -> Policy:
    """The policy to use when nothing speaks for another: it needs no tuning.

    >>> default_policy().spec
    'CascadeRegimeTS'
    """
    return CascadeRegimeTS()


def parse_policy(spec: str) -> Policy:
    """A policy written as ``NAME`` or ``NAME:key=value,...``.

    >>> parse_policy("CascadeSWUCB:window=500").spec
    'CascadeSWUCB:window=500'
    """
    return registry.parse(spec)
