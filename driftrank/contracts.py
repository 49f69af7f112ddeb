"""Check suites: functions ``check_NAME`` of a module, whose errors name the object and the check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def require(condition: bool, message: str) -> None:
    """Raise ``AssertionError`` unless a condition holds, also when assertions are switched off."""
    if not condition:
        raise AssertionError(message)


def checks_in(namespace: Mapping[str, Any], whole: str, label: Callable[[T], str]) -> dict[str, Callable[[T], None]]:
    """The functions ``check_NAME`` of a module by name, except the one that runs them all.

    Any error of a check becomes an ``AssertionError`` that begins with the label of the object.
    """

    def named(name: str, check: Callable[[T], None]) -> Callable[[T], None]:
        @functools.wraps(check)
        def run(checked: T) -> None:
            try:
                check(checked)
            except Exception as error:
                what = str(error) if isinstance(error, AssertionError) else repr(error)
                raise AssertionError(f"{label(checked)}: {name}: {what}") from error

        return run

    return {
        name.removeprefix("check_"): named(name.removeprefix("check_"), function)
        for name, function in list(namespace.items())
        if name.startswith("check_") and name != whole and namespace["__name__"] == function.__module__
    }
