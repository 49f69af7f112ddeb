"""Settings of a command: defaults, then a file, then options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftrank.validation import check_known


def merged(config: Path | None, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting in ``defaults``. An option that is None or empty was not given; None as default is an integer."""
    settings = dict(defaults)
    if config is not None:
        from driftrank.experiments.run import ORIGIN
        from driftrank.files import read_toml

        for key, value in read_toml(config).items():
            check_known(f"setting in {config}", key, [*defaults, *ORIGIN])
            if key in defaults:
                _check(key, value, defaults[key])
                settings[key] = value
    return settings | {key: value for key, value in options.items() if value is not None and value != []}


def _check(key: str, value: Any, default: Any) -> None:
    kind = int if default is None else float if isinstance(default, float) else type(default)
    good = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if kind is list and good:
        good = all(isinstance(part, str) for part in value)
    if not good:
        words = {bool: "true or false", int: "an integer", float: "a number", str: "text", list: "a list of texts"}
        raise ValueError(f"{key}={value!r}: must be {words[kind]}")
