"""driftrank log stats: the most frequent queries of a log."""

from __future__ import annotations

from typing import Annotated

import typer

from driftrank.cli import _options as o


def stats(
    log: o.LogArgument,
    top: Annotated[int, typer.Option(metavar="N", help="Number of queries to show.")] = 10,
    columns: o.ColumnsOption = None,
    json: o.JsonOption = False,
) -> None:
    """Show the most frequent queries of a click log.

    For each, the number of lists, items and clicks, and the click rate: the share of lists with a click.

    \b
    driftrank log stats log.parquet
    driftrank log stats log.parquet --top 100 --json
    driftrank log stats my.duckdb:clicks --columns query=q,ranking=docs
    """
    from driftrank.cli._output import show_json, show_table
    from driftrank.cli.log._columns import columns_of
    from driftrank.logs.stats import summarise
    from driftrank.reporting.table import Table

    found = summarise(log, columns_of(columns), top=top)
    if json:
        show_json(found.to_dict())
        return
    rows = [(str(q.query), q.lists, q.items, q.clicks, q.click_rate) for q in found.top]
    if found.lists:
        show_table(Table(("query", "lists", "items", "clicks", "click rate"), rows, (None, ",", ",", ",", ".4f")))
        covered = sum(q.lists for q in found.top) / found.lists
        typer.echo(
            f"\n{len(rows):,} of {found.queries:,} queries, {covered:.1%} of {found.lists:,} lists."
            f" {found.clicks:,} clicks; {found.clicked / found.lists:.1%} of all lists were clicked."
            f" Time {found.first} to {found.last}."
        )
    else:
        typer.echo(f"{found.source}: no lists")
