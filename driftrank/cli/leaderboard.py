"""driftrank leaderboard: every policy in every environment, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names, suite_names
from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.experiments import Leaderboard
    from driftrank.reporting.table import Table

CALLER = ": clicks a list, less those of the caller's order"

QuickOption = Annotated[
    bool,
    typer.Option(
        "--quick", help="5 queries with 2,000 steps: under a minute, once its hundreds of kernels are compiled."
    ),
]
QueriesOption = Annotated[
    str, typer.Option(metavar=o.QUERIES, help="The queries to rank for.", show_default="yandex-like:20")
]
NumberOption = Annotated[
    int | None, typer.Option(metavar="N", help="Use only the first N queries.", show_default="all")
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar=o.SPEC,
        help="A policy; repeatable. The default policy is always added.",
        show_default="all that suit the users",
        autocompletion=policy_names,
    ),
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar=o.SPEC,
        help="An environment, by its name in the suite or in full, or a part of the suite; repeatable.",
        show_default="the suite",
        autocompletion=suite_names,
    ),
]
HorizonOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Steps of a run; the suite's periods scale with it.", show_default="100000"),
]


def leaderboard(
    quick: QuickOption = False,
    queries: QueriesOption = "",
    n_queries: NumberOption = None,
    policy: PolicyOption = None,
    env: EnvironmentOption = None,
    k: Annotated[int, typer.Option("--k", metavar="K", help="Positions: items shown at a time.")] = 3,
    horizon: HorizonOption = None,
    runs: o.RunsOption = 1,
    seed: o.SeedOption = 0,
    device: o.DeviceOption = "cpu",
    threads: o.ThreadsOption = None,
    address: o.AddressOption = None,
    scheduler_file: o.SchedulerFileOption = None,
    workers: o.WorkersOption = None,
    out: o.OutOption = "out/leaderboard",
    resume: o.ResumeOption = False,
    imports: o.ImportOption = None,
    config: o.ConfigOption = None,
    json: o.JsonOption = False,
) -> None:
    """Run every policy in every environment and rank them.

    The standard suite has parts, each of them compared by itself. change: users who change, abruptly or gradually, in
    ways that matter or not. users: position bias (PBM, UBM) and several clicks (DBN, DCM). sizes: many items, short
    runs, fast changes, blips, nearly tied items, rare clicks. fair: rivals with the true number of changes, and tuned.
    traffic: all queries of a ranker in one run, clicks against the order that the caller had. All policies meet the
    same users.

    The folder gets leaderboard.html (everything on one page), the same as leaderboard.md with leaderboard.png and
    leaderboard.svg, table.csv, results.parquet, summary.json and run.toml, which repeats it. Ctrl-C keeps finished
    runs; --resume continues.

    \b
    driftrank leaderboard
    driftrank leaderboard --quick
    driftrank leaderboard --queries my-queries.json --n-queries 40 --runs 2
    driftrank leaderboard --policy CascadeSWUCB:window=500 --policy CascadeDUCB --env Abrupt --env Drift-walk
    driftrank leaderboard --env users --env fair
    driftrank leaderboard --resume
    """
    need("plots", "matplotlib", "pyarrow")
    from driftrank.cli._device import chosen_device
    from driftrank.experiments.leaderboards import leaderboard as board

    if not queries:
        queries = f"yandex-like:{n_queries or (board.QUICK_QUERIES if quick else board.QUERIES)}"
    elif quick and n_queries is None:
        n_queries = board.QUICK_QUERIES
    if horizon is None:
        horizon = board.QUICK_HORIZON if quick else board.HORIZON
    if not json:
        typer.echo(
            f"Queries: {queries}. The first time, every policy is compiled for every kind of users: hundreds of "
            "kernels, some seconds of a core each."
        )
    made = board.leaderboard(
        queries=queries, policies=policy or [], environments=env or [], n_queries=n_queries, k=k, horizon=horizon,
        runs=runs, seed=seed, device=chosen_device(device, address, scheduler_file, workers), threads=threads,
        folder=out, resume=resume, say=None if json else typer.echo, settings={"imports": imports or None},
    )  # fmt: skip
    command = o.command_line(
        leaderboard, queries=queries, horizon=horizon, n_queries=n_queries, runs=runs, k=k, seed=seed, policy=policy,
        env=env, imports=imports,
    )  # fmt: skip
    _show(made, Path(out), command, json)


def _show(board: Leaderboard, folder: Path, command: list[str], json: bool) -> None:
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.leaderboards.findings import title
    from driftrank.experiments.leaderboards.page import write_page

    files = write_page(board, folder, command)
    if json:
        show_json(board.summary())
        return
    for part in board.every_part:
        typer.echo(f"\n{title(part)}{CALLER * part.with_caller}")
        show_table(part.gains() if part.with_caller else _short(part))
    names = [*(path.name for path in files), "results.parquet", "summary.json", "run.toml"]
    typer.echo(f"\n{folder}: {', '.join(names)}")
    typer.echo(f"Open {(folder / 'leaderboard.html').absolute().as_uri()}")


def _short(board: Leaderboard) -> Table:
    """A table that fits on a screen; the page has the rest."""
    from driftrank.reporting.table import Table

    verdicts = {label: [c.verdict for c in board.comparisons if c.policy == label] for label in board.policies}
    rows = [
        (label, board.groups[label], board.scores[label], sum(board.best(name) == label for name in board.environments),
         verdicts[label].count("better"), verdicts[label].count("worse"))
        for label in board.ranked()
    ]  # fmt: skip
    names = ("policy", "group", "ratio to best", "best in", f"better than {board.default} in", "worse in")
    return Table(names, rows, (None, None, ".2f", "d", "d", "d"))
