"""Grids in specs: ``CascadeSWUCB:window=geom(50,20000,25)`` is 25 policies.

A parameter may be

* ``geom(a,b,n)``: n numbers from a to b, each the same multiple of the one before;
* ``lin(a,b,n)``: n numbers from a to b, each the same distance from the one before;
* ``1-geom(a,b,n)``: the same, as distances from 1, for discounts; likewise ``1-lin(a,b,n)``;
* ``{a;b;...}``: these values, which may be text.

If the parameter is an integer, numbers are rounded and duplicates dropped. Several grids in a spec are their product. A
policy in parentheses may have grids, too: ``OracleRestart:base=CascadeSWUCB(window=
geom(50,500,5))``; its parameter is called ``base.window``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from driftrank.reflection import Registry, read_number, read_pairs

#: the most points of one grid, and of the product of all grids of a spec
MOST = 100_000

_FORMS = "geom(from,to,count), lin(from,to,count), 1-geom(from,to,count) or {value;value;...}"
_RANGE = re.compile(r"(1\s*-\s*)?(geom|lin)\s*\((.*)\)", re.DOTALL)
_NESTED = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Axis:
    """The values of one parameter, as text."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Template:
    """A spec in which some parameters are grids."""

    name: str
    pairs: tuple[tuple[str, str | Axis | Template], ...] = ()

    def axes(self, prefix: str = "") -> dict[str, Axis]:
        """The grids, by the name of their parameter; those of a policy in parentheses have a name with a dot."""
        found: dict[str, Axis] = {}
        for key, value in self.pairs:
            if isinstance(value, Axis):
                found[prefix + key] = value
            elif isinstance(value, Template):
                found |= value.axes(f"{prefix}{key}.")
        return found

    def text(self, chosen: Mapping[str, str]) -> str:
        """The spec with these values in place of its grids; a grid without a value is left out."""
        pairs = self._pairs(chosen, "")
        return f"{self.name}:{pairs}" if pairs else self.name

    def _pairs(self, chosen: Mapping[str, str], prefix: str) -> str:
        parts = []
        for key, value in self.pairs:
            if isinstance(value, Axis):
                if prefix + key in chosen:
                    parts.append(f"{key}={chosen[prefix + key]}")
            elif isinstance(value, Template):
                inside = value._pairs(chosen, f"{prefix}{key}.")
                parts.append(f"{key}={value.name}({inside})" if inside else f"{key}={value.name}")
            else:
                parts.append(f"{key}={value}")
        return ",".join(parts)

    def points(self) -> Iterator[dict[str, str]]:
        """Every choice of values, the last grid running fastest."""
        axes = self.axes()
        for values in itertools.product(*(axis.values for axis in axes.values())):
            yield dict(zip(axes, values, strict=True))


def parse_template(spec: str, registry: Registry[Any]) -> Template:
    """The grids of a spec.

    >>> from driftrank.policies.registry import registry
    >>> template = parse_template("CascadeSWUCB:window=geom(50,800,5),ties={random;index}", registry)
    >>> template.axes()["window"].values
    ('50', '100', '200', '400', '800')
    >>> template.text({"window": "100", "ties": "index"})
    'CascadeSWUCB:window=100,ties=index'
    """
    name, colon, text = spec.strip().partition(":")
    where = f"{registry.kind} {spec!r}"
    if colon and not text.strip():
        raise ValueError(f"{where}: parameters are missing after the colon")
    template = _template(name.strip(), text, where, registry)
    count = math.prod(len(axis.values) for axis in template.axes().values())
    if count > MOST:
        raise ValueError(f"{where}: its grids have {count:,} points together; at most {MOST:,} are allowed")
    return template


def _template(name: str, text: str, where: str, registry: Registry[Any]) -> Template:
    cls = registry.get(name)
    hints = typing.get_type_hints(cls)
    known = {f.name for f in dataclasses.fields(cls) if f.init}
    pairs: list[tuple[str, str | Axis | Template]] = []
    renamed = getattr(cls, "renamed", {})
    for given, value in read_pairs(text, where):
        key = renamed.get(given, given)
        hint = hints[key] if key in known else None  # unknown ones are reported when the spec is read
        options = list(typing.get_args(hint)) if isinstance(hint, types.UnionType) else [hint]
        pairs.append((key, _value(key, value, options, where, registry)))
    return Template(name, tuple(pairs))


def _value(key: str, text: str, options: Sequence[Any], where: str, registry: Registry[Any]) -> str | Axis | Template:
    if "{" in text or "}" in text:
        return Axis(_list(key, text))
    if found := _RANGE.fullmatch(text):
        whole = int in options and float not in options
        return Axis(_range(key, text, found[2], found[3], bool(found[1]), whole))
    nested = _NESTED.fullmatch(text)
    if nested and nested[1] in registry.all():
        return _template(nested[1], nested[2], where, registry)
    if "(" in text and {int, float, str} & set(options):
        raise ValueError(f"{key}={text!r}: a grid must be {_FORMS}")
    return text


def _list(key: str, text: str) -> tuple[str, ...]:
    if not (text.startswith("{") and text.endswith("}")) or text.count("{") + text.count("}") > 2:
        raise ValueError(f"{key}={text!r}: a list must be of the form {{value;value;...}}, and not inside another")
    values = tuple(part.strip() for part in _split(text[1:-1]))
    if "" in values:
        raise ValueError(f"{key}={text!r}: a value is missing; the form is {{value;value;...}}")
    for value in values:
        if _RANGE.search(value):
            raise ValueError(f"{key}={text!r}: {value!r} is a grid of its own, which cannot be a value in a list")
        if values.count(value) > 1:
            raise ValueError(f"{key}={text!r}: {value} occurs twice")
    return values


def _split(text: str) -> Iterator[str]:
    """At semicolons outside brackets and parentheses."""
    depth, part = 0, ""
    for character in text + ";":
        depth += (character in "([") - (character in ")]")
        if character == ";" and depth <= 0:
            yield part
            part = ""
        else:
            part += character


def _range(key: str, text: str, kind: str, inside: str, below_one: bool, whole: bool) -> tuple[str, ...]:
    form = f"{'1-' if below_one else ''}{kind}(from,to,count)"
    given = [part.strip() for part in inside.split(",")]
    numbers = [read_number(part) for part in given]
    if len(numbers) != 3 or None in numbers:
        raise ValueError(f"{key}={text!r}: must be {form} with three numbers")
    low, high, count = (number for number in numbers if number is not None)
    if count != int(count) or not 2 <= count <= MOST:
        raise ValueError(f"{key}={text!r}: count must be an integer from 2 to {MOST:,}")
    if kind == "geom" and low <= 0.0:
        raise ValueError(f"{key}={text!r}: from must be above 0; of {form} the numbers are multiples of each other")
    if not low < high:
        raise ValueError(f"{key}={text!r}: from must be less than to")
    if below_one and whole:
        raise ValueError(f"{key}={text!r}: {form} is for numbers next to 1, and {key} is an integer")
    steps = int(count) - 1
    inner = [
        low * math.pow(high / low, i / steps) if kind == "geom" else low + (high - low) * (i / steps)
        for i in range(1, steps)
    ]
    if whole:
        return tuple(dict.fromkeys(str(round(number)) for number in (low, *inner, high)))
    ends = [str(Decimal(part.replace("_", ""))) for part in (given[0], given[1])]
    for digits in (6, 17):  # few digits make short names; more if values would coincide
        values = [ends[0], *(f"{number:.{digits}g}" for number in inner), ends[1]]
        if len(set(map(float, values))) == len(values):
            break
    if below_one:
        values = [format(1 - Decimal(value), "f") for value in values]
    if len(set(map(float, values))) < len(values):
        raise ValueError(f"{key}={text!r}: these numbers are too close to each other")
    return tuple(values)
