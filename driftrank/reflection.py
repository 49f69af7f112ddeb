"""Registries without lists: the known classes of a kind are its public subclasses.

A text such as ``CascadeSWUCB:window=500,ties=index`` names one with its parameters; a parameter that is itself of a kind is
written with parentheses, ``OracleRestart:base=CascadeTS(a0=0.5)``.
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
    """The public, concrete subclasses of ``base``: those in ``package``, and any others that are imported."""

    def __init__(self, kind: str, base: type[T], package: str, abstract: tuple[type, ...] = ()) -> None:
        self.kind = kind
        self._base = base
        self._package = package
        self._abstract = abstract

    def all(self) -> dict[str, type[T]]:
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        found = {c.__name__: c for c in _subclasses(self._base) if not c.__name__.startswith("_") and c not in self._abstract}
        return dict(sorted(found.items()))

    def get(self, name: str) -> type[T]:
        known = self.all()
        check_known(self.kind, name, known)
        return known[name]

    def parse(self, spec: str, **given: Any) -> T:
        """The object that ``NAME`` or ``NAME:key=value,...`` describes; ``given`` are arguments that text cannot give."""
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
        return cls(**given, **values)

    def _read(self, key: str, text: str, hint: Any) -> Any:
        options = list(typing.get_args(hint)) if isinstance(hint, types.UnionType) else [hint]
        for option in options:
            if option is type(None) and text.lower() == "none":
                return None
            if option is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if isinstance(option, type) and issubclass(option, self._base):
                name, _, rest = text.partition("(")
                return self.parse(f"{name}:{rest.rstrip(')')}" if rest.rstrip(")") else name)
            if option is int:
                number = _number(text)
                if number is not None and number == int(number):
                    return int(number)
            if option is float and _number(text) is not None:
                return _number(text)
            if typing.get_origin(option) is tuple and text.startswith("["):
                return tuple(float(part) for part in text.strip("[]").split(";"))
        if str in options:
            return text
        wanted = " or ".join(getattr(o, "__name__", str(o)) for o in options)
        raise ValueError(f"{key}={text!r}: must be {wanted}")


def _number(text: str) -> float | None:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None
    return number if abs(number) != float("inf") and number == number else None


def _pairs(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Split at commas outside parentheses."""
    depth, part = 0, ""
    for character in text + ",":
        depth += (character == "(") - (character == ")")
        if character != "," or depth:
            part += character
            continue
        if part.strip():
            key, equals, value = part.partition("=")
            if not equals or not value.strip():
                raise ValueError(f"{where}: {part.strip()!r} is not of the form key=value")
            yield key.strip(), value.strip()
        part = ""
    if depth:
        raise ValueError(f"{where}: parentheses do not match")


def _subclasses(cls: type) -> Iterator[type]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)
