"""driftrank log convert: logs in other formats to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import format_names

FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="auto, yandex, csv, tsv, jsonl, trec or open-bandit; auto detects it.",
        autocompletion=format_names,
    ),
]
ClicksOption = Annotated[
    str, typer.Option(metavar="positions|vector|items", help="Representation of clicks, for tables.")
]
GroupOption = Annotated[
    bool, typer.Option("--group", help="Merge rows that form one list, for the Open Bandit Dataset.")
]
QueryOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Name of the query, for the Open Bandit Dataset.", show_default="the file's folder"
    ),
]
PropensitiesOption = Annotated[
    str | None,
    typer.Option(
        metavar="conditional|marginal|list",
        help="The propensities are of an item given those above it, of an item at its position, or of the whole list.",
        show_default="unknown; marginal for the Open Bandit Dataset",
    ),
]
OnErrorOption = Annotated[
    str, typer.Option(metavar="skip|stop", help="Lines that cannot be used: leave them out, or stop at the first.")
]


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="The log, as text, gzipped or not; or the store of a service.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT.parquet", help="The file to write; of a store, the folder to add files to.")
    ],
    format: FormatOption = "auto",
    columns: o.ColumnsOption = None,
    clicks: ClicksOption = "positions",
    group: GroupOption = False,
    query: QueryOption = None,
    propensities: PropensitiesOption = None,
    on_error: OnErrorOption = "skip",
    ranker: o.StoredRankerOption = None,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Convert a click log to Parquet.

    The result has one row per list, with query, time, ranking and clicks. The input is the log of the Yandex relevance
    prediction challenge, the Open Bandit Dataset, or a table (CSV, TSV, JSONL, TREC run) with one row per list or per
    result. Lines that cannot be used are left out and reported with their numbers; the exit code is then still 0.

    Of the store of a service, also while that runs, OUT.parquet is a folder of files: every call adds one with the
    lists that have ended since the last. The columns arm, event and how are added, and propensities if the policy
    defines them. Lists that were withdrawn, not activated, or not answered where the settings drop silence are left
    out. Commands that read a log take the folder.

    \b
    driftrank log convert clicks.gz log.parquet
    driftrank log convert log.csv log.parquet --columns query=q,time=ts,ranking=docs,clicks=clicked
    driftrank log convert log.jsonl log.parquet --clicks items --on-error stop
    driftrank log convert rows.tsv log.parquet --columns list=serp,item=doc,rank=position,click=clicked
    driftrank log convert obd/random/all/all.csv log.parquet --group
    driftrank log convert driftrank.db log.parquet --ranker shop
    driftrank log convert postgresql://db1/driftrank log.parquet --ranker shop
    """
    if "://" in source or _is_store(source):
        given = (format, columns, clicks, group, query, propensities, on_error)
        if given != ("auto", None, "positions", False, None, None, "skip"):
            raise ValueError(f"IN={source}: a store takes --ranker, but no other option of formats")
        _convert_store(source if "://" in source else f"sqlite:///{source}", out, ranker, json=json, quiet=quiet)
        return
    if ranker is not None:
        raise ValueError(f"ranker={ranker!r}: must not be given unless IN is a store, such as driftrank.db")
    import time

    from driftrank.cli._output import show_json
    from driftrank.cli.log._columns import columns_of
    from driftrank.logs.conversion.convert import convert as convert_log

    begin = time.perf_counter()
    report = convert_log(
        source, out, format=format, columns=columns_of(columns), clicks=clicks, group=group, query=query,
        propensities=propensities, on_error=on_error, progress=False if quiet or json else None,
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


def _is_store(path: str) -> bool:
    """True for the SQLite file of a store."""
    try:
        with Path(path).open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _convert_store(url: str, out: Path, ranker: str | None, *, json: bool, quiet: bool) -> None:
    from dataclasses import asdict

    from driftrank.cli._output import show_json
    from driftrank.extras import LOGS, need

    need("logs", *LOGS, serve=("msgspec",))
    from driftrank.serve.offline.click_log import convert_store

    done = convert_store(url, out, ranker)
    if json:
        show_json(asdict(done))
        return
    if not quiet:
        for note in done.notes:
            typer.echo(note, err=True)
        typer.echo(f"{out}: {done.lists:,} lists, {done.clicks:,} clicks of ranker {done.ranker} added")
