"""The results of a drive."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.environments.base import Environment
from driftrank.extras import need
from driftrank.files import usable_folder, written, written_text
from driftrank.reporting.arrow import column, dictionary_column
from driftrank.reporting.table import Table
from driftrank.wire import RankerSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftrank.drive.drive import Drive
    from driftrank.drive.simulation_check import SimulationCheck

#: lists that the same users are simulated on, for comparison
REFERENCES = ("best", "baseline", "random")


@dataclass(kw_only=True)
class DriveResult:
    """Lists, regret and clicks, by query and step; NaN if there was no list."""

    url: str
    ranker: str
    environment: str
    queries: list[str]
    seed: int
    k: int
    regret: NDArray[np.float64]  #: of every list, against the best list
    reward: NDArray[np.float64]
    clicks: NDArray[np.float64]
    reference_clicks: NDArray[np.float64]  #: (one of REFERENCES, query, step)
    lists: NDArray[np.int32]  #: (query, step, position)
    policy: str = ""
    settings: RankerSettings | None = None
    breakpoints: list[int] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)  #: of feedback
    rank_seconds: list[float] = field(default_factory=list)
    feedback_seconds: list[float] = field(default_factory=list)
    seconds: float = 0.0
    learnt: int | None = None  #: lists that the service learnt from, by its own count
    stopped: bool = False
    error: Exception | None = None
    check: SimulationCheck | None = None

    @classmethod
    def empty(cls, drive: Drive, environment: Environment) -> DriveResult:
        shape = (len(environment.names), drive.steps)
        return cls(
            url=drive.url, ranker=drive.ranker, environment=drive.env, queries=environment.names, seed=drive.seed,
            k=environment.k, regret=np.full(shape, np.nan), reward=np.full(shape, np.nan),
            clicks=np.full(shape, np.nan), reference_clicks=np.full((len(REFERENCES), *shape), np.nan),
            lists=np.full((*shape, environment.k), -1, np.int32),
        )  # fmt: skip

    def put(
        self,
        query: int,
        t: int,
        ranking: list[int],
        optimal: float,
        value: float,
        clicks: int,
        reference_clicks: list[int],
    ) -> None:
        at = (query, t - 1)
        self.regret[at] = optimal - value
        self.reward[at] = value
        self.clicks[at] = clicks
        self.reference_clicks[:, query, t - 1] = reference_clicks
        self.lists[at] = ranking

    @property
    def steps(self) -> int:
        return int(self.regret.shape[1])

    @property
    def done(self) -> NDArray[np.int64]:
        """The number of lists, by query."""
        out: NDArray[np.int64] = (~np.isnan(self.regret)).sum(axis=1)
        return out

    def cumulative(self) -> NDArray[np.float64]:
        """Cumulative regret, summed in the order of the simulator."""
        out: NDArray[np.float64] = np.cumsum(self.regret, axis=1)
        return out

    def summary(self) -> dict[str, Any]:
        """A summary, for JSON."""
        total = int(self.done.sum())
        sent = total + sum(self.outcomes.values()) - self.outcomes.get("never sent", 0)
        means = {name: _mean(clicks) for name, clicks in zip(REFERENCES, self.reference_clicks, strict=True)}
        return {
            "url": self.url,
            "ranker": self.ranker,
            "policy": self.policy,
            "environment": self.environment,
            "queries": len(self.queries),
            "steps": self.steps,
            "k": self.k,
            "seed": self.seed,
            "lists": total,
            "stopped": self.stopped,
            "clicks_per_list": _mean(self.clicks),
            "clicks_per_list_of": means,
            "regret_per_list": _mean(self.regret),
            "regret": float(np.nansum(self.regret)),
            "feedback": dict(sorted(self.outcomes.items())),
            "learnt": self.learnt,
            "seconds": self.seconds,
            "per_second": sent / self.seconds if self.seconds else None,
            "rank_ms": _latency(self.rank_seconds),
            "feedback_ms": _latency(self.feedback_seconds),
            "check": None if self.check is None else self.check.summary(),
        }

    def table(self) -> Table:
        facts = self.summary()
        rank, feedback = facts["rank_ms"] or {}, facts["feedback_ms"] or {}
        rows = [
            ("lists", facts["lists"], ",.0f"),
            ("clicks per list", facts["clicks_per_list"], ".4f"),
            *((f"  of {name} lists", facts["clicks_per_list_of"][name], ".4f") for name in REFERENCES),
            ("regret per list", facts["regret_per_list"], ".4f"),
            *((f"feedback {outcome}", count, ",.0f") for outcome, count in facts["feedback"].items() if count),
            ("lists learnt from", facts["learnt"], ",.0f"),
            ("lists and feedbacks per second", facts["per_second"], ",.0f"),
            *((f"rank, {p} (ms)", rank.get(p), ".2f") for p in ("p50", "p99")),
            *((f"feedback, {p} (ms)", feedback.get(p), ".2f") for p in ("p50", "p99")),
        ]
        cells = [(name, "–" if value is None else format(value, form)) for name, value, form in rows]
        return Table(("", self.policy), cells, (None, ""))

    def plot_clicks(self, ax: Axes) -> Axes:
        """Clicks per list over time: of the service, the best lists, the baseline and random lists."""
        from driftrank.drive.figures import plot_clicks

        return plot_clicks(self, ax)

    def plot_regret(self, ax: Axes) -> Axes:
        """Regret as served over time, and the simulator's if it was compared."""
        from driftrank.drive.figures import plot_regret

        return plot_regret(self, ax)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write ``lists.parquet``, ``summary.json`` and ``drive.png`` to a folder."""
        need("plots", "pyarrow")
        import pyarrow
        import pyarrow.parquet

        from driftrank.reporting.plot_style import new_figure

        folder = usable_folder(directory)
        query, step = np.nonzero(~np.isnan(self.regret))
        columns = {
            "query": dictionary_column(query.astype(np.int32), self.queries),
            "step": column((step + 1).astype(np.int32)),
            "ranking": pyarrow.FixedSizeListArray.from_arrays(column(self.lists[query, step].ravel()), self.k),
            "clicks": column(self.clicks[query, step].astype(np.int32)),
            "reward": column(self.reward[query, step]),
            "regret": column(self.regret[query, step]),
        }
        for name, clicks in zip(REFERENCES, self.reference_clicks, strict=True):
            columns[f"clicks_{name}"] = column(clicks[query, step].astype(np.int32))
        with written(folder / "lists.parquet") as path:
            pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")
        written_text(folder / "summary.json", json.dumps(self.summary(), indent=1) + "\n")
        figure = new_figure(7.0, 7.0)
        upper, lower = figure.subplots(2, 1, sharex=True)
        self.plot_clicks(upper)
        self.plot_regret(lower)
        with written(folder / "drive.png") as path:
            figure.savefig(path, dpi=150)


def _mean(values: NDArray[np.float64]) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _latency(seconds: list[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return {"p50": float(p50), "p99": float(p99)}
