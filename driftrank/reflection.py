"""Registries without lists: the known classes of a kind are its public subclasses.

A text such as ``CascadeSWUCB:window=500,ties=index`` names one with its parameters; a parameter that is itself of a
kind is written with parentheses, ``OracleRestart:base=CascadeTS(a0=0.5)``.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from driftrank.validation import check_known

T = TypeVar("T")


class Registry(Generic[T]):
    """The public subclasses of ``base``: those in ``package``, and any others that are imported.

    A class that is only there to be derived from says so itself, by ``abstract = True`` in its own body.
    """

    def __init__(self, kind: str, base: type[T], package: str) -> None:
        self.kind = kind
        self._base = base
        self._package = package

    def all(self) -> dict[str, type[T]]:
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        found = {c.__name__: c for c in _subclasses(self._base) if not vars(c).get("abstract", False)}
        return {name: found[name] for name in sorted(found) if not name.startswith("_")}

    def get(self, name: str) -> type[T]:
        known = self.all()
        check_known(self.kind, name, known)
        return known[name]

    def parse(self, spec: str, **given: Any) -> T:
        """The object that ``NAME`` or ``NAME:key=value,...`` describes; ``given`` are arguments text cannot give."""
        name, colon, text = spec.strip().partition(":")
        if colon and not text.strip():
            raise ValueError(f"{self.kind} {spec!r}: parameters are missing after the colon")
        return self.make(name.strip(), dict(_pairs(text, f"{self.kind} {spec!r}")), **given)

    def make(self, name: str, arguments: Mapping[str, Any], **given: Any) -> T:
        """The object of that name; text arguments are read as the type of the parameter."""
        cls = self.get(name)
        fields = {f.name: f for f in dataclasses.fields(cls) if f.init and f.name not in given}  # type: ignore[arg-type]
        hints = typing.get_type_hints(cls)
        values = {}
        for key, value in arguments.items():
            check_known(f"parameter of {name}", key, fields)
            values[key] = self._read(key, value, hints[key]) if isinstance(value, str) else value
        for field in fields.values():
            missing = field.default is field.default_factory is dataclasses.MISSING
            if missing and field.name not in values:
                raise ValueError(f"{self.kind} {name}: the parameter {field.name} is missing")
        return cls(**given, **values)

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
                number = _number(text)
                if number is not None and number == int(number):
                    return int(number)
            if option is float and _number(text) is not None:
                return _number(text)
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


def _number(text: str) -> float | None:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def _numbers(key: str, text: str) -> tuple[float, ...]:
    """``[0.1;0.2]``."""
    inside = text[1:-1].strip()
    numbers = [_number(part) for part in inside.split(";")] if inside else []
    if not text.endswith("]") or None in numbers:
        raise ValueError(f"{key}={text!r}: must be numbers in the form [0.1;0.2]")
    return tuple(number for number in numbers if number is not None)


def _pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Split at commas outside parentheses."""
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


def _subclasses(cls: type[T]) -> Iterator[type[T]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
