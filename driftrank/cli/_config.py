"""Options from a file: they replace the defaults of a command."""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any

import typer

from driftrank.validation import check_known

_KINDS: dict[type, str] = {
    bool: "true or false", int: "an integer", float: "a number", str: "text", list: "a list of texts"
}  # fmt: skip


def read_config(context: typer.Context, config: Path | None) -> Path | None:
    """Make the settings in ``config`` the defaults of the command; the callback of ``--config``."""
    if config is None or context.resilient_parsing:
        return config
    from driftrank.experiments.simulation.folder import ORIGIN
    from driftrank.files import read_toml

    assert context.command.callback is not None
    kinds = {
        name: _kind(hint)
        for name, hint in typing.get_type_hints(inspect.unwrap(context.command.callback)).items()
        if name not in ("config", "return")
    }
    settings = read_toml(config)
    for key, value in settings.items():
        check_known(f"setting in {config}", key, [*kinds, *ORIGIN])
        if key in kinds:
            _check(key, value, kinds[key])
    context.default_map = {key: value for key, value in settings.items() if key in kinds}
    return config


def _kind(hint: Any) -> type:
    """``int`` for ``int | None``, ``list`` for ``list[str]``."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind: type = next(option for option in options if option is not type(None))
    return typing.get_origin(kind) or kind


def _check(key: str, value: Any, kind: type) -> None:
    good = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if kind is list and good:
        good = all(isinstance(part, str) for part in value)
    if not good:
        raise ValueError(f"{key}={value!r}: must be {_KINDS[kind]}")
