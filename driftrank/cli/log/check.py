"""driftrank log check: what is in a log, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer


def check(
    log: Annotated[str, typer.Argument(metavar="LOG", help="Parquet, FILE.duckdb:TABLE, or text; gzipped or not.")],
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME=COLUMN,...", help="Columns that are called otherwise.", show_default=False),
    ] = None,
    examples: Annotated[int, typer.Option(metavar="N", help="Examples of every kind of problem, at most 20.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Look a click log over: counts, duplicates, clicks on what was not shown, empty lists, clock jumps, clicks by
    position; with the numbers of lines (of text) or rows (of tables).

    The exit code is 1 if there are lines or rows that cannot be used, else 0.

    \b
    driftrank log check log.parquet
    driftrank log check clicks.gz --examples 20
    driftrank log check my.duckdb:clicks --columns query=q,ranking=docs --json
    """
    from driftrank.cli._output import show_json, show_table
    from driftrank.cli.log._columns import columns_of
    from driftrank.experiments.table import Table
    from driftrank.logs.checking import check as look_over
    from driftrank.validation import check_integer

    check_integer("examples", examples, 0, 20)
    found = look_over(log, columns_of(columns))
    if json:
        show_json(found.to_dict())
        raise typer.Exit(0 if found.good else 1)
    report = found.report
    counts = [(name, f"{count:,}") for name, count in found.counts.items()]
    counts += [("lists with a click", f"{found.click_rate:.1%}")] if found.counts["lists"] else []
    counts += [("first time", f"{found.first}"), ("last time", f"{found.last}")]
    if report.unit == "line":
        counts.insert(0, ("lines of text", f"{report.lines:,}"))
    typer.echo(f"{found.source}\n")
    show_table(Table(("what", "count"), counts, (None, "")))
    if found.positions:
        rows = [
            (p, views, clicks, clicks / views if views else float("nan"))
            for p, (views, clicks) in enumerate(found.positions, 1)
        ]
        typer.echo()
        show_table(Table(("position", "shown", "clicked", "click rate"), rows, ("d", ",", ",", ".4f")))
    if found.gaps:
        typer.echo()
        gaps = [(str(length), row, str(time)) for length, row, time in found.gaps]
        show_table(Table(("longest gaps", f"before {report.unit}", "time"), gaps, ("", ",", "")))
    typer.echo()
    for line in report.details(examples):
        typer.echo(line.removeprefix("  "))
    unit = report.unit if report.errors == 1 else f"{report.unit}s"
    typer.echo(f"{report.errors:,} {unit} cannot be used" if report.errors else f"every {report.unit} can be used")
    raise typer.Exit(0 if found.good else 1)
