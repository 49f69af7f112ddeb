"""The paper's experiment: section 5, and the single queries of its appendix.

Queries of 10 items, 3 positions, 10 epochs of 10,000 steps: in every second epoch three items outside the top 3 are
drawn and become very attractive (:class:`~driftrank.environments.Abrupt`). That the first epoch is a default one
follows from the numbers in the paper's text.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.engine.devices import Device, ready
from driftrank.environments import Abrupt
from driftrank.experiments.simulation.folder import Interrupted, RunFolder
from driftrank.experiments.simulation.result import Result
from driftrank.experiments.simulation.simulate import Simulation
from driftrank.policies.base import Policy
from driftrank.policies.registry import PolicyLike, as_policies
from driftrank.queries import Queries, parse_queries
from driftrank.reporting.table import Table
from driftrank.validation import check_choice, check_integer

#: the policies of figure 1; the paper's own two first
PAPER = ("CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB", "RankedEXP3", "BatchRank")
OWN = PAPER[:2]
#: the baseline of the appendix, instead of BatchRank
SINGLE = "BubbleRank"
#: those that ``policies="all"`` adds
OTHERS = ("CascadeUCB1", "CascadeTS", "TopRank", "RankedUCB1", SINGLE, "StaticOracle", "OracleRestart")

K = 3
EPOCHS = 10
CHECKPOINTS = 100
QUERIES, RUNS, HORIZON = 100, 10, 100_000
QUICK_QUERIES, QUICK_RUNS = 20, 2
#: queries in figure 2
PANELS = 20
#: the epochs in the table: the first, the first perturbed one, and the one that the paper compares with the first
SHOWN = (0, 1, 8)
#: the numbers printed in the paper, by policy and epoch
PRINTED = {("CascadeKLUCB", 0): (111.50, 1.12), ("CascadeKLUCB", 8): (447.82, 137.16)}
#: the files that are made of the results
DRAWN = ("figure1.png", "figure1.svg", "figure2.png", "figure2.svg", "table.csv", "report.html")


@dataclass
class Reproduction:
    """The result of the paper's experiment."""

    result: Result  #: figure 1
    single: Result  #: figure 2: the first queries, with BubbleRank in place of BatchRank
    source: str  #: the source of the queries
    period: int  #: steps of an epoch
    seconds: float  #: wall time of the simulations, compilation included

    @property
    def exact(self) -> bool:
        """True if horizon and epochs are the paper's, so that its printed numbers can be compared."""
        return self.result.horizon == HORIZON and self.period * EPOCHS == HORIZON

    def epoch(self, policy: str, epoch: int) -> tuple[float, float]:
        """Mean regret of a policy in an epoch (from 0), and its standard error."""
        end = min((epoch + 1) * self.period, self.result.horizon)
        return self.result.between(policy, epoch * self.period, end)

    def totals(self, policy: str) -> NDArray[np.float64]:
        """Regret of a policy on every query, its runs averaged."""
        mean: NDArray[np.float64] = self.result.values_of(policy)[..., -1].mean(axis=1)
        return mean

    def lead(self, policy: str, other: str) -> tuple[float, float]:
        """The regret of ``other`` minus that of ``policy``, and its standard error: both meet the same users."""
        more = self.totals(other) - self.totals(policy)
        error = float(more.std(ddof=1) / math.sqrt(len(more))) if len(more) > 1 else math.nan
        return float(more.mean()), error

    def table(self) -> Table:
        """From best to worst, for people; the paper's numbers stand below ours."""
        rows = []
        for label in self.ranked():
            epochs = [_plus_minus(*self.epoch(label, epoch)) for epoch in SHOWN]
            total = _plus_minus(*self.result.between(label))
            rows.append((label, total, *epochs, f"{self.result.speed(label) / 1e6:.1f}"))
            if self._printed(label):
                shown = [PRINTED.get((label, epoch)) for epoch in SHOWN]
                cells = [_plus_minus(*pair, 2) if pair else "" for pair in shown]
                rows.append((f"{label}, in the paper", "", *cells, ""))
        columns = ("policy", f"regret, {short(self.result.horizon)} steps", *map(self.span, SHOWN), "M steps/s")
        return Table(columns, rows, (None, *[""] * (len(columns) - 1)))

    def numbers(self) -> Table:
        """The same for machines: full precision, standard errors in columns of their own."""
        spans = [f"{epoch * self.period + 1}_{(epoch + 1) * self.period}" for epoch in SHOWN]
        columns = ["policy", "regret", "regret_se"]
        columns += [f"{what}_{span}" for span in spans for what in ("regret", "se")] + ["steps_per_second"]
        rows: list[tuple[str | float, ...]] = []
        for label in self.ranked():
            pairs = [self.result.between(label), *(self.epoch(label, epoch) for epoch in SHOWN)]
            rows.append((label, *(x for pair in pairs for x in pair), round(self.result.speed(label))))
            if self._printed(label):
                printed = [PRINTED.get((label, epoch), ("", "")) for epoch in SHOWN]
                rows.append((f"{label}, in the paper", "", "", *(x for pair in printed for x in pair), ""))
        return Table(columns, rows, [None] * len(columns))

    def span(self, epoch: int) -> str:
        """The steps of an epoch, as text."""
        start, end = epoch * self.period, min((epoch + 1) * self.period, self.result.horizon)
        text = f"{short(start)}-{short(end)}" if start else f"1-{short(end)}"
        return text + (", perturbed" if epoch % 2 else "")

    def ranked(self) -> list[str]:
        """Policies from best to worst."""

        def key(label: str) -> float:
            regret = self.result.regret(label)
            return math.inf if math.isnan(regret) else regret

        return sorted(self.result.labels, key=key)

    def _printed(self, label: str) -> bool:
        return self.exact and any(name == label for name, _ in PRINTED)


def paper_policies(which: str = "paper", extra: PolicyLike | Iterable[PolicyLike] = ()) -> list[Policy]:
    """The policies of figure 1, or more baselines too, and any others."""
    check_choice("policies", which, ("paper", "all"))
    names = [*PAPER, *(OTHERS if which == "all" else ())]
    return as_policies(names) + as_policies(extra)


def paper_environment(queries: Queries, horizon: int = HORIZON) -> Abrupt:
    """Section 5: ten epochs, of 10,000 steps if the horizon is the paper's 100,000."""
    check_integer("horizon", horizon, 100)
    return Abrupt(queries, k=K, period=math.ceil(horizon / EPOCHS))


def reproduce(
    folder: str | os.PathLike[str],
    *,
    queries: str = f"yandex-like:{QUERIES}",
    policies: str = "paper",
    policy: Sequence[str] = (),
    runs: int = RUNS,
    horizon: int = HORIZON,
    seed: int = 0,
    device: Device = "cpu",
    threads: int | None = None,
    resume: bool = False,
    progress: bool | None = None,
    imports: Sequence[str] = (),
) -> Reproduction:
    """Run the simulations of figures 1 and 2 in a folder.

    Parameters
    ----------
    queries
        ``yandex-like:N``, or the path of a JSON file.
    policies, policy
        ``"paper"``: those of figure 1; ``"all"``: more baselines and references; and any others, by their specs.
    horizon
        Steps of a run, always in ten epochs.
    device, threads
        As in :func:`~driftrank.experiments.simulation.simulate`.
    resume
        Continue the reproduction in the folder.
    imports
        The files that policies come from, for ``run.toml``.
    """
    environment = paper_environment(parse_queries(queries, seed), horizon)
    size = {"horizon": horizon, "runs": runs, "seed": seed}
    how: dict[str, Any] = size | {"checkpoints": CHECKPOINTS, "device": device, "threads": threads}
    simulation = Simulation.prepare(paper_policies(policies, policy), environment, **how)
    settings = {"queries": queries, "policies": policies, "policy": list(policy), **size}
    settings |= {"imports": list(imports)} if imports else {}
    run_folder = RunFolder(folder, settings, environment.queries, what="reproduction", made=DRAWN, resume=resume)
    extra = None
    with ready(device) as place:
        result = simulation.run_in(run_folder, place, progress)
        if SINGLE not in result.labels:
            few = dataclasses.replace(
                environment, queries=environment.queries.first(min(PANELS, len(environment.queries)))
            )
            # these repeat it with ``driftrank simulate``
            source = f"yandex-like:{len(few.queries)}" if queries.startswith("yandex-like:") else queries
            own = {"policy": [SINGLE], "env": f"Abrupt:period={few.period}", "queries": source, "k": K, **size}
            single = RunFolder(run_folder.path / SINGLE.lower(), own, few.queries, resume=resume)
            try:
                extra = Simulation.prepare(SINGLE, few, **how).run_in(single, place, progress)
            except Interrupted:
                run_folder.discard(*DRAWN)  # they do not belong to the new results
                raise
    seconds = result.seconds + (extra.seconds if extra else 0.0)
    return Reproduction(result, single_queries(result, extra), queries, environment.period, seconds)


def single_queries(result: Result, extra: Result | None, panels: int = PANELS) -> Result:
    """The first queries of figure 1's result, less BatchRank, with the policies that were run on these queries only."""
    queries = result.queries[:panels]
    kept = [i for i, label in enumerate(result.labels) if label != "BatchRank"]
    parts = [(result, kept)] + ([(extra, list(range(len(extra.labels))))] if extra else [])
    return dataclasses.replace(
        result,
        labels=[part.labels[i] for part, places in parts for i in places],
        specs=[part.specs[i] for part, places in parts for i in places],
        queries=queries,
        values=np.concatenate([part.values[:, places, : len(queries)] for part, places in parts], axis=1),
        busy=[part.busy[i] for part, places in parts for i in places],
        stepped=[part.stepped[i] for part, places in parts for i in places],
    )


def short(step: int) -> str:
    """10,000 as 10k."""
    return f"{step // 1000}k" if step >= 1000 and step % 1000 == 0 else f"{step:,}"


def _plus_minus(mean: float, error: float, digits: int = 1) -> str:
    if math.isnan(mean):
        return "-"
    return f"{mean:,.{digits}f}" + ("" if math.isnan(error) else f" ± {error:,.{digits}f}")
