"""driftrank drive: simulated users against a running service."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli._complete import click_model_names, environment_names


def drive(
    url: Annotated[str, typer.Option(metavar="URL", help="Where the service listens.")] = "http://127.0.0.1:8080",
    ranker: Annotated[str, typer.Option(metavar="NAME", help="The ranker to ask.")] = "default",
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The key that opens it.", envvar="DRIFTRANK_KEY")
    ] = None,
    env: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users change, see driftrank environments.",
            autocompletion=environment_names,
        ),
    ] = "Abrupt",
    queries: Annotated[
        str, typer.Option(metavar="yandex-like:N|FILE.json", help="The queries.", show_default="yandex-like:10")
    ] = "",
    k: Annotated[int | None, typer.Option(metavar="K", help="Items shown at a time.", show_default="3")] = None,
    click_model: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users click, see driftrank click-models.",
            show_default="CM",
            autocompletion=click_model_names,
        ),
    ] = "",
    steps: Annotated[int, typer.Option(metavar="N", help="Lists of every query.")] = 200,
    seed: Annotated[int, typer.Option(metavar="S", help="Who the users are derives from it.")] = 0,
    rate: Annotated[
        float, typer.Option(metavar="R", help="Lists and feedbacks per second, in all; 0: as fast as it goes.")
    ] = 0.0,
    connections: Annotated[int, typer.Option(metavar="N", help="Requests at a time.")] = 32,
    batch: Annotated[
        int, typer.Option(metavar="N", help="Lists, or feedbacks, that a request may have in it; more are faster.")
    ] = 1,
    delay: Annotated[
        float, typer.Option(metavar="SECONDS", help="Mean time until feedback is sent, exponentially distributed.")
    ] = 0.0,
    drop: Annotated[float, typer.Option(metavar="SHARE", help="Feedback that is never sent.")] = 0.0,
    duplicate: Annotated[float, typer.Option(metavar="SHARE", help="Feedback that is sent twice.")] = 0.0,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="What event ids begin with.", show_default="a new one")
    ] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Compare every list with the simulator's; exit code 1 if one differs.")
    ] = False,
    out: Annotated[str, typer.Option(metavar="DIR", help="Folder for the results.")] = "out/drive",
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Send simulated users who change their minds to a running service, and see what they get.

    The users are those of driftrank simulate with this seed (run 0). With the ranker's policy, k, seed and horizon the
    same there, and feedback that always arrives, the service shows the same lists, and --check says so.

    The folder gets lists.parquet (every list and its clicks), summary.json and drive.png: clicks per list and regret as
    served. Ctrl-C ends it with what was done so far.

    \b
    driftrank drive --env abrupt:period=100 --queries yandex-like:20
    driftrank drive --ranker shop --steps 1000 --rate 500 --check
    driftrank drive --rate 200 --delay 2 --drop 0.1 --duplicate 0.05
    """
    import driftrank.client  # noqa: F401 - first, since it says what to install where something is missing
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.drive import Drive
    from driftrank.experiments.drive_session import Mishaps
    from driftrank.files import usable_folder

    plan = Drive(
        url=url, key=key, ranker=ranker, env=env, queries=queries, k=k, click_model=click_model, steps=steps, seed=seed,
        rate=rate, connections=connections, batch=batch, mishaps=Mishaps(delay, drop, duplicate), name=name,
    )  # fmt: skip
    usable_folder(out)
    driven = plan.run(check=check, progress=False if quiet or json else None)
    if driven.done.any():
        driven.save(out)
        if json:
            show_json(driven.summary())
        elif not quiet:
            show_table(driven.table())
            typer.echo(f"\n{out}: lists.parquet, summary.json, drive.png")
    if driven.error is not None:
        raise driven.error
    if driven.check is not None and not (json or (quiet and driven.check.same)):
        typer.echo(str(driven.check), err=not driven.check.same)
    if driven.stopped:
        raise KeyboardInterrupt
    if driven.check is not None and not driven.check.same:
        raise typer.Exit(1)
