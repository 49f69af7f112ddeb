"""driftrank log check: the contents of a log, and its problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from driftrank.cli import _options as o

if TYPE_CHECKING:
    from driftrank.logs.checking import LogCheck


def check(
    log: o.LogArgument,
    columns: o.ColumnsOption = None,
    examples: Annotated[int, typer.Option(metavar="N", help="Examples of every kind of problem, at most 20.")] = 3,
    json: o.JsonOption = False,
) -> None:
    """Check a click log: contents and problems.

    Counts lists, queries, items, users and clicks by position; finds duplicates, clicks on items that were not shown,
    empty lists and clock jumps, with the numbers of lines (of text) or rows (of tables).

    The exit code is 1 if there are lines or rows that cannot be used, else 0.

    \b
    driftrank log check log.parquet
    driftrank log check clicks.gz --examples 20
    driftrank log check my.duckdb:clicks --columns query=q,ranking=docs --json
    """
    from driftrank.cli._output import show_json
    from driftrank.cli.log._columns import columns_of
    from driftrank.logs.checking import check as check_log
    from driftrank.validation import check_integer

    check_integer("examples", examples, 0, 20)
    found = check_log(log, columns_of(columns))
    if json:
        show_json(found.to_dict())
    else:
        _show(found, examples)
    raise typer.Exit(0 if found.good else 1)


def _show(found: LogCheck, examples: int) -> None:
    from driftrank.cli._output import show_table
    from driftrank.reporting.table import Table

    report = found.report
    counts = [(name, f"{count:,}") for name, count in found.counts.items()]
    if found.counts["lists"]:
        counts.append(("lists with a click", f"{found.click_rate:.1%}"))
    counts += [("propensities", found.propensities)] if found.propensities else []
    if found.counts["lists"]:
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
    lost = [(report.lost_lines, report.unit), (report.lost_clicks, "click")]
    words = " and ".join(f"{n:,} {unit}{'s' * (n != 1)}" for n, unit in lost if n)
    typer.echo(f"{words} cannot be used" if words else f"every {report.unit} can be used")
