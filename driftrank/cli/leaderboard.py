"""driftrank leaderboard: every policy in every environment, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import policy_names, suite_names
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
    "quick": False, "queries": "", "n_queries": None, "policy": [], "env": [], "k": 3, "horizon": None, "runs": 1,
    "seed": 0, **DEVICE, "out": "out/leaderboard", "resume": False, "json": False,
}  # fmt: skip


def leaderboard(
    quick: Annotated[
        bool | None, typer.Option("--quick", help="5 queries with 2,000 steps: under a minute, once compiled.")
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(metavar="yandex-like:N|FILE.json", help="The queries to rank for.", show_default="yandex-like:20"),
    ] = None,
    n_queries: Annotated[
        int | None, typer.Option(metavar="N", help="Only the first N queries.", show_default="all")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="A policy; repeatable. The default policy is always among them.",
            show_default="all",
            autocompletion=policy_names,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="An environment, by its name in the suite or in full; repeatable.",
            show_default="the suite",
            autocompletion=suite_names,
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option(metavar="K", help="Positions: items shown at a time.", show_default="3")
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(metavar="N", help="Steps of a run; the suite's periods scale with it.", show_default="100000"),
    ] = None,
    runs: Annotated[int | None, typer.Option(metavar="R", help="Runs of every query.", show_default="1")] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="S", help="Everything random derives from it.", show_default="0")
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    address: AddressOption = None,
    scheduler_file: SchedulerFileOption = None,
    workers: WorkersOption = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for the results.", show_default="out/leaderboard")
    ] = None,
    resume: Annotated[bool | None, typer.Option("--resume", help="Go on with what the folder holds.")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Any of these settings; options given here win over it.")
    ] = None,
    json: Annotated[bool | None, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = None,
) -> None:
    """Run every policy in every environment of the standard suite, and write the leaderboard.

    The suite: nothing changes, abrupt changes large and small, random ones, four kinds of drift, low click-through
    rates, regimes that come back, items that come and go, changes that do not matter or that nobody sees, and items
    with features. All policies meet the same users.

    The folder gets leaderboard.html (everything on one page), the same as leaderboard.md with leaderboard.png and
    leaderboard.svg, table.csv, results.parquet, summary.json and run.toml, which repeats it. Ctrl-C keeps what is
    finished; --resume goes on.

    \b
    driftrank leaderboard
    driftrank leaderboard --quick
    driftrank leaderboard --queries my-queries.json --n-queries 40 --runs 2
    driftrank leaderboard --policy CascadeSWUCB:window=500 --policy CascadeDUCB --env Abrupt --env Drift-walk
    driftrank leaderboard --resume
    """
    from driftrank.cli._config import merged
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.board_page import write_page
    from driftrank.experiments.leaderboard import HORIZON, QUERIES, QUICK_HORIZON, QUICK_QUERIES
    from driftrank.experiments.leaderboard import leaderboard as run

    options = {
        "quick": quick, "queries": queries, "n_queries": n_queries, "policy": policy, "env": env, "k": k,
        "horizon": horizon, "runs": runs, "seed": seed, "device": device, "threads": threads, "address": address,
        "scheduler_file": scheduler_file, "workers": workers, "out": out, "resume": resume, "json": json,
    }  # fmt: skip
    settings = merged(config, options, _DEFAULTS)
    settings["device"] = chosen_device(settings)
    folder, as_json = Path(settings.pop("out")), settings.pop("json")
    small = settings.pop("quick")
    if not settings["queries"]:
        settings["queries"] = f"yandex-like:{settings['n_queries'] or (QUICK_QUERIES if small else QUERIES)}"
    elif small and settings["n_queries"] is None:
        settings["n_queries"] = QUICK_QUERIES
    if settings["horizon"] is None:
        settings["horizon"] = QUICK_HORIZON if small else HORIZON
    names = {"policies": settings.pop("policy"), "environments": settings.pop("env")}
    if not as_json:
        typer.echo(f"Queries: {settings['queries']}. The first time, every policy takes some seconds to compile.")
    board = run(folder=folder, say=None if as_json else typer.echo, **names, **settings)
    files = write_page(board, folder, _command(settings | names))
    if as_json:
        show_json(board.summary())
        return
    show_table(_short(board))
    more = ["results.parquet", "summary.json", "run.toml"]
    typer.echo(f"\n{folder}: {', '.join([*(path.name for path in files), *more])}")
    typer.echo(f"Open {(folder / 'leaderboard.html').absolute().as_uri()}")


def _short(board: Any) -> Any:
    """What fits on a screen: the page has the rest."""
    from driftrank.experiments.table import Table

    verdicts = {label: [c.verdict for c in board.comparisons if c.policy == label] for label in board.policies}
    rows = [
        (label, board.groups[label], board.scores[label], sum(board.best(name) == label for name in board.environments),
         verdicts[label].count("better"), verdicts[label].count("worse"))
        for label in board.ranked()
    ]  # fmt: skip
    names = ("policy", "group", "ratio to best", "best in", f"better than {board.default} in", "worse in")
    return Table(names, rows, (None, None, ".2f", "d", "d", "d"))


def _command(settings: dict[str, Any]) -> list[str]:
    """The command line that repeats a leaderboard."""
    command = ["driftrank", "leaderboard", "--queries", settings["queries"], "--horizon", str(settings["horizon"])]
    for key in ("n_queries", "runs", "k", "seed"):
        if settings[key] != _DEFAULTS[key]:
            command += [f"--{key.replace('_', '-')}", str(settings[key])]
    for option, chosen in (("--policy", settings["policies"]), ("--env", settings["environments"])):
        for spec in chosen:
            command += [option, spec]
    return command
