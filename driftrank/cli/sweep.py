"""driftrank sweep: policies with grids of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import environment_names, policy_names
from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.experiments import Sweep

#: the two of the paper
POLICIES = ["CascadeSWUCB:window=geom(50,20000,25)", "CascadeDUCB:discount=1-geom(0.0001,0.1,25)"]
ENVIRONMENTS = ["Abrupt"]

PolicyOption = Annotated[
    list[str],
    typer.Option(
        metavar=o.SPEC_WITH_GRIDS,
        help="A policy, see driftrank policies; any parameter may be a grid; repeatable.",
        autocompletion=policy_names,
    ),
]
EnvironmentOption = Annotated[
    list[str],
    typer.Option(
        metavar=o.SPEC_WITH_GRIDS,
        help="How users change, see driftrank environments; with grids, and repeatable, too.",
        autocompletion=environment_names,
    ),
]
HalvingOption = Annotated[
    bool, typer.Option("--halving/--no-halving", help="Drop settings that are clearly worse after a few runs.")
]


def sweep(
    policy: PolicyOption = POLICIES,
    env: EnvironmentOption = ENVIRONMENTS,
    queries: o.QueriesOption = "",
    k: o.PositionsOption = None,
    click_model: o.ClickModelOption = "",
    horizon: o.HorizonOption = 100_000,
    runs: o.RunsOption = 10,
    seed: o.SeedOption = 0,
    halving: HalvingOption = False,
    device: o.DeviceOption = "cpu",
    threads: o.ThreadsOption = None,
    address: o.AddressOption = None,
    scheduler_file: o.SchedulerFileOption = None,
    workers: o.WorkersOption = None,
    checkpoints: o.CheckpointsOption = 10,
    out: o.OutOption = "out/sweep",
    resume: o.ResumeOption = False,
    imports: o.ImportOption = None,
    config: o.ConfigOption = None,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Run policies with many parameter values and find the best.

    A parameter may be geom(from,to,count), lin(from,to,count), 1-geom(from,to,count), which is for discounts, or
    {value;value;...}; several grids are combined. All settings meet the same users. The policy with these parameters at
    their defaults, as theory recommends, runs beside them.

    The folder gets report.html (everything on one page), figures (regret against a parameter, heat maps, a comparison
    of two policies), results.parquet (every run at every checkpoint, the parameters as columns), settings.csv,
    summary.json and run.toml, which repeats the sweep. Ctrl-C keeps finished runs; --resume continues, also with more
    --runs, or without --halving.

    \b
    driftrank sweep
    driftrank sweep --policy "CascadeSWUCB:window=geom(50,20000,25),epsilon=lin(0.1,1,10)" --halving
    driftrank sweep --policy "CascadeDTS:discount=1-geom(0.0001,0.1,25)" --policy "CascadeSWTS:window=geom(50,20000,25)"
    driftrank sweep --policy "GLRTCascadeKLUCB:restart={global;local},explore=geom(0.001,0.1,10)" --policy CascadeTS
    driftrank sweep --env "Abrupt:period=geom(1000,20000,5)" --env Drift --queries my-queries.json --device cuda
    driftrank sweep --resume
    """
    need("plots", "matplotlib", "pyarrow")
    from driftrank.cli._device import chosen_device
    from driftrank.experiments.sweeps import sweep as sweeping
    from driftrank.experiments.sweeps.settings import SweptEnvironments

    users = SweptEnvironments(env=env, queries=queries, k=k, click_model=click_model, seed=seed)
    found = sweeping.sweep(
        policy, users.environments(), horizon=horizon, runs=runs, seed=seed, checkpoints=checkpoints, halving=halving,
        device=chosen_device(device, address, scheduler_file, workers), threads=threads, folder=out, resume=resume,
        progress=False if quiet else None, settings={"policy": policy, **users.settings(), "imports": imports or None},
    )  # fmt: skip
    _show(found, out, json, quiet)


def _show(found: Sweep, out: str, json: bool, quiet: bool) -> None:
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.simulation.report import REPORT
    from driftrank.experiments.sweeps.report import FIGURES

    if json:
        show_json(found.summary())
    elif not quiet:
        show_table(found.table())
        if found.halving:
            made, wanted = found.runs
            typer.echo(f"\nHalving: {made:,} of {wanted:,} runs ({made / wanted:.0%}) were made.")
        figures = sorted(path.name for path in Path(out).glob(FIGURES))
        files = [REPORT, *figures, "results.parquet", "settings.csv", "summary.json", "run.toml"]
        typer.echo(f"\n{out}: {', '.join(files)}")
