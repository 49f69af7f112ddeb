"""driftrank sweep: policies with grids of parameters."""

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

#: settings that are about the command, not about the sweep
_COMMAND: dict[str, Any] = {"out": "out/sweep", "resume": False, "json": False, "quiet": False}


def sweep(
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=GRID,...]",
            help="A policy, see driftrank policies; any parameter may be a grid; repeatable.",
            show_default="CascadeSWUCB:window=geom(50,20000,25), CascadeDUCB:discount=1-geom(0.0001,0.1,25)",
            autocompletion=policy_names,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=GRID,...]",
            help="How users change, see driftrank environments; likewise.",
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
    halving: Annotated[
        bool | None,
        typer.Option(
            "--halving/--no-halving",
            help="Drop settings that are clearly worse after a few runs.",
            show_default="no-halving",
        ),
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    address: AddressOption = None,
    scheduler_file: SchedulerFileOption = None,
    workers: WorkersOption = None,
    checkpoints: Annotated[
        int | None, typer.Option(metavar="C", help="At how many steps to record.", show_default="10")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the results.", show_default="out/sweep")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help="Go on with the sweep in the folder.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Any of these settings; options given here win over it.")
    ] = None,
    json: Annotated[bool | None, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = None,
    quiet: Annotated[bool | None, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = None,
) -> None:
    """Run policies with many values of their parameters, and find the best.

    A parameter may be geom(from,to,count), lin(from,to,count), 1-geom(from,to,count), which is for discounts, or
    {value;value;...}; several grids are combined. All settings meet the same users. Beside them runs the policy with
    these parameters left to itself, as theory recommends.

    The folder gets results.parquet (every run at every checkpoint, the parameters as columns), settings.csv,
    summary.json, figures (regret against a parameter, heat maps, a comparison of two policies) and run.toml, which
    repeats the sweep. Ctrl-C keeps what is finished; --resume goes on, also with more --runs, or without --halving.

    \b
    driftrank sweep
    driftrank sweep --policy "CascadeSWUCB:window=geom(50,20000,25),epsilon=lin(0.1,1,10)" --halving
    driftrank sweep --policy "CascadeDTS:discount=1-geom(0.0001,0.1,25)" --policy "CascadeSWTS:window=geom(50,20000,25)"
    driftrank sweep --policy "GLRTCascadeKLUCB:restart={global;local},explore=geom(0.001,0.1,10)" --policy CascadeTS
    driftrank sweep --env "Abrupt:period=geom(1000,20000,5)" --env Drift --queries my-queries.json --device cuda
    driftrank sweep --resume
    """
    from driftrank.cli._config import merged
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.sweep_run import DRAWN
    from driftrank.experiments.sweep_spec import SweepSpec

    options = {
        "policy": policy, "env": env, "queries": queries, "k": k, "click_model": click_model, "horizon": horizon,
        "runs": runs, "seed": seed, "checkpoints": checkpoints, "halving": halving, "device": device,
        "threads": threads, "address": address, "scheduler_file": scheduler_file, "workers": workers, "out": out,
        "resume": resume, "json": json, "quiet": quiet,
    }  # fmt: skip
    settings = merged(config, options, SweepSpec.defaults() | CLUSTER | _COMMAND)
    command = {key: settings.pop(key) for key in _COMMAND}
    place = chosen_device(settings)
    spec = SweepSpec(**settings)
    folder = Path(command["out"])
    result = spec.run(folder, device=place, resume=command["resume"], progress=False if command["quiet"] else None)
    for old in folder.glob(DRAWN):
        old.unlink()
    drawn = _draw(result, folder)
    if command["json"]:
        show_json(result.summary())
    elif not command["quiet"]:
        show_table(result.table())
        if spec.halving:
            made, wanted = result.runs
            typer.echo(f"\nHalving: {made:,} of {wanted:,} runs ({made / wanted:.0%}) were made.")
        files = ["results.parquet", "settings.csv", "summary.json", *drawn, "run.toml"]
        typer.echo(f"\n{folder}: {', '.join(files)}")


def _draw(result: Any, folder: Path) -> list[str]:
    from driftrank.files import written

    names = []
    for name, figure in result.figures().items():
        with written(folder / f"{name}.png") as temporary:
            figure.savefig(temporary, dpi=150)
        names.append(f"{name}.png")
    return names
