"""driftrank bounds: the theorems beside the measured regret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import environment_names
from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.experiments.paper.growth import Growth

#: an environment with one query has as many runs as others have queries times runs
_QUERIES, _RUNS = 10, 2
_QUICK_QUERIES, _QUICK_RUNS = 5, 1

#: the paper's environment, and an instance of theorem 3 whose regret settles into its growth within a million steps
ENVIRONMENTS = ["Abrupt", "LowerBound:L=4,p=0.6,delta=0.5"]

EnvironmentOption = Annotated[
    list[str],
    typer.Option(metavar=o.SPEC, help="An environment; repeatable.", autocompletion=environment_names),
]
QueriesOption = Annotated[
    str,
    typer.Option(metavar=o.QUERIES, help="The queries, if the environment takes any.", show_default="yandex-like:10"),
]
EpsilonOption = Annotated[
    float, typer.Option(metavar="E", help="Width of the confidence intervals, above 0.5 and below 1.")
]
RunsOption = Annotated[
    int | None,
    typer.Option(metavar="R", help="Runs of every query.", show_default="2, or 20 if there is one query"),
]
GrowthOption = Annotated[
    bool, typer.Option("--growth/--no-growth", help="Measure horizons from 10^3 to 10^6 and draw figure 3.")
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Fewer runs, and horizons only up to 31,623.")]


def bounds(
    env: EnvironmentOption = ENVIRONMENTS,
    queries: QueriesOption = "",
    k: Annotated[int, typer.Option("--k", metavar="K", help="Positions, likewise.")] = 3,
    horizon: o.HorizonOption = 100_000,
    epsilon: EpsilonOption = 0.6,
    runs: RunsOption = None,
    seed: o.SeedOption = 0,
    threads: Annotated[int | None, typer.Option(metavar="T", help="Cores to use.", show_default="all")] = None,
    growth: GrowthOption = True,
    quick: QuickOption = False,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for figure 3.")] = "out/bounds",
    imports: o.ImportOption = None,
    config: o.ConfigOption = None,
    json: o.JsonOption = False,
) -> None:
    """Compare the theorems' bounds with measured regret.

    The policies run with the discount and the window that the theorems recommend. Epochs are a tenth of the horizon
    (Abrupt) or a third of it (LowerBound, theorem 3's instance) unless a period is given. For figure 3, growth of
    regret, the period grows with the horizon, so that the number of breakpoints stays the same, as in the theorems.

    \b
    driftrank bounds
    driftrank bounds --env LowerBound:L=10,p=0.2,delta=0.1 --horizon 1000000 --no-growth
    driftrank bounds --env Abrupt --queries my-queries.json --epsilon 0.51 --json
    """
    if growth:
        need("plots", "matplotlib")
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.paper.bounds import environment_for, measure_bounds
    from driftrank.experiments.paper.growth import HORIZONS, QUICK_HORIZONS, measure_growth
    from driftrank.files import usable_folder

    many, few = (_QUICK_QUERIES, _QUICK_RUNS) if quick else (_QUERIES, _RUNS)
    environments = [environment_for(spec, queries or f"yandex-like:{many}", k, horizon, seed) for spec in env]
    _check(epsilon, runs, threads)
    folder = usable_folder(out) if growth else Path(out)
    found, growths = [], []
    for spec, environment in zip(env, environments, strict=True):
        usual = few if len(environment.queries) > 1 else many * few
        how: dict[str, Any] = {
            "epsilon": epsilon,
            "seed": seed,
            "threads": threads,
            "runs": usual if runs is None else runs,
        }
        measured = measure_bounds(spec, environment, horizon=horizon, **how)
        found.append(measured.to_json())
        if not json:
            typer.echo(measured.facts())
            show_table(measured.table())
            typer.echo()
        if growth:
            horizons = QUICK_HORIZONS if quick else HORIZONS
            growths.append(measure_growth(spec, environment, at=horizon, horizons=horizons, **how))
            found[-1]["growth"] = growths[-1].to_json()
            if not json:
                show_table(growths[-1].table())
                typer.echo()
    figures = _draw(growths, folder) if growths else []
    if json:
        show_json({"environments": found, "figures": figures})
    else:
        _explain(found, figures)


def _check(epsilon: float, runs: int | None, threads: int | None) -> None:
    """Check now rather than after the first minute."""
    from driftrank.validation import check_integer, check_number

    check_number("epsilon", epsilon, 0.5, 1, open_low=True, open_high=True)
    for key, value in (("runs", runs), ("threads", threads)):
        check_integer(key, 1 if value is None else value, 1)


def _draw(growths: list[Growth], folder: Path) -> list[str]:
    from driftrank.experiments.paper.growth import figure3
    from driftrank.reporting.plot_style import save_figure

    return [str(path) for path in save_figure(figure3(growths), folder, "figure3")]


def _explain(found: list[dict[str, Any]], figures: list[str]) -> None:
    if any(policy["vacuous"] for each in found for policy in each["policies"].values()):
        typer.echo(
            "A bound above n is vacuous: no policy can lose more than 1 a step. The theorems are about how regret\n"
            "grows, not how large it is; it grows faster until confidence intervals are narrower than gaps."
        )
    if figures:
        typer.echo(f"Figure 3: {', '.join(figures)}")
