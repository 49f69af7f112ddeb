"""driftrank reproduce: the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import policy_names
from driftrank.cli._device import (
    DEVICE,
    AddressOption,
    DeviceOption,
    SchedulerFileOption,
    ThreadsOption,
    WorkersOption,
    chosen_device,
)

_DEFAULTS: dict[str, Any] = {
    "quick": False, "queries": "", "log": "", "policies": "paper", "policy": [], "runs": None, "horizon": 100_000,
    "seed": 0, **DEVICE, "out": "out/paper", "resume": False,
}  # fmt: skip


def reproduce(
    quick: Annotated[
        bool | None, typer.Option("--quick", help="20 queries with 2 runs each: seconds instead of minutes.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            metavar="yandex-like:N|FILE.json", help="The queries to rank for.", show_default="yandex-like:100"
        ),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A click log, such as the Yandex log: its frequent queries, fitted, are the queries to rank for.",
            show_default="none",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="paper|all", help="Those of the paper, or more baselines and references too.", show_default="paper"
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]", help="One more policy to compare; repeatable.", autocompletion=policy_names
        ),
    ] = None,
    runs: Annotated[int | None, typer.Option(metavar="R", help="Runs of every query.", show_default="10")] = None,
    horizon: Annotated[
        int | None, typer.Option(metavar="N", help="Steps of a run, in ten epochs.", show_default="100000")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Everything random derives from it.", show_default="0")
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    address: AddressOption = None,
    scheduler_file: SchedulerFileOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the results.", show_default="out/paper")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help="Go on with what the folder holds.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Any of these settings; options given here win over it.")
    ] = None,
) -> None:
    """Reproduce the paper's experiments: figures 1 and 2, a table, and a report.

    100 queries with 10 runs of 100,000 steps each, for every policy of section 5; and BubbleRank on 20 queries, for the
    figure of the appendix. The folder gets report.html (everything on one page), figure1 and figure2 (PNG and SVG),
    table.csv, results.parquet, summary.json and run.toml, which repeats it. Ctrl-C keeps what is finished;
    --resume goes on.

    \b
    driftrank reproduce
    driftrank reproduce --quick
    driftrank reproduce --queries my-queries.json --policies all
    driftrank reproduce --log yandex.txt.gz --out out/yandex
    driftrank reproduce --policy CascadeSWUCB:window=716 --out out/windows
    driftrank reproduce --resume
    """
    from driftrank.cli._config import merged
    from driftrank.cli._output import show_table
    from driftrank.experiments import paper
    from driftrank.experiments.report import write_report

    options = {
        "quick": quick, "queries": queries, "log": log, "policies": policies, "policy": policy, "runs": runs,
        "horizon": horizon, "seed": seed, "device": device, "threads": threads, "address": address,
        "scheduler_file": scheduler_file, "workers": workers, "out": out, "resume": resume,
    }  # fmt: skip
    settings = merged(config, options, _DEFAULTS)
    settings["device"] = chosen_device(settings)
    folder = Path(settings.pop("out"))
    small = settings.pop("quick")
    wanted = paper.QUICK_QUERIES if small else paper.QUERIES
    source = settings.pop("log")
    if source:
        from driftrank.experiments.from_log import prepare_queries

        if settings["queries"]:
            raise ValueError("log: has the queries; leave --queries out")
        typer.echo(f"Log: {source}. Counting it, and choosing its {wanted} most frequent queries.")
        path, found = prepare_queries(source, folder, wanted)
        typer.echo(f"{path}: {found} queries with 10 items each, fitted in the cascade model.")
        settings["queries"] = str(path.absolute())
    if not settings["queries"]:
        settings["queries"] = f"yandex-like:{wanted}"
    if settings["runs"] is None:
        settings["runs"] = paper.QUICK_RUNS if small else paper.RUNS
    typer.echo(
        f"Queries: {settings['queries']}. Runs of each: {settings['runs']}, of {settings['horizon']:,} steps. "
        "The first time, every policy takes some seconds to compile."
    )
    reproduction = paper.reproduce(folder, **settings)
    files = write_report(reproduction, folder, _command(settings))
    show_table(reproduction.table())
    more = ["results.parquet", "summary.json", "run.toml"]
    typer.echo(f"\n{folder}: {', '.join([*(path.name for path in reversed(files)), *more])}")
    typer.echo(f"Open {(folder / 'report.html').absolute().as_uri()}")


def _command(settings: dict[str, Any]) -> list[str]:
    """The command line that repeats a reproduction."""
    command = ["driftrank", "reproduce", "--queries", settings["queries"], "--runs", str(settings["runs"])]
    for key in ("policies", "horizon", "seed"):
        if settings[key] != _DEFAULTS[key]:
            command += [f"--{key}", str(settings[key])]
    for spec in settings["policy"]:
        command += ["--policy", spec]
    return command
