"""The base class of detectors: a frozen description with two kernels over the state of one item."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from driftrank.kernels.compile import specialise
from driftrank.kernels.layout import Field, Layout, parameter_reader, parameter_row, state_unpacker
from driftrank.policies.detecting.detectors import templates
from driftrank.validation import check_choice

#: the least horizon to plan for; if the horizon is unknown, the step takes its place from here on
SHORTEST = 100


@dataclass(frozen=True)
class DetectorPlan:
    """The number of streams, and of observations to come if known."""

    L: int = 1
    horizon: int | None = None


@dataclass(frozen=True, kw_only=True)
class Detector:
    """A test for changes in streams of zeros and ones, one stream for every item.

    A subclass has its parameters as fields, and two kernels: ``observe(p, s, e, a, y)`` takes the next label of item
    ``a`` and returns True if the detector fires, ``clear(p, s, a)`` forgets all labels of item ``a``, in constant time;
    it must also initialise a state at its fill values.
    """

    #: the allowed values of string parameters; kernels get their index
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

    def numbers(self, plan: DetectorPlan) -> dict[str, float]:
        """The numbers that the kernels get. Integers stay integers."""
        raise NotImplementedError(f"{type(self).__name__} does not define numbers, the parameters of its kernels")

    def fields(self) -> dict[str, Field]:
        """The arrays of the state."""
        raise NotImplementedError(f"{type(self).__name__} does not define its state")

    def exploration(self, plan: DetectorPlan, n_breakpoints: int) -> float:
        """The part of the steps that its authors force to explore, for a known horizon."""
        raise NotImplementedError(f"{type(self).__name__} does not define exploration, its part of forced steps")

    def run(self, stream: Iterable[Any]) -> list[int]:
        """The observations, counted from 1, at which it fires; it restarts after each.

        For a parameter that is ``"auto"``, the length of the stream is the horizon.
        """
        _, fired = self._watch(self._labels(stream), restart=True)
        return [int(n) + 1 for n in np.flatnonzero(fired)]

    @staticmethod
    def _labels(stream: Iterable[Any]) -> NDArray[np.int8]:
        labels = stream if isinstance(stream, np.ndarray) else np.array(list(stream))
        if labels.size and not np.isin(labels, (0, 1)).all():
            raise ValueError("stream: must be zeros and ones only")
        return labels.astype(np.int8)

    def _watch(self, labels: NDArray[np.int8], restart: bool) -> tuple[dict[str, NDArray[Any]], NDArray[np.int8]]:
        """The state after a stream, and 1 for every label at which it fired (and restarted, with ``restart``)."""
        numbers = {"L": 1} | dict(sorted(self.numbers(DetectorPlan(1, max(1, len(labels)))).items()))
        layout = Layout.of(self.fields(), 1, 1)
        rows = layout.empty()
        integer = tuple(f.integer for _, f in layout.fields)
        watch = _compiled(self.observe, self.clear, parameter_reader(numbers), state_unpacker(layout.names, integer))
        fired = np.zeros(len(labels), np.int8)
        watch(*rows, layout.offsets, parameter_row(numbers), labels, fired, restart)
        return layout.views(*rows), fired


@cache
def _compiled(observe: Any, clear: Any, parameters: Any, state: Any) -> Any:
    bindings = {"PARAMETERS": parameters, "STATE": state, "OBSERVE": observe, "CLEAR": clear}
    return specialise(templates.watch, bindings)
