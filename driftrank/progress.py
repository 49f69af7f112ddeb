"""Progress bars with steps, or lines, per second, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self


class Progress:
    """Progress that is not shown."""

    def __init__(self, totals: Mapping[str, int], unit: str = "steps") -> None:
        self.totals = totals
        self.unit = unit

    @staticmethod
    def where_watched(totals: Mapping[str, int], unit: str = "steps") -> Progress:
        """A bar if standard error is a terminal, otherwise only notes."""
        return shown_progress(totals, unit) if sys.stderr.isatty() else _Notes(totals, unit)

    def advance(self, label: str, steps: int, counted: bool | int = True) -> None:
        """Report ``steps`` more; ``counted=False`` leaves them out of the speed, as they took no time now.

        An integer is the number that the speed counts, if the bar does not measure in its unit.
        """

    def note(self, text: str) -> None:
        """Say what is done now, if it takes long; nothing: it is over."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _Notes(Progress):
    """A line for every note, for logs and pipes."""

    def note(self, text: str) -> None:
        if text:
            print(f"driftrank: {text}", file=sys.stderr, flush=True)


class _Bars(Progress):
    """One line per policy, or per file."""

    def __init__(self, totals: Mapping[str, int], unit: str = "steps") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        super().__init__(totals, unit)
        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[speed]}"),
            console=Console(stderr=True),
        )
        self._tasks = {label: self._bars.add_task(label, total=n, speed="") for label, n in totals.items()}
        self._counted = dict.fromkeys(totals, 0)
        self._begin: dict[str, float] = {}
        self._note: Any = None

    def advance(self, label: str, steps: int, counted: bool | int = True) -> None:
        speed: dict[str, Any] = {}
        now = time.perf_counter()
        if counted:
            self._begin.setdefault(label, now)
            self._counted[label] += steps if counted is True else counted
            elapsed = now - self._begin[label]
            if elapsed > 0.2:
                speed = {"speed": f"{_short(self._counted[label] / elapsed)} {self.unit}/s"}
        self._bars.update(self._tasks[label], advance=steps, **speed)

    def note(self, text: str) -> None:
        if self._note is None:
            self._note = self._bars.add_task("", total=None, speed="")
        self._bars.update(self._note, description=text, visible=bool(text))

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()


def _short(speed: float) -> str:
    """A speed in millions if it is large, as those of simulations are.

    >>> _short(8_260_000), _short(812.3)
    ('   8.3 M', '   812')
    """
    return f"{speed / 1e6:6.1f} M" if speed >= 50_000 else f"{speed:6.0f}"


def shown_progress(totals: Mapping[str, int], unit: str = "steps") -> Progress:
    """Bars on standard error, one for every total."""
    return _Bars(totals, unit)


def no_progress(totals: Mapping[str, int], unit: str = "steps") -> Progress:
    """Count, and show nothing."""
    return Progress(totals, unit)


def chosen_progress(wanted: bool | Progress | None, totals: Mapping[str, int], unit: str = "steps") -> Progress:
    """Bars if wanted; None: if standard error is a terminal. An existing Progress is returned unchanged."""
    if isinstance(wanted, Progress):
        return wanted
    make = Progress.where_watched if wanted is None else shown_progress if wanted else no_progress
    return make(totals, unit)
