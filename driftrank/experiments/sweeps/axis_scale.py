"""Axes for parameters: the scale on which their values are evenly spaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: the factor by which values may be less evenly spaced on a simpler scale
_SIMPLER = 1.1
#: the most values of a linear scale that all get a tick label
_FEW = 9


@dataclass(frozen=True)
class Scale:
    """The positions of a parameter's values on an axis.

    ``kind`` is ``"linear"``, ``"log"``, ``"below one"`` (logarithmic in the distance from 1, for discounts), or
    ``"words"`` (text, one value beside the other).
    """

    kind: str
    values: tuple[Any, ...]  #: in the order of the axis
    shift: float = 0.0  #: of text to the right, so that one mark does not hide another

    @property
    def words(self) -> bool:
        return self.kind == "words"

    @classmethod
    def of(cls, values: Iterable[Any]) -> Scale:
        """The scale for some values.

        >>> Scale.of([50, 100, 200, 400]).kind, Scale.of([0.9, 0.99, 0.999]).kind, Scale.of(["random", "index"]).kind
        ('log', 'below one', 'words')
        """
        there = list(dict.fromkeys(values))
        if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in there):
            return cls("words", tuple(there))
        there.sort()
        numbers = np.array(there, float)
        uneven = {"linear": _unevenness(numbers)}
        if numbers[0] > 0.0:
            uneven["log"] = _unevenness(np.log(numbers))
        if numbers[-1] < 1.0:
            uneven["below one"] = _unevenness(-np.log1p(-numbers))
        least = min(uneven.values())
        return cls(next(kind for kind, u in uneven.items() if u <= _SIMPLER * least + 1e-9), tuple(there))

    def at(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Coordinates on the axis; those of a parameter below one are its distances from 1."""
        if self.words:
            places = {value: i + self.shift for i, value in enumerate(self.values)}
            return np.array([places.get(value, np.nan) for value in values])
        numbers = np.array(values, float)
        return 1.0 - numbers if self.kind == "below one" else numbers

    def holds(self, value: Any) -> bool:
        """True if a value can be marked on the axis."""
        if self.words:
            return value in self.values
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and {"linear": True, "log": value > 0, "below one": value < 1}[self.kind]

    def edges(self) -> NDArray[np.float64]:
        """The borders of cells around the values."""
        at = self.at(self.values)
        bent = np.log(at) if self.kind in ("log", "below one") else at
        if len(bent) == 1:
            bent = np.array([bent[0] - 0.5, bent[0] + 0.5])
        else:
            middle = (bent[1:] + bent[:-1]) / 2
            bent = np.array([2 * bent[0] - middle[0], *middle, 2 * bent[-1] - middle[-1]])
        return np.exp(bent) if self.kind in ("log", "below one") else bent

    def dress(self, axis: Any, name: str) -> None:
        """Make an axis (``ax.xaxis`` or ``ax.yaxis``) of it."""
        from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

        ax, which = axis.axes, axis.axis_name
        getattr(ax, f"set_{which}label")(name)
        if self.words:
            axis.set_ticks(np.arange(len(self.values)), [str(value) for value in self.values])
            getattr(ax, f"set_{which}lim")(-0.5, len(self.values) - 0.5)
            return
        if self.kind == "linear":
            if len(self.values) <= _FEW:
                axis.set_ticks(self.values)
            axis.set_major_formatter(lambda value, _: short(value))
            return
        getattr(ax, f"set_{which}scale")("log")
        wide = self.values[-1] > 300 * self.values[0] if self.kind == "log" else True
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=20))
        axis.set_minor_locator(LogLocator(subs=tuple(range(2, 10)), numticks=20) if wide else NullLocator())
        axis.set_minor_formatter(NullFormatter())
        below = self.kind == "below one"
        axis.set_major_formatter(lambda value, _: f"{1.0 - value:.10g}" if below else short(value))
        if below and not getattr(ax, f"{which}axis_inverted")():
            axis.set_inverted(True)  # larger discounts to the right, as all numbers


def _unevenness(numbers: NDArray[np.float64]) -> float:
    steps = np.diff(numbers)
    return float(steps.std() / steps.mean()) if len(steps) else 0.0


def short(value: float) -> str:
    """A number on an axis."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"
