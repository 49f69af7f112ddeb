"""The long form of a sweep: one row per run and checkpoint, with the swept parameters as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.sweeps.family import Family, Point
from driftrank.reporting.arrow import column, dictionary_column

if TYPE_CHECKING:
    import pyarrow

    from driftrank.experiments.sweeps.result import Sweep, Trial

#: columns that are not parameters
OWN = ("environment", "policy", "setting", "query", "run", "step", *MEASURES)
#: rows of a part
ROWS = 1 << 19


def parameter_columns(sweep: Sweep) -> dict[str, str]:
    """The swept parameters of policies, and the names of their columns."""
    names = dict.fromkeys(name for family in sweep.families for name in family.parameters)
    return {name: f"policy.{name}" if name in OWN else name for name in names}


def environment_columns(sweep: Sweep) -> dict[str, str]:
    """The same of environments."""
    names = dict.fromkeys(name for trial in sweep.trials for name in trial.parameters)
    return {name: f"environment.{name}" for name in names}


def tables(sweep: Sweep) -> Iterator[pyarrow.Table]:
    """The rows in parts. Unfinished runs are left out."""
    kinds = _kinds(sweep)
    for trial in sweep.trials:
        finished = trial.result.finished
        size = max(1, ROWS // (finished[0].size * len(trial.result.checkpoints)))
        for family in sweep.families:
            points = family.points
            if family.reference is not None and family.reference not in {p.spec for p in points}:
                points += (Point(family.reference, (None,) * len(family.parameters)),)
            for start in range(0, len(points), size):
                own = points[start : start + size]
                if finished[[sweep.places[p.spec] for p in own]].any():
                    yield _table(sweep, trial, family, own, kinds)


def _table(
    sweep: Sweep, trial: Trial, family: Family, points: Sequence[Point], kinds: dict[str, type]
) -> pyarrow.Table:
    import pyarrow

    result, places = trial.result, [sweep.places[p.spec] for p in points]
    n = len(result.checkpoints)
    kept = result.finished[places]
    point, query, run = (np.repeat(part, n) for part in np.nonzero(kept))
    same = np.zeros(len(point), np.int64)
    columns = {"environment": dictionary_column(same, [trial.name])}
    for name, title in environment_columns(sweep).items():
        columns[title] = _column([trial.parameters.get(name)], same, kinds[title])
    columns["policy"] = dictionary_column(same, [family.label])
    columns["setting"] = dictionary_column(point, [p.spec for p in points])
    for name, title in parameter_columns(sweep).items():
        columns[title] = _column([family.values(p).get(name) for p in points], point, kinds[title])
    columns["query"] = dictionary_column(query, result.queries)
    columns["run"] = column(run.astype(np.int32))
    columns["step"] = column(np.tile(result.checkpoints, len(point) // n))
    columns |= {name: column(result.values[i, places][kept].reshape(-1)) for i, name in enumerate(MEASURES)}
    return pyarrow.table(columns)


def _kinds(sweep: Sweep) -> dict[str, type]:
    """The types of the parameters' columns: booleans, integers, numbers or, for anything else, text."""
    found: dict[str, type] = {}
    for name, title in parameter_columns(sweep).items():
        found[title] = _kind(family.values(p).get(name) for family in sweep.families for p in family.points)
    for name, title in environment_columns(sweep).items():
        found[title] = _kind(trial.parameters.get(name) for trial in sweep.trials)
    return found


def _kind(values: Iterable[Any]) -> type:
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) == 1:
        return kinds.pop()
    return float if kinds <= {int, float} else str


def _column(values: Sequence[Any], codes: NDArray[np.int64], kind: type) -> pyarrow.Array:
    """``values[code]`` for every code; None becomes null."""
    import pyarrow

    there = np.array([value is not None for value in values])
    valid = pyarrow.py_buffer(np.packbits(there[codes], bitorder="little"))
    if kind is str:
        text = dictionary_column(codes, ["" if value is None else str(value) for value in values])
        codes32 = pyarrow.Array.from_buffers(pyarrow.int32(), len(codes), [valid, text.indices.buffers()[1]])
        return pyarrow.DictionaryArray.from_arrays(codes32, text.dictionary)
    numbers: NDArray[Any] = np.array([0 if value is None else value for value in values], kind)[codes]
    if kind is bool:
        numbers = np.packbits(numbers, bitorder="little")
        return pyarrow.Array.from_buffers(pyarrow.bool_(), len(codes), [valid, pyarrow.py_buffer(numbers)])
    return pyarrow.Array.from_buffers(
        pyarrow.from_numpy_dtype(numbers.dtype), len(codes), [valid, pyarrow.py_buffer(np.ascontiguousarray(numbers))]
    )
