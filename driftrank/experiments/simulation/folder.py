"""The folder of an experiment, which can be stopped, continued and repeated.

``run.toml`` holds the settings. Finished runs are written to ``parts`` every few seconds, and the whole result to
``results.parquet``; both have the identity of the experiment in their metadata, so that runs of another experiment are
never mistaken for ours. Runs are independent of each other and of how they are distributed, so an experiment that was
stopped continues with the missing runs and ends with the same numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank import __version__
from driftrank.engine import Unit
from driftrank.experiments.simulation.labels import known_label
from driftrank.experiments.simulation.result import Result, run_rows
from driftrank.extras import need
from driftrank.files import read_toml, usable_folder, written, written_text
from driftrank.queries import Queries
from driftrank.reporting.arrow import column, text_column
from driftrank.reporting.toml import write_toml

#: settings that a folder adds, so that numbers of different origin are never mixed
ORIGIN = ("driftrank", "queries_digest")
#: the settings that determine the numbers: an experiment can be continued only if these are equal
IDENTIFYING = (
    "policy", "policies", "env", "queries", "n_queries", "k", "click_model", "horizon", "seed", "checkpoints", *ORIGIN,
)  # fmt: skip

#: seconds between two parts
INTERVAL = 10.0

RESULTS = "results.parquet"
#: how ``run.toml`` begins, with the kind of experiment
_WHAT = re.compile("# These are the settings of the ([a-z]+) in this folder")
#: the key of our metadata in Parquet files
_KEY = "driftrank"


class Interrupted(KeyboardInterrupt):
    """An experiment was stopped; its finished runs are in the folder."""

    def __init__(self, folder: Path, finished: int, wanted: int) -> None:
        super().__init__(f"{finished} of {wanted} runs are kept in {folder}")
        self.folder, self.finished, self.wanted = folder, finished, wanted


class RunFolder:
    """The folder of one experiment: a simulation, or several of them side by side.

    Parameters
    ----------
    settings
        The experiment, for ``run.toml``: text, numbers and lists of them.
    queries
        The queries of all environments.
    made
        Patterns of the files that are made of the results; they are deleted when they no longer belong to them.
    resume
        Continue the experiment in the folder, if there is one: it must have the same settings, but may have fewer runs.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Mapping[str, Any],
        *queries: Queries,
        what: str = "simulation",
        made: Sequence[str] = (),
        resume: bool = False,
    ) -> None:
        need("plots", "pyarrow")
        self.path, self.resume = Path(path), resume
        self.parts, self._toml = self.path / "parts", self.path / "run.toml"
        self._made = (RESULTS, "summary.json", *made)
        settings = with_origin(settings, *queries)
        self.identity = identity_of(settings)
        self._text = write_toml(settings, f"These are the settings of the {what} in this folder.")
        self._before = self._toml.read_text(encoding="utf-8", errors="replace") if self._toml.is_file() else None
        other = _WHAT.match(self._before or "")
        if other is not None and other[1] != what:
            raise ValueError(f"{self.path}: has the results of a {other[1]}; a {what} needs a folder of its own")
        if resume and self._before is not None:
            _check_same(self.path, read_toml(self._toml), settings)

    def journal(self, result: Result, part: str = "") -> Journal:
        """The finished runs of a simulation: the only one of this folder, or a ``part`` of several."""
        return Journal(self.parts / part if part else self.path, self.identity, result)

    @property
    def holds_ours(self) -> bool:
        """True if ``results.parquet`` is of this experiment; it may have fewer runs."""
        return _identity(self.path / RESULTS) == self.identity

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of ``results.parquet`` when it holds several simulations."""
        return {_KEY: json.dumps({"of": self.identity})}

    @contextmanager
    def recording(self, journals: Sequence[Journal]) -> Iterator[None]:
        """Keep the runs that finish inside. On Ctrl-C, :class:`Interrupted` is raised."""
        usable_folder(self.path)
        ours = self.holds_ours
        if self.resume:
            for journal in journals:
                journal.read()
        else:
            self.clear()
        try:
            written_text(self._toml, self._text)
            yield
        except BaseException as stop:
            try:
                for journal in journals:
                    journal.flush()
            finally:
                self._keep(ours)
            if not isinstance(stop, KeyboardInterrupt):
                raise
            finished = [journal.result.finished for journal in journals]
            raise Interrupted(self.path, sum(int(f.sum()) for f in finished), sum(f.size for f in finished)) from stop

    def discard(self, *patterns: str) -> None:
        """Delete files that do not belong to the results any more; all of them by default."""
        for pattern in patterns or self._made:
            for path in self.path.glob(pattern):
                path.unlink()

    def clear(self) -> None:
        """Delete the parts."""
        shutil.rmtree(self.parts, ignore_errors=True)

    def _keep(self, ours: bool) -> None:
        """Leave the folder consistent: with the parts and their settings, or as it was before."""
        if any(self.parts.rglob("[0-9]*.parquet")):
            if not ours:
                self.discard()
            return
        self.clear()
        if self._before is not None:
            written_text(self._toml, self._before)


class Journal:
    """The finished runs of one simulation, written to ``parts/NUMBER.parquet`` in a folder."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], result: Result) -> None:
        self.folder, self.parts = folder, folder / "parts"
        self.result = result
        self._identity = identity
        self._new: list[tuple[Unit, NDArray[np.float64], float]] = []
        self._flushed = time.monotonic()

    def read(self) -> None:
        """Enter the runs on disk into the result."""
        # parts have numbers for names; a file that a killed process was writing begins with a dot
        for path in [self.folder / RESULTS, *sorted(self.parts.glob("[0-9]*.parquet"))]:
            if path.exists():
                self._read(path)

    def add(self, unit: Unit, measures: NDArray[np.float64], seconds: float) -> None:
        """Enter finished runs into the result; every few seconds they are written to disk."""
        self._new.append((unit, measures, seconds))
        # before anything is written, so that Ctrl-C meanwhile leaves the same runs in result and folder
        self.result.put(unit.policy, unit.query, unit.runs, measures, seconds)
        if time.monotonic() - self._flushed >= INTERVAL:
            self.flush()

    def flush(self) -> None:
        """Write the new runs to a part."""
        import pyarrow.parquet

        if not self._new:
            return
        r = self.result
        queries = {query: i for i, query in enumerate(r.queries)}
        places = [(unit.policy, queries[unit.query], run) for unit, _, _ in self._new for run in unit.runs]
        values = np.concatenate([measures for _, measures, _ in self._new])
        busy: dict[str, list[float]] = {}
        for unit, _, seconds in self._new:
            spent = busy.setdefault(r.labels[unit.policy], [0.0, 0])
            spent[0] += seconds
            spent[1] += len(unit.runs) * r.horizon
        table = run_rows(r, list(np.array(places).T), np.moveaxis(values, 2, 0))
        self.parts.mkdir(parents=True, exist_ok=True)
        number = sum(1 for _ in self.parts.glob("[0-9]*.parquet"))
        with written(self.parts / f"{number:06d}.parquet") as path:
            table = table.replace_schema_metadata(self.metadata(busy))
            pyarrow.parquet.write_table(table, path, compression="zstd")
        self._new.clear()
        self._flushed = time.monotonic()

    def metadata(self, busy: Mapping[str, Sequence[float]] | None = None) -> dict[str, str]:
        """The metadata of a file with runs; ``busy``: seconds and steps by policy, by default those of the result."""
        r = self.result
        if busy is None:
            busy = {label: [r.busy[i], r.stepped[i]] for i, label in enumerate(r.labels)}
        return {_KEY: json.dumps({"of": self._identity, "busy": busy, "seconds": r.seconds})}

    def _read(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        r = self.result
        try:
            table = pyarrow.parquet.read_table(path)
            about = _about(table.schema)
            if _of(about) != self._identity:  # left behind by another simulation in this folder
                return
            places, values = _runs(table, r)
        except (OSError, ValueError, pyarrow.ArrowException) as error:
            raise ValueError(f"{path}: cannot be read ({error}); start again without resuming") from None
        policies, queries, runs = places
        r.values[:, policies, queries, runs] = values
        for label, (seconds, steps) in about["busy"].items():
            policy = r.labels.index(known_label(label, r.labels))
            r.busy[policy] += seconds
            r.stepped[policy] += int(steps)
        r.seconds = max(r.seconds, about["seconds"])


def with_origin(settings: Mapping[str, Any], *queries: Queries) -> dict[str, Any]:
    """Settings with the version of driftrank and the digest of the queries."""
    return {**settings, "driftrank": __version__, "queries_digest": "-".join(dict.fromkeys(map(digest, queries)))}


def identity_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that determine the numbers, as they come back from a file."""
    found: dict[str, Any] = json.loads(json.dumps({key: settings[key] for key in IDENTIFYING if key in settings}))
    return found


def digest(queries: Queries) -> str:
    """A digest that identifies a set of queries."""
    found = hashlib.blake2b(digest_size=8)
    for name, alpha in queries.attraction.items():
        found.update(name.encode() + b"\0" + alpha.tobytes())
        more = (queries.models.get(name), queries.changes.get(name))
        if more != (None, None):
            found.update(repr(more).encode())
    found.update(queries.origin.encode())
    return found.hexdigest()


def _check_same(folder: Path, old: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse to continue an experiment with other settings, or with fewer runs."""
    new = identity_of(settings)
    for key in IDENTIFYING:
        if old.get(key) != new.get(key):
            raise ValueError(_cannot_continue(folder, key, old.get(key), new.get(key)))
    if old.get("runs", 0) > settings.get("runs", 0):
        raise ValueError(_cannot_continue(folder, "runs", old.get("runs"), settings.get("runs")))


def _cannot_continue(folder: Path, key: str, old: Any, new: Any) -> str:
    return f"{folder}: cannot be continued: it was begun with {key}={old!r}, now it is {new!r}"


def _about(schema: Any) -> dict[str, Any]:
    """Our metadata of a Parquet file."""
    found: dict[str, Any] = json.loads((schema.metadata or {}).get(_KEY.encode(), b"{}"))
    return found


def _of(about: Mapping[str, Any]) -> dict[str, Any]:
    """The identity in metadata; sweeps and leaderboards of version 0.1.0 had nothing else there."""
    return identity_of(about.get("of", about))


def _identity(path: Path) -> dict[str, Any] | None:
    """The identity of the experiment whose results a file holds; None if there are none."""
    import pyarrow
    import pyarrow.parquet

    try:
        return _of(_about(pyarrow.parquet.read_schema(path)))
    except (OSError, ValueError, pyarrow.ArrowException):
        return None


def _runs(table: Any, result: Result) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]:
    """The runs in a table of the long form: policy, query and number of each, and (measure, run, checkpoint)."""
    import pyarrow
    import pyarrow.compute

    n = len(result.checkpoints)
    steps = table["step"].to_numpy().reshape(-1, n)
    if (steps != result.checkpoints).any():
        raise ValueError("checkpoints differ")
    first = table.take(column(np.arange(0, len(table), n)))
    places = []
    for name, known in (("policy", result.labels), ("query", result.queries)):
        there = first[name].cast(pyarrow.string())
        if name == "policy":
            names = there.unique().to_pylist()
            there = text_column([known_label(label, known) for label in names]).take(
                pyarrow.compute.index_in(there, text_column(names))
            )
        found = pyarrow.compute.index_in(there, text_column(known))
        if found.null_count:
            raise ValueError(f"column {name} has unknown names")
        places.append(found.to_numpy().astype(np.int64))
    runs = first["run"].to_numpy().astype(np.int64)
    wanted = runs < result.runs
    values = np.stack([table[name].to_numpy().reshape(-1, n)[wanted] for name in result.measures])
    return (places[0][wanted], places[1][wanted], runs[wanted]), values
