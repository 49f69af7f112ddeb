"""Names that the shell completes."""

from __future__ import annotations

from collections.abc import Iterable

from driftrank.extras import MissingExtra


def policy_names(incomplete: str) -> list[str]:
    from driftrank.policies.registry import policies

    return _beginning(incomplete, policies())


def environment_names(incomplete: str) -> list[str]:
    from driftrank.environments.registry import environments

    return _beginning(incomplete, environments())


def click_model_names(incomplete: str) -> list[str]:
    from driftrank.clickmodels.registry import click_models

    return _beginning(incomplete, click_models())


def suite_names(incomplete: str) -> list[str]:
    """The parts of the leaderboard's suite, its environments by their names there, and all others."""
    from driftrank.environments.registry import environments
    from driftrank.experiments.leaderboards.suite import ENTRIES, PARTS

    return _beginning(incomplete, dict.fromkeys([*PARTS, *ENTRIES, *environments()]))


def format_names(incomplete: str) -> list[str]:
    try:
        from driftrank.logs.conversion.convert import formats
    except MissingExtra:
        return []
    return _beginning(incomplete, ["auto", *formats()])


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]
