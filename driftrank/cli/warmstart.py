"""driftrank warmstart: a running service learns from a click log."""

from __future__ import annotations

from typing import Annotated

import typer


def warmstart(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Parquet, FILE.duckdb:TABLE, or text; gzipped or not.")],
    url: Annotated[str, typer.Option(metavar="URL", help="Where the service listens.")] = "http://127.0.0.1:8080",
    ranker: Annotated[str, typer.Option(metavar="NAME", help="The ranker that learns.")] = "default",
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The admin key.", envvar="DRIFTRANK_KEY")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=COLUMN,...",
            help="Columns that are called otherwise; time=# where there is no clock.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Have a running service learn from a click log before its first list.

    The lists are learnt from in the order of time, as far as the ranker's k. The same log sent again counts once.
    What is not taken for a log as it is can be converted first, with driftrank log convert.

    \b
    driftrank warmstart log.parquet
    driftrank warmstart log.txt.gz --ranker shop --key dr_...
    """
    from driftrank.cli.log._columns import columns_of
    from driftrank.client import Client
    from driftrank.experiments.warmstart import warmstart as warm
    from driftrank.logs import open_log

    opened = open_log(log, columns=columns_of(columns))
    with Client(url, key=key, ranker=ranker) as client:
        counted = warm(client, opened)
    again = f"; {counted.duplicates:,} were learnt from before" if counted.duplicates else ""
    typer.echo(f"{counted.counted:,} lists learnt from{again}")
