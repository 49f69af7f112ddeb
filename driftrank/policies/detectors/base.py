"""What a detector is: a frozen description, and two kernels over the state of one item."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import specialise
from driftrank.kernels.tuples import Field, Layout, parameter_reader, parameter_row, state_unpacker
from driftrank.policies.detectors import steps
from driftrank.validation import check_choice

#: fewer steps than this nobody plans for; where the horizon is unknown the step takes its place, from here on
SHORTEST = 100


@dataclass(frozen=True)
class Plan:
    """What a detector may be told before it starts: streams to watch, and observations to come if anybody knows."""

    L: int = 1
    horizon: int | None = None


@dataclass(frozen=True, kw_only=True)
class Detector:
    """A test for changes in streams of zeros and ones, one stream for every item.

    A subclass has its parameters as fields, and two kernels: ``observe(p, s, e, a, y)`` tells it the next label of item
    ``a`` and returns whether it fires, ``clear(p, s, a)`` forgets all that was seen of item ``a``. What ``clear`` does
    must take constant time, and must also bring a state at its fill values to order.
    """

    #: parameters that are one of a few words; kernels see the word's place in the list
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    observe: ClassVar[Any]
    clear: ClassVar[Any]

    def __post_init__(self) -> None:
        for name, allowed in self.choices.items():
            check_choice(name, getattr(self, name), allowed)

    @classmethod
    def of(cls, options: Any) -> Self:
        """The detector whose parameters are attributes of ``options``."""
        return cls(**{f.name: getattr(options, f.name) for f in dataclasses.fields(cls)})

    def numbers(self, plan: Plan) -> dict[str, float]:
        """The numbers that the kernels see. Integers stay integers."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its kernels see")

    def fields(self) -> dict[str, Field]:
        """The arrays of the state."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its state is")

    def exploration(self, plan: Plan, n_breakpoints: int) -> float:
        """The part of the steps that its authors spend on showing every item, for a horizon that is known."""
        raise NotImplementedError(f"{type(self).__name__} does not say how much it explores")

    def run(self, stream: Iterable[Any]) -> list[int]:
        """The observations, counted from 1, at which it fires; after each it starts anew.

        Where a parameter is ``"auto"``, the length of the stream is the horizon.
        """
        _, fired = self._watch(self._labels(stream), anew=True)
        return [int(n) + 1 for n in np.flatnonzero(fired)]

    @staticmethod
    def _labels(stream: Iterable[Any]) -> NDArray[np.int8]:
        labels = stream if isinstance(stream, np.ndarray) else np.array(list(stream))
        if labels.size and not np.isin(labels, (0, 1)).all():
            raise ValueError("stream: must hold zeros and ones only")
        return labels.astype(np.int8)

    def _watch(self, labels: NDArray[np.int8], anew: bool) -> tuple[dict[str, NDArray[Any]], NDArray[np.int8]]:
        """The state after a stream, and at which labels the detector fired; whether it starts ``anew`` then."""
        numbers = {"L": 1} | dict(sorted(self.numbers(Plan(1, max(1, len(labels)))).items()))
        layout = Layout.of(self.fields(), 1, 1)
        rows = layout.empty()
        integer = tuple(f.integer for _, f in layout.fields)
        watch = _compiled(self.observe, self.clear, parameter_reader(numbers), state_unpacker(layout.names, integer))
        fired = np.zeros(len(labels), np.int8)
        watch(*rows, layout.offsets, parameter_row(numbers), labels, fired, anew)
        return layout.views(*rows), fired


@cache
def _compiled(observe: Any, clear: Any, parameters: Any, state: Any) -> Any:
    bindings = {"PARAMETERS": parameters, "STATE": state, "OBSERVE": observe, "CLEAR": clear}
    return specialise(steps.watch, bindings)
