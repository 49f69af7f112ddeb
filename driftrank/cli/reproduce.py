"""driftrank reproduce: the paper's figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names
from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.experiments.paper.reproduction import Reproduction

QuickOption = Annotated[bool, typer.Option("--quick", help="20 queries with 2 runs each: seconds instead of minutes.")]
QueriesOption = Annotated[
    str, typer.Option(metavar=o.QUERIES, help="The queries to rank for.", show_default="yandex-like:100")
]
LogOption = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="A click log, such as the Yandex log: rank for its frequent queries, fitted.",
        show_default="none",
    ),
]
PoliciesOption = Annotated[
    str, typer.Option(metavar="paper|all", help="Those of the paper, or more baselines and references too.")
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(metavar=o.SPEC, help="One more policy to compare; repeatable.", autocompletion=policy_names),
]
RunsOption = Annotated[int | None, typer.Option(metavar="R", help="Runs of every query.", show_default="10")]
HorizonOption = Annotated[int, typer.Option(metavar="N", help="Steps of a run, in ten epochs.")]


def reproduce(
    quick: QuickOption = False,
    queries: QueriesOption = "",
    log: LogOption = "",
    policies: PoliciesOption = "paper",
    policy: PolicyOption = None,
    runs: RunsOption = None,
    horizon: HorizonOption = 100_000,
    seed: o.SeedOption = 0,
    device: o.DeviceOption = "cpu",
    threads: o.ThreadsOption = None,
    address: o.AddressOption = None,
    scheduler_file: o.SchedulerFileOption = None,
    workers: o.WorkersOption = None,
    out: o.OutOption = "out/paper",
    resume: o.ResumeOption = False,
    imports: o.ImportOption = None,
    config: o.ConfigOption = None,
) -> None:
    """Reproduce the paper: figures 1 and 2, a table and a report.

    100 queries with 10 runs of 100,000 steps each, for every policy of section 5; and BubbleRank on 20 queries, for the
    figure of the appendix. The folder gets report.html (everything on one page), figure1 and figure2 (PNG and SVG),
    table.csv, results.parquet, summary.json and run.toml, which repeats it. Ctrl-C keeps finished runs; --resume
    continues.

    \b
    driftrank reproduce
    driftrank reproduce --quick
    driftrank reproduce --queries my-queries.json --policies all
    driftrank reproduce --log yandex.txt.gz --out out/yandex
    driftrank reproduce --policy CascadeSWUCB:window=716 --out out/windows
    driftrank reproduce --resume
    """
    need("plots", "matplotlib", "pyarrow")
    from driftrank.cli._device import chosen_device
    from driftrank.experiments.paper import reproduction

    place = chosen_device(device, address, scheduler_file, workers)
    wanted = reproduction.QUICK_QUERIES if quick else reproduction.QUERIES
    if log and queries:
        raise ValueError("log: has the queries; leave --queries out")
    queries = _from_log(log, out, wanted) if log else queries or f"yandex-like:{wanted}"
    if runs is None:
        runs = reproduction.QUICK_RUNS if quick else reproduction.RUNS
    typer.echo(
        f"Queries: {queries}. Runs of each: {runs}, of {horizon:,} steps. "
        "The first time, every policy takes some seconds to compile."
    )
    made = reproduction.reproduce(
        out, queries=queries, policies=policies, policy=policy or [], runs=runs, horizon=horizon, seed=seed,
        device=place, threads=threads, resume=resume, imports=imports or (),
    )  # fmt: skip
    command = o.command_line(
        reproduce,
        queries=queries,
        runs=runs,
        policies=policies,
        horizon=horizon,
        seed=seed,
        policy=policy,
        imports=imports,
    )
    _show(made, Path(out), command)


def _from_log(log: str, folder: str, wanted: int) -> str:
    """Choose the queries of a log and return the path of the file with them."""
    from driftrank.experiments.paper.queries_from_log import prepare_queries

    typer.echo(f"Log: {log}. Counting it, and choosing its {wanted} most frequent queries.")
    path, found = prepare_queries(log, folder, wanted)
    typer.echo(f"{path}: {found} queries with 10 items each, fitted in the cascade model.")
    return str(path.absolute())


def _show(made: Reproduction, folder: Path, command: list[str]) -> None:
    from driftrank.cli._output import show_table
    from driftrank.experiments.paper.report import write_report

    files = write_report(made, folder, command)
    show_table(made.table())
    names = [*(path.name for path in reversed(files)), "results.parquet", "summary.json", "run.toml"]
    typer.echo(f"\n{folder}: {', '.join(names)}")
    typer.echo(f"Open {(folder / 'report.html').absolute().as_uri()}")
