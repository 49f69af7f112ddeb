"""driftrank simulate: policies against an environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import click_model_names, environment_names, policy_names
from driftrank.cli._device import (
    CLUSTER,
    AddressOption,
    DeviceOption,
    SchedulerFileOption,
    ThreadsOption,
    WorkersOption,
    chosen_device,
)

#: settings that are about the command, not about the simulation
_COMMAND: dict[str, Any] = {"out": "out/simulate", "resume": False, "json": False, "quiet": False}


def simulate(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="A policy, see driftrank policies; repeatable.",
            show_default="CascadeRegimeTS (the default policy), CascadeSWUCB, CascadeDUCB, CascadeKLUCB",
            autocompletion=policy_names,
        ),
    ] = None,
    env: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users change, see driftrank environments.",
            show_default="Abrupt",
            autocompletion=environment_names,
        ),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(metavar="yandex-like:N|FILE.json", help="The queries to rank for.", show_default="yandex-like:10"),
    ] = None,
    k: Annotated[
        int | None, typer.Option(metavar="K", help="Positions: items shown at a time.", show_default="3")
    ] = None,
    click_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users click, see driftrank click-models; its parameters are those in the file of queries.",
            show_default="CM",
            autocompletion=click_model_names,
        ),
    ] = None,
    horizon: Annotated[int | None, typer.Option(metavar="N", help="Steps of a run.", show_default="100000")] = None,
    runs: Annotated[int | None, typer.Option(metavar="R", help="Runs of every query.", show_default="10")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Everything random derives from it.", show_default="0")
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    address: AddressOption = None,
    scheduler_file: SchedulerFileOption = None,
    workers: WorkersOption = None,
    checkpoints: Annotated[
        int | None,
        typer.Option(
            metavar="C", help="At how many steps to record; breakpoints, if few, come on top.", show_default="100"
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the results.", show_default="out/simulate")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help="Go on with the simulation in the folder.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Any of these settings; options given here win over it.")
    ] = None,
    json: Annotated[bool | None, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = None,
) -> None:
    """Run policies against simulated users who change their minds, and compare their regret.

    The folder gets results.parquet (regret, reward, clicks and alarms of every run at every checkpoint), summary.json,
    regret.png and run.toml, which repeats the simulation. Ctrl-C keeps what is finished; --resume goes on.

    \b
    driftrank simulate
    driftrank simulate --policy CascadeSWUCB:window=500 --policy CascadeSWUCB:window=5000 --runs 20
    driftrank simulate --env Stationary --queries my-queries.json --k 5 --horizon 1000000
    driftrank simulate --queries models.json --click-model DBN:objective=clicks
    driftrank simulate --env BLB:L=16,K=2 --policy CascadeKLUCB --policy CascadeUCB1 --json
    driftrank simulate --device cluster --scheduler-file scheduler.json
    driftrank simulate --config out/simulate/run.toml --out out/again
    """
    from driftrank.cli._config import merged
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.run import Interrupted
    from driftrank.experiments.spec import Spec

    options = {
        "policy": policy, "env": env, "queries": queries, "k": k, "click_model": click_model, "horizon": horizon,
        "runs": runs, "seed": seed, "checkpoints": checkpoints, "device": device, "threads": threads,
        "address": address, "scheduler_file": scheduler_file, "workers": workers, "out": out, "resume": resume,
        "json": json, "quiet": quiet,
    }  # fmt: skip
    settings = merged(config, options, Spec.defaults() | CLUSTER | _COMMAND)
    command = {key: settings.pop(key) for key in _COMMAND}
    place = chosen_device(settings)
    spec = Spec(**settings)
    folder = Path(command["out"])
    try:
        result = spec.run(folder, device=place, resume=command["resume"], progress=False if command["quiet"] else None)
    except Interrupted as stop:
        if stop.finished:
            (folder / "regret.png").unlink(missing_ok=True)  # of what was in the folder before
        raise
    _draw(result, folder / "regret.png")
    if command["json"]:
        show_json(result.summary())
    elif not command["quiet"]:
        show_table(result.table())
        typer.echo(f"\n{folder}: results.parquet, summary.json, regret.png, run.toml")


def _draw(result: Any, path: Path) -> None:
    from driftrank.experiments.figures import new_figure
    from driftrank.files import written

    figure = new_figure()
    result.plot(figure.add_subplot())
    with written(path) as temporary:
        figure.savefig(temporary, dpi=150)
