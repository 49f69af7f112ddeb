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
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine import MEASURES
from driftrank.experiments.columns import column, dictionary_column, text_column
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
    _new: list[tuple[int, int, int, NDArray[np.float64]]] = field(default_factory=list)  # places of policy and query
    _busy: dict[str, list[float]] = field(default_factory=dict)  # seconds and steps since the latest part
    _flushed: float = field(default_factory=time.monotonic)

    @property
    def parts(self) -> Path:
        return self.folder / "parts"

    @cached_property
    def _policies(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.result.labels)}

    @cached_property
    def _queries(self) -> dict[str, int]:
        return {query: i for i, query in enumerate(self.result.queries)}

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
        policy = self._policies[label]
        self.result.put(policy, query, runs, measures, seconds)
        self._new += [(policy, self._queries[query], run, measures[i]) for i, run in enumerate(runs)]
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
        r = self.result
        policies, queries, runs, found = zip(*self._new, strict=True)
        n, measures = len(r.checkpoints), np.concatenate(found)
        table = pyarrow.table(
            {
                "policy": dictionary_column(np.repeat(policies, n), r.labels),
                "query": dictionary_column(np.repeat(queries, n), r.queries),
                "run": column(np.repeat(np.array(runs, np.int32), n)),
                "step": column(np.tile(r.checkpoints, len(runs))),
                **{name: column(measures[:, i]) for i, name in enumerate(MEASURES)},
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
            places, values = _runs(table, r)
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            raise ValueError(f"{path}: cannot be read ({error}); start again without resuming") from None
        policies, queries, runs = places
        r.values[:, policies, queries, runs] = values
        for label, (seconds, steps) in about["busy"].items():
            r.busy[self._policies[label]] += seconds
            r.stepped[self._policies[label]] += int(steps)
        r.seconds = max(r.seconds, about["seconds"])
        each = zip(policies.tolist(), queries.tolist(), runs.tolist(), strict=True)
        return {(r.labels[policy], r.queries[query], run) for policy, query, run in each}


def _runs(table: Any, result: Result) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]:
    """The runs in a table of the long form: policy, query and number of each, and (measure, run, checkpoint)."""
    import pyarrow
    import pyarrow.compute

    n = len(result.checkpoints)
    steps = table["step"].to_numpy().reshape(-1, n)
    if (steps != result.checkpoints).any():
        raise ValueError("its checkpoints are others")
    first = table.take(column(np.arange(0, len(table), n)))
    places = []
    for name, known in (("policy", result.labels), ("query", result.queries)):
        found = pyarrow.compute.index_in(first[name].cast(pyarrow.string()), text_column(known))
        if found.null_count:
            raise ValueError(f"its column {name} holds others")
        places.append(found.to_numpy().astype(np.int64))
    runs = first["run"].to_numpy().astype(np.int64)
    wanted = runs < result.runs
    values = np.stack([table[name].to_numpy().reshape(-1, n)[wanted] for name in MEASURES])
    return (places[0][wanted], places[1][wanted], runs[wanted]), values
