"""Settings as TOML: one flat table. ``files.read_toml`` reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any


def write_toml(settings: Mapping[str, Any], comment: str = "") -> str:
    """Text, numbers, booleans and lists of them; None is left out.

    >>> print(write_toml({"env": "Abrupt", "policy": ["Random"], "k": None}), end="")
    env = "Abrupt"
    policy = ["Random"]
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, *(f"{key} = {_value(key, v)}" for key, v in settings.items() if v is not None)]) + "\n"


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        # JSON strings are TOML strings, except for one character
        return json.dumps(os.fspath(value), ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(key, part) for part in value) + "]"
    raise TypeError(f"{key}={value!r}: cannot be written as TOML")
