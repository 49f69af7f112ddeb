"""What a simulation has finished, kept on disk while it runs.

Runs are independent of each other and of how they are shared out, so a simulation that was stopped goes on with the
runs that are missing, and ends with the same numbers. Finished runs lie in ``parts/*.parquet``, later in
``results.parquet``; both say in their metadata what they are part of, so that nothing of another simulation is ever
taken for ours.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.results import Result
from driftrank.files import written

#: seconds between two parts
INTERVAL = 10.0

_KEY = "driftrank"


@dataclass
class Journal:
    """The finished runs of one simulation in one folder."""

    folder: Path
    identity: Mapping[str, Any]  #: what determines the numbers
    result: Result  #: holds the runs finished so far
    _new: list[tuple[str, str, int, NDArray[np.float64]]] = field(default_factory=list)
    _busy: dict[str, list[float]] = field(default_factory=dict)  # seconds and steps since the latest part
    _flushed: float = field(default_factory=time.monotonic)

    @property
    def parts(self) -> Path:
        return self.folder / "parts"

    def clear(self) -> None:
        """Forget the parts."""
        shutil.rmtree(self.parts, ignore_errors=True)

    def read(self) -> set[tuple[str, str, int]]:
        """Enter into the result what is on disk; returns which runs that is."""
        finished: set[tuple[str, str, int]] = set()
        # parts have numbers for names; what a killed process was just writing has a name with a dot before
        for path in [self.folder / "results.parquet", *sorted(self.parts.glob("[0-9]*.parquet"))]:
            if path.exists():
                finished |= self._read(path)
        return finished

    def add(self, label: str, query: str, runs: tuple[int, ...], measures: NDArray[np.float64], seconds: float) -> None:
        """Some more runs are finished; every now and then they go to disk."""
        self.result.put(self.result.labels.index(label), query, runs, measures, seconds)
        self._new += [(label, query, run, measures[i]) for i, run in enumerate(runs)]
        busy = self._busy.setdefault(label, [0.0, 0])
        busy[0] += seconds
        busy[1] += len(runs) * self.result.horizon
        if time.monotonic() - self._flushed >= INTERVAL:
            self.flush()

    def flush(self) -> None:
        """Write a part with the runs that no part holds yet."""
        import pyarrow
        import pyarrow.parquet

        if not self._new:
            return
        labels, queries, runs, measures = zip(*self._new, strict=True)
        n = len(self.result.checkpoints)
        table = pyarrow.table(
            {
                "policy": np.repeat(labels, n),
                "query": np.repeat(queries, n),
                "run": np.repeat(np.array(runs, np.int32), n),
                "step": np.tile(self.result.checkpoints, len(runs)),
                **{name: np.concatenate([m[:, i] for m in measures]) for i, name in enumerate(MEASURES)},
            },
            metadata=self._metadata(self._busy),
        )
        self.parts.mkdir(exist_ok=True)
        number = sum(1 for _ in self.parts.glob("[0-9]*.parquet"))
        with written(self.parts / f"{number:06d}.parquet") as path:
            pyarrow.parquet.write_table(table, path, compression="zstd")
        self._new.clear()
        self._busy.clear()
        self._flushed = time.monotonic()

    def save(self) -> None:
        """Write the results, whole; the parts are not needed any more."""
        r = self.result
        busy = {label: [r.busy[i], r.stepped[i]] for i, label in enumerate(r.labels)}
        r.save(self.folder, metadata=self._metadata(busy))
        self.clear()

    def _metadata(self, busy: Mapping[str, list[float]]) -> dict[str, str]:
        return {_KEY: json.dumps({"of": self.identity, "busy": busy, "seconds": self.result.seconds})}

    def _read(self, path: Path) -> set[tuple[str, str, int]]:
        import pyarrow
        import pyarrow.parquet

        r = self.result
        try:
            table = pyarrow.parquet.read_table(path)
            about = json.loads((table.schema.metadata or {}).get(_KEY.encode(), b"{}"))
            if about.get("of") != self.identity:  # left behind by another simulation in this folder
                return set()
            found = list(_runs(table, r))
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            raise ValueError(f"{path}: cannot be read ({error}); start again without resuming") from None
        for label, query, run, measures in found:
            r.values[:, r.labels.index(label), r.queries.index(query), run] = measures
        for label, (seconds, steps) in about["busy"].items():
            r.busy[r.labels.index(label)] += seconds
            r.stepped[r.labels.index(label)] += int(steps)
        r.seconds = max(r.seconds, about["seconds"])
        return {(label, query, run) for label, query, run, _ in found}


def _runs(table: Any, result: Result) -> Iterator[tuple[str, str, int, NDArray[np.float64]]]:
    """The runs in a table of the long form, each with its measures (measure, checkpoint)."""
    n = len(result.checkpoints)
    steps = table["step"].to_numpy().reshape(-1, n)
    if (steps != result.checkpoints).any():
        raise ValueError("its checkpoints are others")
    values = np.stack([table[name].to_numpy().reshape(-1, n) for name in MEASURES], axis=1)
    first = table.take(np.arange(0, len(table), n))
    names = (first[column].cast("string").to_pylist() for column in ("policy", "query"))
    for label, query, run, measures in zip(*names, first["run"].to_pylist(), values, strict=True):
        if run < result.runs:
            yield label, query, run, measures
