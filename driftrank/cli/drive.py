"""driftrank drive: simulated users against a running service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from driftrank.cli import _options as o
from driftrank.extras import CLIENT, need

if TYPE_CHECKING:
    from driftrank.drive.result import DriveResult

StepsOption = Annotated[int, typer.Option(metavar="N", help="Lists per query; of Traffic, lists in all.")]
RateOption = Annotated[
    float, typer.Option(metavar="R", help="Lists and feedbacks per second, in all; 0: as fast as possible.")
]
ConnectionsOption = Annotated[int, typer.Option(metavar="N", help="Concurrent requests.")]
BatchOption = Annotated[int, typer.Option(metavar="N", help="Lists, or feedbacks, per request; more are faster.")]
DelayOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="Mean time until feedback is sent, exponentially distributed.")
]
DropOption = Annotated[float, typer.Option(metavar="SHARE", help="Share of feedback that is never sent.")]
DuplicateOption = Annotated[float, typer.Option(metavar="SHARE", help="Share of feedback that is sent twice.")]
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Prefix of event ids.", show_default="a new one")
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Compare every list with the simulator's; exit code 1 if one differs.")
]


def drive(
    url: o.UrlOption = o.URL,
    ranker: o.RankerOption = "default",
    key: o.KeyOption = None,
    env: o.EnvironmentOption = "Abrupt",
    queries: o.QueriesOption = "",
    k: o.PositionsOption = None,
    click_model: o.ClickModelOption = "",
    steps: StepsOption = 200,
    seed: o.SeedOption = 0,
    rate: RateOption = 0.0,
    connections: ConnectionsOption = 32,
    batch: BatchOption = 1,
    delay: DelayOption = 0.0,
    drop: DropOption = 0.0,
    duplicate: DuplicateOption = 0.0,
    name: NameOption = "",
    check: CheckOption = False,
    out: o.OutOption = "out/drive",
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Send simulated users to a running service.

    The users are those of driftrank simulate with this seed (run 0). If policy, k, seed and horizon of the ranker are
    the same as there, and feedback always arrives, the service shows the same lists; --check verifies it.

    With --env Traffic, all queries of a ranker are asked for in their order, with candidates in the caller's order, and
    clicks are compared with those of that order: over time, and by how often the query came before.

    The folder gets lists.parquet (every list and its clicks), summary.json and drive.png: clicks per list and regret as
    served; with Traffic also caller.png. Ctrl-C keeps the results so far.

    \b
    driftrank drive --env Abrupt:period=100 --queries yandex-like:20
    driftrank drive --ranker shop --steps 1000 --rate 500 --check
    driftrank drive --rate 200 --delay 2 --drop 0.1 --duplicate 0.05
    driftrank drive --env Traffic:n_queries=500,K=10,going_on=0.85 --steps 5000
    driftrank drive --env Traffic:stream=log.parquet,models=models.json,K=10 --steps 5000
    """
    need("plots", "matplotlib", "pyarrow", client=CLIENT)
    from driftrank.drive.drive import Drive
    from driftrank.drive.session import FeedbackFaults
    from driftrank.files import usable_folder

    settings = Drive(
        url=url, key=key, ranker=ranker, env=env, queries=queries, k=k, click_model=click_model, steps=steps, seed=seed,
        rate=rate, connections=connections, batch=batch, faults=FeedbackFaults(delay, drop, duplicate), name=name,
    )  # fmt: skip
    usable_folder(out)
    result = settings.run(check=check, progress=False if quiet or json else None)
    _show(result, out, json, quiet)


def _show(result: DriveResult, out: str, json: bool, quiet: bool) -> None:
    from driftrank.cli._output import show_json, show_table

    if result.done.any():
        result.save(out)
        if json:
            show_json(result.summary())
        elif not quiet:
            show_table(result.table())
            if result.compared:
                typer.echo()
                show_table(result.caller_table())
            typer.echo(f"\n{out}: {result.files}")
    if result.error is not None:
        raise result.error
    if result.check is not None and not (json or (quiet and result.check.same)):
        typer.echo(str(result.check), err=not result.check.same)
    if result.stopped:
        raise KeyboardInterrupt
    if result.check is not None and not result.check.same:
        raise typer.Exit(1)
