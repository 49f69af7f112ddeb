"""The results of a drive."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.drive import against_caller
from driftrank.environments.base import Environment
from driftrank.experiments.simulation.caller import Comparison
from driftrank.extras import need
from driftrank.files import usable_folder, written, written_text
from driftrank.reporting.arrow import column, dictionary_column
from driftrank.reporting.table import Table
from driftrank.wire import RankerSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from driftrank.drive.asked_lists import AskedList
    from driftrank.drive.drive import Drive
    from driftrank.drive.simulation_check import SimulationCheck

#: lists that the same users are simulated on, for comparison
REFERENCES = ("best", "baseline", "random")


@dataclass(kw_only=True)
class DriveResult:
    """Lists, regret and clicks, by query and step; NaN if there was no list. The lists of Traffic are one row."""

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
    reference_reward: NDArray[np.float64]  #: the same for expected clicks
    held: NDArray[np.bool_]  #: True if the list was the caller's own, by the service's choice
    lists: NDArray[np.int64]  #: (query, step, position); -1 if the list was shorter
    asked: list[str] = field(default_factory=list)  #: in Traffic, the query of every list
    age: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  #: and its lists before
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
            reference_reward=np.full((len(REFERENCES), *shape), np.nan), held=np.zeros(shape, bool),
            lists=np.full((*shape, environment.k), -1, np.int64),
            asked=[""] * drive.steps if environment.traffic else [],
            age=np.zeros(drive.steps if environment.traffic else 0, np.int64),
        )  # fmt: skip

    def put(
        self,
        asked: AskedList,
        ranking: list[int],
        value: float,
        clicks: int,
        references: list[tuple[float, list[int]]],
        *,
        held: bool,
    ) -> None:
        """Enter a list of slots: its value and clicks, and those of the same user on the references."""
        at = (asked.row, asked.t - 1)
        self.regret[at] = asked.optimal - value
        self.reward[at] = value
        self.clicks[at] = clicks
        self.reference_reward[:, asked.row, asked.t - 1] = [value for value, _ in references]
        self.reference_clicks[:, asked.row, asked.t - 1] = [len(clicked) for _, clicked in references]
        self.held[at] = held
        self.lists[at][: len(ranking)] = [asked.names[a] for a in ranking]
        if self.asked:
            self.asked[asked.t - 1], self.age[asked.t - 1] = asked.query, asked.number - 1

    @property
    def traffic(self) -> bool:
        """True if the lists are those of Traffic, with an order of the caller's."""
        return bool(self.asked)

    @property
    def compared(self) -> bool:
        """True if there are lists to compare with the caller's order: of Traffic, and not all the caller's own."""
        return self.traffic and bool((~np.isnan(self.regret) & ~self.held).any())

    def against_caller(self, size: int | None = None, clicks: str = "expected") -> list[Comparison]:
        """The lists of Traffic beside the caller's order, in windows of ``size`` lists, by default a tenth of all.

        ``clicks`` are ``"expected"`` ones, or those of single users, ``"realised"``. A holdout does not count.
        """
        return against_caller.windows(self, size, clicks)

    def by_age(self, clicks: str = "expected") -> list[Comparison]:
        """The same by the number of lists of the query before."""
        return against_caller.groups(self, clicks)

    def caller_table(self, size: int | None = None) -> Table:
        """These comparisons, for people."""
        return against_caller.table(self, size)

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
            "queries": len(set(self.asked) - {""}) if self.traffic else len(self.queries),
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
            **(against_caller.summary(self) if self.traffic else {}),
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
        """Write ``lists.parquet``, ``summary.json`` and ``drive.png`` to a folder; of Traffic also ``caller.png``."""
        need("plots", "pyarrow")
        import pyarrow
        import pyarrow.parquet

        from driftrank.reporting.plot_style import new_figure

        folder = usable_folder(directory)
        query, step = np.nonzero(~np.isnan(self.regret))
        names, number = self.queries, query
        if self.traffic:
            names = list(dict.fromkeys(name for name in self.asked if name))
            code = {name: n for n, name in enumerate(names)}
            number = np.array([code[self.asked[i]] for i in step], np.int32)
        columns = {
            "query": dictionary_column(number.astype(np.int32), names),
            "step": column((step + 1).astype(np.int32)),
            "ranking": pyarrow.FixedSizeListArray.from_arrays(column(self.lists[query, step].ravel()), self.k),
            "clicks": column(self.clicks[query, step].astype(np.int32)),
            "reward": column(self.reward[query, step]),
            "regret": column(self.regret[query, step]),
        }
        for name, clicks in zip(REFERENCES, self.reference_clicks, strict=True):
            columns[f"clicks_{name}"] = column(clicks[query, step].astype(np.int32))
        columns["reward_baseline"] = column(self.reference_reward[REFERENCES.index("baseline")][query, step])
        columns["held"] = column(self.held[query, step].astype(np.int8))
        with written(folder / "lists.parquet") as path:
            pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")
        written_text(folder / "summary.json", json.dumps(self.summary(), indent=1) + "\n")
        figure = new_figure(7.0, 7.0)
        upper, lower = figure.subplots(2, 1, sharex=True)
        self.plot_clicks(upper)
        self.plot_regret(lower)
        figures = {"drive.png": figure} | ({"caller.png": against_caller.figure(self)} if self.compared else {})
        for name, drawn in figures.items():
            with written(folder / name) as path:
                drawn.savefig(path, dpi=150)

    @property
    def files(self) -> str:
        """The names of the files that :meth:`save` writes."""
        return f"lists.parquet, summary.json, drive.png{', caller.png' if self.compared else ''}"


def _mean(values: NDArray[np.float64]) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _latency(seconds: list[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p50, p99 = np.percentile(seconds, [50, 99]) * 1000
    return {"p50": float(p50), "p99": float(p99)}
