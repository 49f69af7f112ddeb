"""Parts of the checks of stores: conditions whose failure is a message of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftrank.contracts import require


def same(what: str, found: Any, wanted: Any) -> None:
    """Raise unless two values are equal."""
    require(found == wanted, f"{what}: is {_short(found)}, should be {_short(wanted)}")


def raises(kind: type[Exception], call: Callable[..., Any], *args: Any) -> None:
    """Raise unless a call raises an error of a kind, with a message of one line."""
    try:
        answer = call(*args)
    except kind as error:
        require("\n" not in str(error) and bool(str(error)), f"its message is not one line: {error}")
    else:
        raise AssertionError(f"no {kind.__name__}, but {_short(answer)}")


def _short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 200 else f"{text[:200]}..."
