"""What the shell offers when a user presses the tabulator."""

from __future__ import annotations


def policy_names(incomplete: str) -> list[str]:
    from driftrank.policies.registry import policies

    return [name for name in policies() if name.lower().startswith(incomplete.lower())]


def environment_names(incomplete: str) -> list[str]:
    from driftrank.environments.registry import environments

    return [name for name in environments() if name.lower().startswith(incomplete.lower())]
