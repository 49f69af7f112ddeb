"""driftrank bounds: the theorems beside what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import environment_names

_DEFAULTS: dict[str, Any] = {
    "env": [], "queries": "", "k": 3, "horizon": 100_000, "epsilon": 0.6, "runs": None, "seed": 0, "threads": None,
    "growth": True, "quick": False, "out": "out/bounds", "json": False,
}  # fmt: skip

#: an environment with one query has as many runs as others have queries times runs
_QUERIES, _RUNS = 10, 2
_QUICK_QUERIES, _QUICK_RUNS = 5, 1


def bounds(
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="An environment; repeatable.",
            show_default="Abrupt, LowerBound:L=4,p=0.6,delta=0.5",
            autocompletion=environment_names,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="yandex-like:N|FILE.json",
            help="The queries, where the environment takes any.",
            show_default="yandex-like:10",
        ),
    ] = None,
    k: Annotated[int | None, typer.Option(metavar="K", help="Positions, likewise.", show_default="3")] = None,
    horizon: Annotated[int | None, typer.Option(metavar="N", help="Steps of a run.", show_default="100000")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="E", help="Width of the confidence intervals, above 0.5 and below 1.", show_default="0.6"),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="R", help="Runs of every query.", show_default="2, or 20 where there is one query"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Everything random derives from it.", show_default="0")
    ] = None,
    threads: Annotated[int | None, typer.Option(metavar="T", help="Cores to use.", show_default="all")] = None,
    growth: Annotated[
        bool | None,
        typer.Option(
            "--growth/--no-growth",
            help="Measure horizons from 10^3 to 10^6 and draw figure 3.",
            show_default="--growth",
        ),
    ] = None,
    quick: Annotated[bool | None, typer.Option("--quick", help="Fewer runs, and horizons only up to 31,623.")] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for figure 3.", show_default="out/bounds")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Any of these settings; options given here win over it.")
    ] = None,
    json: Annotated[bool | None, typer.Option("--json", help="Print JSON, and nothing else.")] = None,
) -> None:
    """The bounds of theorems 1, 2 and 3 next to the regret that is measured, and figure 3: how regret grows.

    The policies run with the discount and the window that the theorems recommend. Epochs are a tenth of the horizon
    (Abrupt) or a third of it (LowerBound, theorem 3's instance) unless a period is given. For figure 3 the period grows
    with the horizon, so that the number of breakpoints stays the same, as the theorems have it.

    \b
    driftrank bounds
    driftrank bounds --env LowerBound:L=10,p=0.2,delta=0.1 --horizon 1000000 --no-growth
    driftrank bounds --env Abrupt --queries my-queries.json --epsilon 0.51 --json
    """
    from driftrank.cli._config import merged
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.bounds import ENVIRONMENTS, environment_for, measure_bounds
    from driftrank.experiments.growth import HORIZONS, QUICK_HORIZONS, figure3, measure_growth
    from driftrank.experiments.paper_figures import save_figure
    from driftrank.files import usable_folder
    from driftrank.validation import check_integer, check_number

    options = {
        "env": env, "queries": queries, "k": k, "horizon": horizon, "epsilon": epsilon, "runs": runs, "seed": seed,
        "threads": threads, "growth": growth, "quick": quick, "out": out, "json": json,
    }  # fmt: skip
    s = merged(config, options, _DEFAULTS)
    many, few = (_QUICK_QUERIES, _QUICK_RUNS) if s["quick"] else (_QUERIES, _RUNS)
    source = s["queries"] or f"yandex-like:{many}"
    specs = s["env"] or list(ENVIRONMENTS)
    environments = [environment_for(spec, source, s["k"], s["horizon"], s["seed"]) for spec in specs]
    # now, rather than after the first minute
    check_number("epsilon", s["epsilon"], 0.5, 1, open_low=True, open_high=True)
    for key in ("runs", "threads"):
        check_integer(key, 1 if s[key] is None else s[key], 1)
    folder = usable_folder(s["out"]) if s["growth"] else Path(s["out"])
    told, growths = [], []
    for spec, environment in zip(specs, environments, strict=True):
        how = {
            "epsilon": s["epsilon"], "seed": s["seed"], "threads": s["threads"],
            "runs": s["runs"] if s["runs"] is not None else few if len(environment.queries) > 1 else many * few,
        }  # fmt: skip
        found = measure_bounds(spec, environment, horizon=s["horizon"], **how)
        told.append(found.to_json())
        if not s["json"]:
            typer.echo(found.facts())
            show_table(found.table())
            typer.echo("")
        if s["growth"]:
            horizons = QUICK_HORIZONS if s["quick"] else HORIZONS
            grown = measure_growth(spec, environment, at=s["horizon"], horizons=horizons, **how)
            growths.append(grown)
            told[-1]["growth"] = grown.to_json()
            if not s["json"]:
                show_table(grown.table())
                typer.echo("")
    figures = [str(path) for path in save_figure(figure3(growths), folder, "figure3")] if growths else []
    if s["json"]:
        show_json({"environments": told, "figures": figures})
        return
    if any(policy["vacuous"] for each in told for policy in each["policies"].values()):
        typer.echo(
            "A bound above n is vacuous: no policy can lose more than 1 a step. The theorems say how regret grows,\n"
            "not how large it is; it grows faster than they say until confidence intervals are narrower than gaps."
        )
    if figures:
        typer.echo(f"Figure 3: {', '.join(figures)}")
