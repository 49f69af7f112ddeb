"""driftrank log convert: logs in other forms to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli._complete import format_names


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The log, as text; gzipped or not.")],
    out: Annotated[Path, typer.Argument(metavar="OUT.parquet", help="The file to write.")],
    format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="auto, yandex, csv, tsv, jsonl, trec or open-bandit; auto looks at the file.",
            autocompletion=format_names,
        ),
    ] = "auto",
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=COLUMN,...",
            help="Of tables: columns that are called otherwise, query=q,time=ts. time=# where there is no clock.",
            show_default=False,
        ),
    ] = None,
    clicks: Annotated[
        str, typer.Option(metavar="positions|vector|items", help="Of tables: how clicks are written.")
    ] = "positions",
    group: Annotated[
        bool, typer.Option("--group", help="Of the Open Bandit Dataset: merge rows that make up one list.")
    ] = False,
    query: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the Open Bandit Dataset: the query.", show_default="the file's folder"),
    ] = None,
    on_error: Annotated[
        str, typer.Option(metavar="skip|stop", help="Lines that cannot be used: leave them out, or stop at the first.")
    ] = "skip",
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but what is wrong.")] = False,
) -> None:
    """Convert a click log to Parquet: one row per list, with query, time, ranking and clicks.

    Knows the log of the Yandex relevance prediction challenge, the Open Bandit Dataset, and tables (CSV, TSV, JSONL,
    TREC runs) with one row per list or per result. Lines that cannot be used are reported, with their numbers, and left
    out; the exit code is 0 all the same.

    \b
    driftrank log convert clicks.gz log.parquet
    driftrank log convert log.csv log.parquet --columns query=q,time=ts,ranking=docs,clicks=clicked
    driftrank log convert log.jsonl log.parquet --clicks items --on-error stop
    driftrank log convert rows.tsv log.parquet --columns list=serp,item=doc,rank=position,click=clicked
    driftrank log convert obd/random/all/all.csv log.parquet --group
    """
    import time

    from driftrank.cli._output import show_json
    from driftrank.cli.log._columns import columns_of
    from driftrank.logs.conversion import convert as convert_log

    begin = time.perf_counter()
    report = convert_log(
        source, out, format=format, columns=columns_of(columns), clicks=clicks, group=group, query=query,
        on_error=on_error, progress=False if quiet or json else None,
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    if json:
        show_json(report.to_dict())
        return
    if report.counts:
        typer.echo(report.describe(), err=True)
    if not quiet:
        speed = f", {report.lines / seconds / 1e6:.1f} M lines/s" if report.lines > 1e6 else ""
        typer.echo(f"{out}: {report.lists:,} lists, {report.clicks:,} clicks, of {report.lines:,} lines{speed}")
