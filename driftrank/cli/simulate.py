"""driftrank simulate: policies against an environment."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.extras import need

#: the default policy, and those of the paper to compare with
POLICIES = ["PriorRegimeTS", "CascadeSWUCB", "CascadeDUCB", "CascadeKLUCB"]

CheckpointsOption = Annotated[
    int, typer.Option(metavar="C", help="Number of steps to record at; breakpoints, if few, are added.")
]


def simulate(
    policy: o.PolicyOption = POLICIES,
    env: o.EnvironmentOption = "Abrupt",
    queries: o.QueriesOption = "",
    k: o.PositionsOption = None,
    click_model: o.ClickModelOption = "",
    horizon: o.HorizonOption = 100_000,
    runs: o.RunsOption = 10,
    seed: o.SeedOption = 0,
    device: o.DeviceOption = "cpu",
    threads: o.ThreadsOption = None,
    address: o.AddressOption = None,
    scheduler_file: o.SchedulerFileOption = None,
    workers: o.WorkersOption = None,
    checkpoints: CheckpointsOption = 100,
    out: o.OutOption = "out/simulate",
    resume: o.ResumeOption = False,
    imports: o.ImportOption = None,
    config: o.ConfigOption = None,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Compare the regret of policies on simulated users.

    The folder gets report.html (everything on one page), regret.png, results.parquet (regret, reward, clicks and alarms
    of every run at every checkpoint), summary.json and run.toml, which repeats the simulation; with --env Traffic also
    caller.png, clicks against the caller's order. Ctrl-C keeps finished runs; --resume continues.

    \b
    driftrank simulate
    driftrank simulate --policy CascadeSWUCB:window=500 --policy CascadeSWUCB:window=5000 --runs 20
    driftrank simulate --env Stationary --queries my-queries.json --k 5 --horizon 1000000
    driftrank simulate --queries models.json --click-model DBN:objective=clicks
    driftrank simulate --env BLB:L=16,K=2 --policy CascadeKLUCB --policy CascadeUCB1 --json
    driftrank simulate --env Traffic:n_queries=500,going_on=0.85 --policy CascadeRegimeTS --policy PriorRegimeTS
    driftrank simulate --import mine.py --env MyWorld --policy MyPolicy --policy CascadeTS
    driftrank simulate --device cluster --scheduler-file scheduler.json
    driftrank simulate --config out/simulate/run.toml --out out/again
    """
    need("plots", "matplotlib", "pyarrow")
    from driftrank.cli._device import chosen_device
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.simulation import simulate as simulation
    from driftrank.experiments.simulation.settings import EnvironmentSettings

    users = EnvironmentSettings(env=env, queries=queries, k=k, click_model=click_model, seed=seed)
    result = simulation.simulate(
        policy, users.environment(), horizon=horizon, runs=runs, seed=seed, checkpoints=checkpoints, threads=threads,
        device=chosen_device(device, address, scheduler_file, workers), folder=out, resume=resume,
        progress=False if quiet else None, settings={"policy": policy, **users.settings(), "imports": imports or None},
    )  # fmt: skip
    if json:
        show_json(result.summary())
    elif not quiet:
        show_table(result.table())
        figures = "regret.png, caller.png" if "baseline" in result.measures else "regret.png"
        typer.echo(f"\n{out}: report.html, {figures}, results.parquet, summary.json, run.toml")
