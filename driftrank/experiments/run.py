"""A simulation in a folder: it can be stopped, continued and repeated."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftrank import __version__
from driftrank.engine import Unit
from driftrank.engine.devices import Device, at_once, ready, word_for
from driftrank.environments.base import Environment
from driftrank.experiments.journal import Journal
from driftrank.experiments.results import Result
from driftrank.experiments.simulate import prepare, simulate
from driftrank.experiments.toml import write_toml
from driftrank.files import read_toml, usable_folder, written_text
from driftrank.policies.base import Policy
from driftrank.progress import Progress
from driftrank.queries import Queries
from driftrank.validation import check_integer

#: what may differ when a simulation is continued: it changes no number
INDIFFERENT = frozenset(
    {
        "address", "device", "json", "out", "progress", "quiet", "resume", "scheduler_file", "threads", "workers",
    }
)  # fmt: skip

#: what ``run_in_folder`` adds to the settings, so that numbers of different origin are never mixed
ORIGIN = ("driftrank", "queries_digest")


class Interrupted(KeyboardInterrupt):
    """A simulation was stopped; what it had finished is in its folder."""

    def __init__(self, folder: Path, finished: int, wanted: int) -> None:
        super().__init__(f"{finished} of {wanted} runs are kept in {folder}")
        self.folder, self.finished, self.wanted = folder, finished, wanted


def run_in_folder(
    policies: Policy | str | Iterable[Policy | str],
    environment: Environment,
    *,
    horizon: int,
    runs: int,
    seed: int,
    folder: str | os.PathLike[str],
    settings: Mapping[str, Any],
    device: Device = "cpu",
    threads: int | None = None,
    checkpoints: int | Sequence[int] = 100,
    resume: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Simulate; ``folder`` gets the settings (``run.toml``), the numbers (``results.parquet``) and ``summary.json``.

    Parameters
    ----------
    settings
        What describes the simulation, for ``run.toml``: text, numbers and lists of them.
    resume
        Go on with the simulation in the folder, if there is one: it must have the same settings (but may have fewer
        runs). The numbers are those of a simulation that was never stopped.

    On Ctrl-C (``KeyboardInterrupt``) what is finished is saved, and :class:`Interrupted` raised. Other arguments are
    those of :func:`~driftrank.experiments.simulate`.
    """
    chosen = [policies] if isinstance(policies, (Policy, str)) else list(policies)
    _, result = prepare(chosen, environment, horizon, runs, seed, device, checkpoints)
    if threads is not None:
        check_integer("threads", threads, 1)
    settings = dict(settings) | dict(zip(ORIGIN, (__version__, digest(environment.queries)), strict=True))
    text = write_toml(settings, "These are the settings of the simulation in this folder.")
    toml = Path(folder) / "run.toml"
    before = toml.read_text(encoding="utf-8", errors="replace") if toml.is_file() else None
    if resume and before is not None:
        check_same(toml, read_toml(toml), settings)
    identity = {key: _plain(settings[key]) for key in sorted(settings) if key not in INDIFFERENT | {"runs"}}
    with ready(device) as place:  # before anything is written
        journal = Journal(usable_folder(folder), identity, result)
        finished: set[tuple[str, str, int]] = set()
        if resume:
            finished = journal.read()
        else:
            journal.clear()
        result.device, result.cores = word_for(place), at_once(place, threads)
        begin, earlier = time.perf_counter(), result.seconds

        def on_unit(label: str, unit: Unit, measures: Any, seconds: float) -> None:
            result.seconds = earlier + time.perf_counter() - begin
            journal.add(label, unit.query, unit.runs, measures, seconds)

        try:
            written_text(toml, text)
            run = simulate(
                chosen, environment, horizon=horizon, runs=runs, seed=seed, device=place, threads=threads,
                checkpoints=checkpoints, progress=progress, finished=finished, on_unit=on_unit,
            )  # fmt: skip
            result.seconds, result.cores = earlier + time.perf_counter() - begin, run.cores
            journal.save()
        except BaseException as stop:
            ended = ~np.isnan(result.values[0, ..., -1])
            kept = int(ended.sum())
            if not kept and before is not None:
                written_text(toml, before)  # nothing came of this: the folder is as it was
            if not isinstance(stop, KeyboardInterrupt):
                journal.flush()
                raise
            if kept:
                journal.save()
            raise Interrupted(toml.parent, kept, ended.size) from stop
    return result


def check_same(toml: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to continue a simulation with other settings than it was begun with."""
    for key in [*new, *(key for key in old if key not in new)]:
        was, now = old.get(key), _plain(new.get(key))
        if key in INDIFFERENT or was == now:
            continue
        if key == "runs" and isinstance(was, int) and isinstance(now, int) and now > was:
            continue
        raise ValueError(f"{toml.parent}: cannot be continued: it was begun with {key}={was!r}, now it is {now!r}")


def _plain(value: Any) -> Any:
    """As it comes back from a file."""
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def digest(queries: Queries) -> str:
    """Tells queries apart."""
    found = hashlib.blake2b(digest_size=8)
    for name, alpha in queries.attraction.items():
        found.update(name.encode() + b"\0" + alpha.tobytes())
        more = (queries.models.get(name), queries.changes.get(name))
        if more != (None, None):
            found.update(repr(more).encode())
    return found.hexdigest()
