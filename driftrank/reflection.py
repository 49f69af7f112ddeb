"""Registries without lists: the known classes of a kind are its public subclasses.

A spec such as ``CascadeSWUCB:window=500,ties=index`` is a class with its parameters; a parameter that is itself an
object of a kind is written with parentheses, ``OracleRestart:base=CascadeTS(a0=0.5)``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Generic, TypeVar

from driftrank.plugins import import_plugins
from driftrank.validation import check_known, check_text

T = TypeVar("T")


@functools.cache
def import_all(package: str) -> tuple[ModuleType, ...]:
    """Import every module of a package and of the packages in it, once per process."""
    found: list[ModuleType] = []
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        found += import_all(info.name) if info.ispkg else [importlib.import_module(info.name)]
    return tuple(found)


class Registry(Generic[T]):
    """The public subclasses of ``base``: those in ``package``, of plugins, and any others that are imported.

    A class with ``abstract = True`` in its own body is not listed.
    """

    def __init__(self, kind: str, base: type[T], package: str) -> None:
        self.kind = kind
        self._base = base
        self._package = package

    def all(self) -> dict[str, type[T]]:
        import_all(self._package)
        import_plugins()
        found = {c.__name__: c for c in _subclasses(self._base) if not vars(c).get("abstract", False)}
        return {name: found[name] for name in sorted(found) if not name.startswith("_")}

    def groups(self) -> dict[str, dict[str, type[T]]]:
        """All classes by group: one for every subpackage, then for every module beside them, then "Other".

        The title of a group is the beginning of the docstring of its package or module, up to a colon or full stop.
        """
        groups: dict[tuple[int, str], dict[str, type[T]]] = {}
        for name, cls in self.all().items():
            place, title = 2, "Other"
            if cls.__module__.startswith(f"{self._package}."):
                first, *rest = cls.__module__.removeprefix(f"{self._package}.").split(".")
                place, title = 0 if rest else 1, _title(f"{self._package}.{first}")
            groups.setdefault((place, title), {})[name] = cls
        return {title: groups[place, title] for place, title in sorted(groups)}

    def get(self, name: str) -> type[T]:
        known = self.all()
        check_known(self.kind, name, known)
        return known[name]

    def parse(self, spec: str, **given: Any) -> T:
        """Make the object that ``NAME`` or ``NAME:key=value,...`` describes; ``given`` are further arguments."""
        name, colon, text = spec.strip().partition(":")
        if colon and not text.strip():
            raise ValueError(f"{self.kind} {spec!r}: parameters are missing after the colon")
        return self.make(name.strip(), dict(read_pairs(text, f"{self.kind} {spec!r}")), **given)

    def make(self, name: str, arguments: Mapping[str, Any], **given: Any) -> T:
        """Make the object of that name; string arguments are converted to the type of the parameter."""
        return self._of_class(self.get(name), arguments, **given)

    def _of_class(self, cls: type[T], arguments: Mapping[str, Any], **given: Any) -> T:
        name = cls.__name__
        if vars(cls).get("abstract", False):
            raise ValueError(f"{self.kind} {name}: must not be a class that is only a base of others")
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in given}  # type: ignore[arg-type]
        hints = typing.get_type_hints(cls)
        values = {}
        renamed = getattr(cls, "renamed", {})
        for given_key, value in arguments.items():
            key = renamed.get(given_key, given_key)
            check_known(f"parameter of {name}", key, fields)
            values[key] = self._read(key, value, hints[key]) if isinstance(value, str) else value
        for field in fields.values():
            missing = field.default is field.default_factory is dataclasses.MISSING
            if missing and field.name not in values:
                raise ValueError(f"{self.kind} {name}: the parameter {field.name} is missing")
        return cls(**given, **values)

    def read(self, name: str, given: Any, example: str) -> T:
        """Make the object that ``given`` stands for: itself, its class or its spec."""
        if isinstance(given, self._base):
            return given
        if isinstance(given, str):
            check_text(name, given)
            return self.parse(given)
        if isinstance(given, type) and issubclass(given, self._base):
            return self._of_class(given, {})
        shown = repr(given) if len(repr(given)) < 100 else f"<{type(given).__name__}>"
        raise ValueError(f"{name}={shown}: must be {_article(self.kind)}, its class, or text such as {example!r}")

    def several(self, name: str, given: Any) -> list[Any]:
        """One object, class or spec as a list of one; many as a list."""
        if isinstance(given, (str, self._base, type)):
            return [given]
        if not isinstance(given, Iterable):
            raise ValueError(f"{name}={given!r}: must be {_article(self.kind)}, or a list of them")
        return list(given)

    def _read(self, key: str, text: str, hint: Any) -> Any:
        options = list(typing.get_args(hint)) if isinstance(hint, types.UnionType) else [hint]
        if type(None) in options and text.lower() == "none":
            return None
        for option in options:
            if option is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if isinstance(option, type) and issubclass(option, self._base):
                return self._nested(key, text)
            if option is int:
                number = read_number(text)
                if number is not None and number == int(number):
                    return int(number)
            if option is float and read_number(text) is not None:
                return read_number(text)
            if typing.get_origin(option) is tuple and text.startswith("["):
                return _numbers(key, text)
        if str in options:
            return text
        wanted = " or ".join(getattr(o, "__name__", str(o)) for o in options)
        raise ValueError(f"{key}={text!r}: must be {wanted}")

    def _nested(self, key: str, text: str) -> T:
        """``NAME`` or ``NAME(key=value,...)``."""
        name, opened, rest = text.partition("(")
        if opened and not rest.endswith(")"):
            raise ValueError(f"{key}={text!r}: must be of the form NAME or NAME(key=value,...)")
        inside = rest[:-1].strip()
        return self.parse(f"{name}:{inside}" if inside else name)


def read_number(text: str) -> float | None:
    """The finite number that a text stands for, None if it is not one.

    >>> read_number("1_000"), read_number("1e-3"), read_number("inf")
    (1000.0, 0.001, None)
    """
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def _numbers(key: str, text: str) -> tuple[float, ...]:
    """``[0.1;0.2]``."""
    inside = text[1:-1].strip()
    numbers = [read_number(part) for part in inside.split(";")] if inside else []
    if not text.endswith("]") or None in numbers:
        raise ValueError(f"{key}={text!r}: must be numbers in the form [0.1;0.2]")
    return tuple(number for number in numbers if number is not None)


def read_pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Split ``key=value,...`` at commas outside parentheses; ``where`` begins the error messages."""
    if not text.strip():
        return
    depth, part = 0, ""
    seen = set()
    for character in text + ",":
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character != "," or depth:
            part += character
            continue
        key, _, value = (side.strip() for side in part.partition("="))
        if not key or not value:
            raise ValueError(f"{where}: {part.strip()!r} is not of the form key=value")
        if key in seen:
            raise ValueError(f"{where}: {key} is given twice")
        seen.add(key)
        yield key, value
        part = ""
    if depth:
        raise ValueError(f"{where}: parentheses do not match")


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _title(module: str) -> str:
    text = importlib.import_module(module).__doc__ or module
    return text.splitlines()[0].partition(": ")[0].rstrip(".")


def _subclasses(cls: type[T]) -> Iterator[type[T]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
