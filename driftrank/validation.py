"""Checks of values; errors name the parameter, the value and what is allowed."""

from __future__ import annotations

import difflib
import functools
import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: must be one of {', '.join(map(repr, allowed))}")


def check_text(name: str, *values: Any) -> None:
    """Raise ValueError unless every value is a string with something in it."""
    for value in values:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name}={value!r}: must be text")


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Check for an integer in low .. high."""
    good = isinstance(value, int) and not isinstance(value, bool) and low <= value and (high is None or value <= high)
    if not good:
        raise ValueError(f"{name}={value!r}: must be an integer {_range(low, high)}")


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Check for a number between low and high (excluded if open)."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and -math.inf < value < math.inf
    if good:
        good = (low < value if open_low else low <= value) and (value < high if open_high else value <= high)
    if not good:
        left = f"{'(' if open_low else '['}{low:g}"
        right = "infinity)" if high == math.inf else f"{high:g}{')' if open_high else ']'}"
        raise ValueError(f"{name}={value!r}: must be a number in {left}, {right}")


def check_known(kind: str, name: str, known: Iterable[str]) -> None:
    """Check that a name is known; the error suggests the most similar one."""
    names = sorted(known)
    if name in names:
        return
    if not isinstance(name, str):
        raise ValueError(f"{kind}={name!r}: must be a name. Known: {', '.join(names) or 'none'}")
    raise ValueError(f"unknown {kind} {name!r}{nearest(name, names) or '.'} Known: {', '.join(names) or 'none'}")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar known one, if any."""
    folded = {n.lower(): n for n in known}
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    return f"; did you mean {folded[near[0]]}?" if near else ""


def on_instance(kind: str) -> Callable[[F], F]:
    """Let a method say what is wrong if it is called on the class: Python would take the first argument for ``self``.

    >>> class Policy:
    ...     @on_instance("policy")
    ...     def start(self, items): return items
    >>> Policy().start(["a"])
    ['a']
    >>> Policy.start(["a"])
    Traceback (most recent call last):
    ...
    ValueError: policy.start: called on the class Policy; make a policy first, as in Policy(...).start(...)
    """

    def decorate(method: F) -> F:
        return cast(F, _OnInstance(kind, method))

    return decorate


class _OnInstance:
    """The descriptor of such a method."""

    def __init__(self, kind: str, method: Callable[..., Any]) -> None:
        self._kind, self.__func__ = kind, method  # as of other methods, for those who look for it
        functools.update_wrapper(cast(Any, self), method)

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is not None:
            return types.MethodType(self.__func__, instance)
        name, article = self.__func__.__name__, "an" if self._kind[0] in "aeiou" else "a"

        @functools.wraps(self.__func__)
        def on_class(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], owner):
                return self.__func__(*args, **kwargs)
            raise ValueError(
                f"{self._kind}.{name}: called on the class {owner.__name__}; make {article} {self._kind} first, as in "
                f"{owner.__name__}(...).{name}(...)"
            )

        return on_class


def _range(low: int, high: int | None) -> str:
    return f"of at least {low}" if high is None else f"from {low} to {high}"
