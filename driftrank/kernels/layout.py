"""Parameters and state of kernels: named tuples over flat arrays.

A kernel writes ``p.epsilon`` and ``s.N[a]``; in memory, parameters are one row of numbers, and a state is one row of
float64 and one of int32. Flat rows can be saved, batched, interleaved and moved.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import generate


@dataclass(frozen=True)
class Field:
    """One array of a state: its dimensions (numbers, or ``"L"`` items, ``"K"`` positions), its fill value (one for all,
    or one for each), and its type, floats (64 bit) or integers (32 bit)."""

    dims: tuple[str | int, ...]
    fill: float | tuple[float, ...] = 0.0
    integer: bool = False

    def shape(self, L: int, K: int) -> tuple[int, ...]:
        known = {"L": L, "K": K}
        return tuple(known[d] if isinstance(d, str) else d for d in self.dims)


def field(*dims: str | int, fill: float | tuple[float, ...] = 0.0) -> Field:
    """A field of floats."""
    return Field(dims, fill)


def integers(*dims: str | int, fill: int | tuple[int, ...] = 0) -> Field:
    """A field of integers."""
    return Field(dims, fill, integer=True)


@dataclass(frozen=True)
class Layout:
    """The places of a state's fields, for given L and K."""

    fields: tuple[tuple[str, Field], ...]
    L: int
    K: int

    @classmethod
    def of(cls, fields: Mapping[str, Field], L: int, K: int) -> Layout:
        return cls(tuple(fields.items()), L, K)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Begin and end of every field in its row."""
        ends = {False: 0, True: 0}
        rows = []
        for _, f in self.fields:
            begin = ends[f.integer]
            ends[f.integer] = begin + math.prod(f.shape(self.L, self.K))
            rows.append((begin, ends[f.integer]))
        return np.array(rows, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The numbers of floats and of integers in the state."""
        count = {False: 0, True: 0}
        for _, f in self.fields:
            count[f.integer] += math.prod(f.shape(self.L, self.K))
        return count[False], count[True]

    def empty(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Rows with every field at its fill value."""
        floats, ints = self.sizes
        rows = np.zeros(floats), np.zeros(ints, np.int32)
        for (_, f), (begin, end) in zip(self.fields, self.offsets, strict=True):
            rows[f.integer][begin:end] = f.fill
        return rows

    @cached_property
    def begins(self) -> dict[str, int]:
        """The beginning of every field in its row."""
        return {name: int(begin) for (name, _), (begin, _) in zip(self.fields, self.offsets, strict=True)}

    def views(self, floats: NDArray[Any], ints: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The fields as arrays of their own shape that share memory with the rows."""
        rows = (floats, ints)
        return {name: rows[integer][begin:end].reshape(shape) for name, integer, begin, end, shape in self._slices}

    @cached_property
    def _slices(self) -> list[tuple[str, bool, int, int, tuple[int, ...]]]:
        """By field: its name, True if it is of integers, its begin and end in its row, and its shape."""
        return [
            (name, f.integer, begin, end, f.shape(self.L, self.K))
            for (name, f), (begin, end) in zip(self.fields, self.offsets.tolist(), strict=True)
        ]

    def places_in(self, larger: Layout) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The places of a state's floats and integers in the rows of a larger layout of the same fields."""
        places = larger.views(*(np.arange(size) for size in larger.sizes))
        parts: tuple[list[NDArray[np.intp]], ...] = ([np.zeros(0, np.intp)], [np.zeros(0, np.intp)])
        for name, integer, _, _, shape in self._slices:
            parts[integer].append(places[name][tuple(slice(0, n) for n in shape)].ravel())
        return np.concatenate(parts[False]), np.concatenate(parts[True])


@cache
def state_unpacker(names: tuple[str, ...], integer: tuple[bool, ...]) -> Any:
    """The kernel ``(floats, ints, offsets) -> state``; every field is a flat view."""
    cls = namedtuple("State", names)  # type: ignore[misc]
    rows = ", ".join(f"{'ints' if i else 'floats'}[o[{n}, 0]:o[{n}, 1]]" for n, i in enumerate(integer))
    return generate("state_of", "floats, ints, o", f"State({rows})", {"State": cls})


@cache
def parameter_unpacker(
    names: tuple[str, ...], integer: tuple[bool, ...], fixed: tuple[tuple[str, int], ...] = ()
) -> Any:
    """The kernel ``row -> parameters``; those in ``fixed`` are compiled in instead of read."""
    cls = namedtuple("Parameters", names)  # type: ignore[misc]
    known = {name: repr(value) for name, value in fixed}
    values = ", ".join(
        known.get(name, f"int(row[{n}])" if i else f"row[{n}]")
        for n, (name, i) in enumerate(zip(names, integer, strict=True))
    )
    return generate("parameters_of", "row", f"Parameters({values})", {"Parameters": cls, "int": int})


def parameter_row(parameters: Mapping[str, float]) -> NDArray[np.float64]:
    """The values of parameters, in their order."""
    return np.array([float(v) for v in parameters.values()])


def parameter_reader(parameters: Mapping[str, float], fixed: Mapping[str, int] | None = None) -> Any:
    """The unpacker for a dictionary of parameters."""
    integer = tuple(isinstance(v, (int, np.integer)) for v in parameters.values())
    return parameter_unpacker(tuple(parameters), integer, tuple((fixed or {}).items()))
