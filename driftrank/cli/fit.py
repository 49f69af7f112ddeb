"""driftrank fit: click models from a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import click_model_names
from driftrank.extras import LOGS, need

if TYPE_CHECKING:
    from driftrank.fitting.fit import FittedModels
    from driftrank.logs.changes import QueryDrift
    from driftrank.logs.count.statistics import Statistics
    from driftrank.logs.log import Log

ModelsOption = Annotated[
    str,
    typer.Option(
        metavar="CM,DBN,...|all", help="The models, see driftrank click-models.", autocompletion=click_model_names
    ),
]
ModelsFileOption = Annotated[Path, typer.Option(metavar="FILE.json", help="The models file to write.")]
ReportOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for a page with figures.", show_default="none")
]
TopOption = Annotated[
    int | None, typer.Option(metavar="N", help="Write only the N most frequent queries.", show_default="all")
]
ItemsOption = Annotated[
    int | None, typer.Option(metavar="N", help="Write only the N most shown items per query.", show_default="all")
]
PriorOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B",
        help="Smoothing: A clicks and B views are added to every ratio; 0,0: none.",
        show_default="two views with the log's click rate, for attraction; 1,2 for other parameters",
    ),
]
PerQueryOption = Annotated[bool, typer.Option("--per-query", help="Fit parameters of ranks for every query.")]
ExactOption = Annotated[
    bool | None,
    typer.Option(
        "--exact/--closed-form",
        help="DCM and SDBN by maximum likelihood, or by their closed forms, which are quicker and biased.",
        show_default="exact if models are compared",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace a models file even if it has other models, which are then lost.")
]
IntervalsOption = Annotated[bool, typer.Option("--intervals", help="Also write 95% confidence intervals.")]
HoldoutOption = Annotated[
    float, typer.Option(metavar="F", help="The share of lists, the latest, to compare models on; 0: none.")
]
DriftOption = Annotated[bool, typer.Option("--drift", help="Find the changes of the queries, for --env Replay.")]
DeltaOption = Annotated[
    float, typer.Option(metavar="P", help="With --drift: probability of a false change per query, at most.")
]
WindowsOption = Annotated[int, typer.Option(metavar="W", help="With --report: windows of attraction over time.")]
FromStatsOption = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Statistics instead of a log, from --print-sql or --save-stats; repeatable."),
]
SaveStatsOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the statistics of the log, as Parquet.", show_default="no")
]
PrintSqlOption = Annotated[bool, typer.Option("--print-sql", help="Print the SQL that counts the log, and exit.")]


def fit(
    log: o.OptionalLogArgument = None,
    model: ModelsOption = "CM,DCM,SDBN,PBM,UBM",
    out: ModelsFileOption = Path("models.json"),
    overwrite: OverwriteOption = False,
    report: ReportOption = None,
    top: TopOption = None,
    items: ItemsOption = None,
    prior: PriorOption = None,
    per_query: PerQueryOption = False,
    exact: ExactOption = None,
    intervals: IntervalsOption = False,
    holdout: HoldoutOption = 0.2,
    drift: DriftOption = False,
    delta: DeltaOption = 0.01,
    windows: WindowsOption = 20,
    columns: o.ColumnsOption = None,
    device: o.LogDeviceOption = "cpu",
    address: o.AddressOption = None,
    from_stats: FromStatsOption = None,
    save_stats: SaveStatsOption = None,
    print_sql: PrintSqlOption = False,
    dialect: o.DialectOption = "duckdb",
    table: o.TableOption = "log",
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
    quiet: o.QuietOption = False,
) -> None:
    """Fit click models to a log, and compare them.

    Models are fitted to the earlier lists, compared on the later ones, and then fitted to all. All models in a
    comparison are fitted by maximum likelihood; "behind" is the difference to the best, with its standard error.
    driftrank simulate reads the models file with --queries and --click-model.

    --drift finds changes of the users, apart from changes of the shown order. Changes that came with another order and
    may be due to it are reported as such, and not written.

    \b
    driftrank fit log.parquet
    driftrank fit yandex.txt.gz --model all --top 100 --report out/fit
    driftrank fit log.parquet --model CM --drift --top 20 --out changing.json
    driftrank simulate --queries changing.json --env Replay
    driftrank fit --print-sql --model PBM --dialect bigquery --table my.project.clicks
    driftrank fit --from-stats counted.parquet --model PBM
    """
    need("logs", *LOGS, plots=() if report is None else ("matplotlib",))
    from driftrank.fitting.fit import check_target, fit_log, fit_statistics, models_of, write_models
    from driftrank.validation import check_integer

    models = [cls.__name__ for cls in models_of(model)]
    if print_sql:
        return _print_sql(models, bool(exact), dialect, table)
    _check(log, from_stats, drift, save_stats, out)
    for name, number in (("top", top), ("items", items)):
        if number is not None:
            check_integer(name, number, 1)
    if not overwrite:
        check_target(out, models, drift)
    options: dict[str, Any] = {"prior": _prior(prior), "per_query": per_query, "exact": exact}
    progress = False if quiet or json else None
    opened, statistics = _opened(log, columns, from_stats)
    wanted = model if model.strip() == "all" else models
    if opened is None:
        fitted = fit_statistics(statistics, wanted, progress=progress, **options)
    else:
        fitted = fit_log(opened, wanted, holdout=holdout, device=device, address=address, progress=progress, **options)
    _save_statistics(fitted, save_stats)
    drifts = _drifts(opened, top, items, delta, options) if opened is not None and drift else []
    written = write_models(out, fitted, top=top, items=items, intervals=intervals, drifts=drifts, overwrite=overwrite)
    _show(fitted, out, written, drifts, json, quiet)
    if report is not None:
        source = log or ", ".join(map(str, from_stats or ()))
        _report(fitted, report, source, opened, drifts, windows, options, quiet or json)


def _print_sql(models: list[str], exact: bool, dialect: str, table: str) -> None:
    from driftrank.fitting.fit import finest, models_of
    from driftrank.logs.count.aggregation_sql import print_sql

    typer.echo(print_sql(finest(models_of(models), exact), dialect, table) + ";")


def _check(log: str | None, from_stats: list[Path] | None, drift: bool, save_stats: Path | None, out: Path) -> None:
    if (log is None) == (not from_stats):
        raise ValueError("log: give a log, or --from-stats FILE" + (", not both" if log is not None else ""))
    if from_stats and (drift or save_stats):
        raise ValueError(f"{'--drift' if drift else '--save-stats'}: needs a log, not statistics")
    if not out.parent.is_dir():
        raise ValueError(f"out={str(out)!r}: there is no folder {out.parent}")


def _prior(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        a, b = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"prior={text!r}: must be two numbers, as in 1,2") from None
    return a, b


def _opened(log: str | None, columns: str | None, from_stats: list[Path] | None) -> tuple[Log | None, list[Statistics]]:
    from driftrank.cli.log._columns import columns_of
    from driftrank.logs import load_statistics, open_log

    if log is None:
        return None, [load_statistics(path) for path in from_stats or ()]
    return open_log(log, columns_of(columns)), []


def _save_statistics(fitted: FittedModels, folder: Path | None) -> None:
    from driftrank.files import usable_folder

    if folder is not None:
        for kind, statistics in fitted.statistics.items():
            statistics.save(usable_folder(folder) / f"{kind}.parquet")


def _drifts(log: Log, top: int | None, items: int | None, delta: float, options: dict[str, Any]) -> list[QueryDrift]:
    from driftrank.logs.changes import drift

    return drift(log, top=top or 100, items=items or 10, delta=delta, prior=options["prior"])


def _show(fitted: FittedModels, target: Path, written: int, drifts: list[QueryDrift], json: bool, quiet: bool) -> None:
    from driftrank.cli._output import show_json, show_table

    if json:
        changes = {str(found.query): [change.after for change in found.changes] for found in drifts}
        confounded = {str(found.query): [change.after for change in found.confounded] for found in drifts}
        show_json(fitted.summary() | ({"changes": changes, "confounded": confounded} if drifts else {}))
    elif not quiet:
        show_table(fitted.table())
        for name, reason in fitted.left_out.items():
            typer.echo(f"Left out: {name} ({reason}).")
        if fitted.evaluations:
            last = f"the last {fitted.held_out:,} of {fitted.lists:,} lists"
            lists = last if fitted.held_out else "the lists they were fitted to"
            typer.echo(f"\nBest: {fitted.best}; models compared on {lists}, by log-likelihood of a list.")
            if fitted.ties:
                typer.echo(f"Not distinguishable from it (within 2 standard errors): {', '.join(fitted.ties)}.")
            biased = [name for name, fit in fitted.fits.items() if not fit.exact]
            if biased:
                typer.echo(f"By biased closed forms, not compared with others: {', '.join(biased)}; see --exact.")
        else:
            typer.echo("\nNot compared: that takes whole lists that are held out.")
        if drifts:
            changing = sum(bool(found.changes) for found in drifts)
            changes_in_all = sum(len(found.changes) for found in drifts)
            typer.echo(f"{changing} of {len(drifts)} queries change, {changes_in_all} times in all.")
            refused = sum(bool(found.confounded) for found in drifts)
            if refused:
                typer.echo(
                    f"In {refused} of them clicks changed together with the shown order, and the log does not tell "
                    "apart users and order there: no verdict."
                )
        typer.echo(f"{target}: {written:,} quer{'y' if written == 1 else 'ies'}")


def _report(
    fitted: FittedModels, folder: Path, source: str, log: Log | None, drifts: list[QueryDrift], windows: int,
    options: dict[str, Any], quiet: bool,
) -> None:  # fmt: skip
    import sys

    from driftrank.clickmodels.registry import click_model
    from driftrank.fitting.report import write_fit_report
    from driftrank.logs.over_time import attraction_over_time

    name = fitted.best or next(iter(fitted.fits))
    how = options | {"exact": fitted.fits[name].exact}
    series = attraction_over_time(log, click_model(name), windows=windows, **how) if log is not None else []
    files = write_fit_report(fitted, folder, source, ["driftrank", *sys.argv[1:]], series, drifts, name)
    if not quiet:
        typer.echo(f"{folder}: {', '.join(path.name for path in files)}")
