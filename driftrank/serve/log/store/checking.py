"""Parts of the checks of stores: conditions whose failure is a message of one line."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def same(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: is {_short(found)}, should be {_short(wanted)}")


def _short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 200 else f"{text[:200]}..."


def raises(kind: type[Exception], call: Callable[..., Any], *args: Any) -> None:
    try:
        answer = call(*args)
    except kind as error:
        require("\n" not in str(error) and bool(str(error)), f"its message is not one line: {error}")
    else:
        raise AssertionError(f"no {kind.__name__}, but {_short(answer)}")


def named(name: str, check: Callable[[T], None]) -> Callable[[T], None]:
    """A check whose errors name the backend and the check."""

    @functools.wraps(check)
    def run(benches: T) -> None:
        try:
            check(benches)
        except Exception as error:
            what = str(error) if isinstance(error, AssertionError) else repr(error)
            raise AssertionError(f"{getattr(benches, '__name__', benches)}: {name}: {what}") from error

    return run
