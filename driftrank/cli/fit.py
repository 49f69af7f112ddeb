"""driftrank fit: click models from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import click_model_names


def fit(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOG]",
            help="A log: Parquet files, a table FILE.duckdb:TABLE, or text such as the Yandex log.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="CM,DBN,...|all", help="Which models, see driftrank click-models.", autocompletion=click_model_names
        ),
    ] = "CM,DCM,SDBN,PBM,UBM",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Where to write the models.", show_default="models.json")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for a page with figures.", show_default="none")
    ] = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", help="Write only the N most frequent queries.", show_default="all")
    ] = None,
    items: Annotated[
        int | None, typer.Option(metavar="N", help="And of each the N items most often shown.", show_default="all")
    ] = None,
    prior: Annotated[
        str, typer.Option(metavar="A,B", help="Smoothing: A clicks and B views are added to every ratio; 0,0: none.")
    ] = "1,2",
    per_query: Annotated[
        bool, typer.Option("--per-query", help="Parameters of ranks for every query, instead of one set for all.")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="DCM and SDBN by maximum likelihood, instead of their closed forms.")
    ] = False,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Write the 95% confidence interval of every parameter, too.")
    ] = False,
    holdout: Annotated[
        float, typer.Option(metavar="F", help="The part of the lists, the latest, to compare models on; 0: none.")
    ] = 0.2,
    drift: Annotated[
        bool, typer.Option("--drift", help="Find the changes of the queries written, for --env Replay.")
    ] = False,
    delta: Annotated[
        float, typer.Option(metavar="P", help="The chance of a change found in a query that does not change.")
    ] = 0.01,
    windows: Annotated[int, typer.Option(metavar="W", help="In the report: windows of attraction over time.")] = 20,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAME=COLUMN,...", help="Columns that are called otherwise.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(metavar="cpu|cluster", help="Where to count the log.")] = "cpu",
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Of a Dask scheduler.", show_default="a cluster is started here"),
    ] = None,
    from_stats: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Statistics instead of a log: what --print-sql or --save-stats gave; repeatable."
        ),
    ] = None,
    save_stats: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the statistics of the log, as Parquet.", show_default="no")
    ] = None,
    print_sql: Annotated[
        bool, typer.Option("--print-sql", help="Print the SQL that counts the log, and do nothing else.")
    ] = False,
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help="Of --print-sql: duckdb, spark, bigquery, snowflake or clickhouse.")
    ] = "duckdb",
    table: Annotated[str, typer.Option(metavar="NAME", help="Of --print-sql: the table with the log.")] = "log",
    json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Fit click models to a log, and see which predicts clicks best.

    Models are fitted to the earlier lists, compared on the later ones, and then fitted to all. The file of models is
    what driftrank simulate takes as --queries, with --click-model.

    \b
    driftrank fit log.parquet
    driftrank fit yandex.txt.gz --model all --top 100 --report out/fit
    driftrank fit log.parquet --model CM --drift --top 20 --out changing.json
    driftrank simulate --queries changing.json --env Replay
    driftrank fit --print-sql --model PBM --dialect bigquery --table my.project.clicks
    driftrank fit --from-stats counted.parquet --model PBM
    """
    from driftrank.experiments.fitting import finest, fit_log, fit_statistics, models_of, write_models
    from driftrank.logs.sql import print_sql as written_sql

    models = models_of(model)
    if print_sql:
        typer.echo(written_sql(finest(models, exact), dialect, table) + ";")
        return
    if (log is None) == (not from_stats):
        raise ValueError("log: give a log, or --from-stats FILE" + (", not both" if log is not None else ""))
    if from_stats and (drift or save_stats):
        raise ValueError(f"{'--drift' if drift else '--save-stats'}: needs a log, not statistics")
    options: dict[str, Any] = {"prior": _prior(prior), "per_query": per_query, "exact": exact}
    bars = False if quiet or json else None
    names = [cls.__name__ for cls in models]
    target = out or Path("models.json")
    if not target.parent.is_dir():
        raise ValueError(f"out={str(target)!r}: there is no folder {target.parent}")
    opened = None
    if log is None:
        from driftrank.logs.stored import load_statistics

        fitting = fit_statistics([load_statistics(path) for path in from_stats or ()], names, progress=bars, **options)
    else:
        from driftrank.cli.log._columns import columns_of
        from driftrank.logs import open_log

        opened = open_log(log, columns_of(columns))
        fitting = fit_log(
            opened, names, holdout=holdout, device=device, address=address, progress=bars, **options
        )  # fmt: skip
    if save_stats is not None:
        _save(fitting, save_stats)
    drifts = _drifts(opened, top, items, delta, options) if opened is not None and drift else []
    written = write_models(target, fitting, top=top, items=items, intervals=intervals, drifts=drifts)
    _show(fitting, target, written, drifts, json, quiet)
    if report is not None:
        source = log or ", ".join(map(str, from_stats or ()))
        files = _report(fitting, report, source, opened, drifts, windows, options)
        if not (json or quiet):
            typer.echo(f"{report}: {', '.join(path.name for path in files)}")


def _prior(text: str) -> tuple[float, float]:
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"prior={text!r}: must be two numbers, as in 1,2") from None
    return a, b


def _save(fitting: Any, folder: Path) -> None:
    from driftrank.files import usable_folder

    for kind, statistics in fitting.statistics.items():
        statistics.save(usable_folder(folder) / f"{kind}.parquet")


def _drifts(log: Any, top: int | None, items: int | None, delta: float, options: dict[str, Any]) -> list[Any]:
    from driftrank.logs.changes import drift

    return drift(log, top=top or 100, items=items or 10, delta=delta, prior=options["prior"])


def _show(fitting: Any, target: Path, written: int, drifts: list[Any], json: bool, quiet: bool) -> None:
    from driftrank.cli._output import show_json, show_table

    if json:
        changes = {str(found.query): [change.after for change in found.changes] for found in drifts}
        show_json(fitting.summary() | ({"changes": changes} if drifts else {}))
    elif not quiet:
        show_table(fitting.table())
        compared = f"compared on the last {fitting.held_out:,} of {fitting.lists:,} lists" if fitting.held_out else ""
        if fitting.evaluations and not fitting.held_out:
            compared = "compared on the lists they were fitted to"
        if compared:
            typer.echo(f"\nBest: {fitting.best}; models {compared}, by log-likelihood of a list.")
        if drifts:
            changing = sum(bool(found.changes) for found in drifts)
            typer.echo(
                f"{changing} of {len(drifts)} queries change, {sum(len(f.changes) for f in drifts)} times in all."
            )
        typer.echo(f"{target}: {written:,} quer{'y' if written == 1 else 'ies'}")


def _report(
    fitting: Any, folder: Path, source: str, log: Any, drifts: list[Any], windows: int, options: dict[str, Any]
) -> list[Path]:
    import sys

    from driftrank.clickmodels.registry import click_model
    from driftrank.experiments.fit_report import write_fit_report
    from driftrank.logs.over_time import attraction_over_time

    name = fitting.best or next(iter(fitting.fits))
    series = attraction_over_time(log, click_model(name), windows=windows, **options) if log is not None else []
    return write_fit_report(fitting, folder, source, ["driftrank", *sys.argv[1:]], series, drifts, name)
