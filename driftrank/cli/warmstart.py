"""driftrank warmstart: a running service learns from a click log."""

from __future__ import annotations

import typer

from driftrank.cli import _options as o
from driftrank.extras import CLIENT, LOGS, need


def warmstart(
    log: o.LogArgument,
    url: o.UrlOption = o.URL,
    ranker: o.RankerOption = "default",
    key: o.KeyOption = None,
    columns: o.ColumnsOption = None,
) -> None:
    """Let a running service learn from a click log.

    The lists are learnt from in the order of time, down to the ranker's k. The same log sent again counts once. Needs
    the admin key. Other formats can be converted first, with driftrank log convert.

    \b
    driftrank warmstart log.parquet
    driftrank warmstart log.txt.gz --ranker shop --key dr_...
    """
    need("logs", *LOGS, client=CLIENT)
    from driftrank.cli.log._columns import columns_of
    from driftrank.client import Client
    from driftrank.drive.warmstart import warmstart as warm
    from driftrank.logs import open_log

    opened = open_log(log, columns=columns_of(columns))
    with Client(url, key=key, ranker=ranker) as client:
        counted = warm(client, opened)
    again = f"; {counted.duplicates:,} were learnt from before" if counted.duplicates else ""
    typer.echo(f"{counted.counted:,} lists learnt from{again}")
