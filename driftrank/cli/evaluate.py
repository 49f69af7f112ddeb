"""driftrank evaluate: the value of other lists and policies, from a log."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names
from driftrank.evaluation.sequences import PLANNED
from driftrank.extras import LOGS, need

if TYPE_CHECKING:
    from driftrank.evaluation.estimate import Estimate
    from driftrank.evaluation.result import Difference, Evaluation, TargetResult

#: the exit code if no value can be given
REFUSED = 3

PoliciesOption = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar=o.SPEC, help="A policy; repeatable.", autocompletion=policy_names),
]
RankingsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="Lists: columns query and ranking in Parquet, CSV or JSON; repeatable."),
]
BestNowOption = Annotated[bool, typer.Option("--best-now", help="The most attractive items since the last change.")]
AgainstOption = Annotated[str, typer.Option(metavar="TARGET", help="The target to compare with, or logged.")]
ValueOption = Annotated[str, typer.Option(metavar="shadow|frozen|online", help="The value of a policy, see above.")]
ReplayOption = Annotated[str, typer.Option(metavar="labels|lists", help="The replay for --value-of online.")]
ObjectiveOption = Annotated[str, typer.Option(metavar="any|clicks", help="A click or none, or their number.")]
EstimatorOption = Annotated[str, typer.Option(metavar="NAME|ladder", help="The estimator; ladder shows all.")]
HalfLifeOption = Annotated[
    str | None, typer.Option(metavar="7d", help="The time after which a list counts half.", show_default="none")
]
SinceOption = Annotated[
    str | None, typer.Option(metavar="TIME|7d", help="Only lists from this time on.", show_default="all")
]
WindowsOption = Annotated[int, typer.Option(metavar="W", help="Windows of time, for the series in --json.")]
LevelOption = Annotated[float, typer.Option(metavar="P", help="Coverage of the intervals.")]
AlwaysValidOption = Annotated[
    bool, typer.Option("--always-valid", help="Intervals for a number that is looked at while it grows.")
]
PlannedOption = Annotated[
    int, typer.Option("--planned", metavar="N", help="Lists at which these are narrowest; the same at every look.")
]
ClipOption = Annotated[
    float | None,
    typer.Option(metavar="W", help="Leave out larger weights of dr; for research: no interval.", show_default="none"),
]
ChangesOption = Annotated[int, typer.Option(metavar="N", help="Queries to look for changes in, the most frequent.")]
KindOption = Annotated[
    str | None,
    typer.Option(
        metavar="KIND", help="Kind of propensities: conditional, marginal or list; by default that of the log."
    ),
]
ReportOption = Annotated[
    str | None, typer.Option("--report", metavar="DIR", help="Folder for a report with figures.", show_default="none")
]
PrintSqlOption = Annotated[bool, typer.Option("--print-sql", help="Print SQL for a warehouse, and exit; needs --k.")]
TargetOption = Annotated[str, typer.Option(metavar="NAME", help="With --print-sql: the table with query and ranking.")]
FromSumsOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="The output of that SQL, instead of a log.", show_default="none")
]
KOption = Annotated[int | None, typer.Option("--k", metavar="K", help="Positions.", show_default="most common length")]


def evaluate(
    log: o.OptionalLogArgument = None,
    policy: PoliciesOption = None,
    rankings: RankingsOption = None,
    best_now: BestNowOption = False,
    against: AgainstOption = "logged",
    value_of: ValueOption = "shadow",
    replay: ReplayOption = "labels",
    objective: ObjectiveOption = "any",
    estimator: EstimatorOption = "dr",
    clip: ClipOption = None,
    k: KOption = None,
    since: SinceOption = None,
    half_life: HalfLifeOption = None,
    windows: WindowsOption = 20,
    changes: ChangesOption = 100,
    level: LevelOption = 0.95,
    always_valid: AlwaysValidOption = False,
    planned: PlannedOption = PLANNED,
    propensities: KindOption = None,
    print_sql: PrintSqlOption = False,
    dialect: o.DialectOption = "duckdb",
    table: o.TableOption = "log",
    target: TargetOption = "target",
    from_sums: FromSumsOption = None,
    columns: o.ColumnsOption = None,
    device: o.LogDeviceOption = "cpu",
    address: o.AddressOption = None,
    seed: o.SeedOption = 0,
    report: ReportOption = None,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """Estimate what other lists or policies would have earned.

    The log must hold the probabilities with which lists were shown (column propensities, each given the items above).
    A value is printed only if the checks of its assumptions pass; if none can be given, the exit code is 3, and the
    reasons are printed with the number of lists that would be needed.

    The value of a policy is that of its lists in the shadow of the log (shadow: it learns from the logged lists and
    shows nothing), or of the lists that it prefers at the end (frozen). Neither has the price of its own exploration.
    Its online value, by a replay in which it runs by itself, has it: by labels of items (assumes the cascade model), or
    by the lists that it would have shown (needs a log of random lists, and users who do not change).

    Estimators: dr (doubly robust), prefix, product-limit, published, list, self-normalised, direct; item-position for
    marginal propensities; for research also auto, a choice between forms of dr and direct, without an interval.

    \b
    driftrank evaluate log.parquet --policy CascadeRegimeTS --policy CascadeSWUCB:window=24h
    driftrank evaluate log.parquet --rankings tuesday.csv --best-now --estimator ladder
    driftrank evaluate log.parquet --rankings new.json --since 7d --always-valid --json
    driftrank evaluate log.parquet --policy PriorRegimeTS --report out/evaluation
    driftrank evaluate 'logs/*.parquet' --rankings new.json --device cluster --address tcp://10.0.0.7:8786
    driftrank evaluate --print-sql --k 3 --dialect bigquery --table shop.clicks --target shop.lists
    driftrank evaluate --from-sums sums.parquet
    """
    need("logs", *LOGS, plots=() if report is None else ("matplotlib",))
    from driftrank.cli.log._columns import columns_of
    from driftrank.evaluation.evaluating import evaluate as run
    from driftrank.files import usable_folder
    from driftrank.logs import open_log

    interval = "always-valid" if always_valid else "normal"
    if print_sql:
        return _print_sql(k, dialect, table, target)
    if (log is None) == (from_sums is None):
        raise ValueError("log: give a log, or --from-sums FILE" + (", not both" if log is not None else ""))
    if from_sums is not None:
        return _from_sums(from_sums, level, interval, planned, json)
    assert log is not None
    if report is not None:
        usable_folder(report, "report")
    targets = [*(policy or ()), *(rankings or ()), *(["best-now"] if best_now else ())]
    if not targets:
        raise ValueError("policy: give --policy, --rankings or --best-now")
    found = run(
        open_log(log, columns_of(columns)), targets, against=against, k=k, value_of=value_of, objective=objective,
        estimator="dr" if estimator == "ladder" else estimator, level=level, since=_time(since), windows=windows,
        interval=interval, changes=changes, propensities=propensities, replay=replay, seed=seed, clip=clip,
        device=device, address=address, half_life=_time(half_life), planned=planned,
    )  # fmt: skip
    if json:
        from driftrank.cli._output import show_json

        show_json(found.to_dict())
    else:
        _show(found, estimator == "ladder")
    if report is not None:
        from driftrank.evaluation.report import write_evaluation_report

        write_evaluation_report(found, report, ["driftrank", *sys.argv[1:]])
        if not json:
            typer.echo(f"{report}: report.html, evaluation.json and figures")
    if not found.answered:
        raise typer.Exit(REFUSED)


def _print_sql(k: int | None, dialect: str, table: str, target: str) -> None:
    from driftrank.evaluation.warehouse import print_sql

    if k is None:
        raise ValueError("k: must be given with --print-sql")
    typer.echo(print_sql(k, dialect, table, target) + ";")


def _from_sums(path: str, level: float, interval: str, planned: int, json: bool) -> None:
    """The estimates from the output of the printed SQL."""
    from driftrank.cli._output import show_json
    from driftrank.evaluation.estimate import How
    from driftrank.evaluation.warehouse import estimates, read_sums
    from driftrank.validation import check_integer, check_number

    check_number("level", level, 0.5, 1, open_high=True)
    check_integer("planned", planned, 1)
    found = estimates(read_sums(path), How(level, interval, planned=planned))
    if json:
        show_json([estimate.to_dict() for estimate in found.values()])
    else:
        _table(found)
        for refusal in found["dr"].refused:
            typer.echo(f"refused ({refusal.code}). {refusal.text}")
        typer.echo("Not checked: propensities, fixed logging, reading from the top; changes were not looked for.")
    if found["dr"].value is None:
        raise typer.Exit(REFUSED)


def _time(text: str | None) -> Any:
    """A time of a log: a number if it is one."""
    from driftrank.reflection import read_number

    number = None if text is None else read_number(text)
    return text if number is None else number


def _show(found: Evaluation, ladder: bool) -> None:
    from driftrank.cli._output import show_table
    from driftrank.reporting.table import Table

    interval = f"{found.level:.0%} interval"
    columns = ("target", "value of", "value", interval, "grade", "difference", "interval", "evidence")
    formats = (None, None, ".4f", None, None, "+.4f", None, ",.0f")
    parts = [("the whole log", False)] + ([("since the last change", True)] if found.changes else [])
    for title, now in parts:
        rows = [_row(target, now) for target in found.targets.values()]
        typer.echo(f"Over {title}; the logged lists earned {found.logged_now if now else found.logged:.4f}:\n")
        show_table(Table(columns, rows, formats))
        typer.echo()
    if ladder:
        for target in found.targets.values():
            _ladder(target)
    _reasons(found)
    given = {target.assumes for target in found.targets.values() if target.value is not None}
    queries = "query" if found.queries == 1 else "queries"
    typer.echo(
        f"{found.lists:,} lists of {found.queries:,} {queries}, {found.k} positions, {found.changes_text}."
        + (f" Assumed: {'; '.join(sorted(given))}." if given else "")
    )
    for check in found.checks.checks:
        if not check.passed:
            typer.echo(f"{check.code}: {check.text}", err=True)


def _row(target: TargetResult, now: bool) -> tuple[Any, ...]:
    estimate, difference = (target.now, target.difference_now) if now else (target.whole, target.difference)
    value = _values(estimate)
    return (
        target.name, target.value_of, *value, estimate.grade or "–",
        float("nan") if difference is None else difference.value, _ends(difference),
        estimate.effective or float("nan" if estimate.mean_weight is None else 0),
    )  # fmt: skip


def _values(estimate: Estimate) -> tuple[float | str, str]:
    return ("refused", "–") if estimate.value is None else (estimate.value, _ends(estimate))


def _ends(given: Estimate | Difference | None) -> str:
    if given is None or given.low is None:
        return "–"
    return f"{given.low:.4f} to {given.high:.4f}{getattr(given, 'condition', '')}"


def _ladder(target: TargetResult) -> None:
    typer.echo(f"{target.name} by assumption about users:\n")
    _table(target.ladder)


def _table(estimates: Mapping[str, Estimate]) -> None:
    """Estimates by assumption."""
    from driftrank.cli._output import show_table
    from driftrank.evaluation.base import ASSUMED
    from driftrank.reporting.table import Table

    rows = [
        (ASSUMED[each.assumes], key, *_values(each), each.grade or "–", ", ".join(r.code for r in each.refused))
        for key, each in sorted(estimates.items(), key=lambda entry: (entry[1].assumes, entry[0]))
    ]
    columns = ("assumes", "estimator", "value", "interval", "grade", "refused")
    show_table(Table(columns, rows, (None, None, ".4f", None, None, None)))
    typer.echo()


def _reasons(found: Evaluation) -> None:
    """The reasons of refusals, what the click model says instead, and what would help."""
    for target in found.targets.values():
        for when, estimate in (("", target.whole), (" since the last change", target.now)):
            if estimate.value is None and (not when or target.now is not target.whole):
                for refusal in estimate.refused:
                    typer.echo(f"{target.name}{when}: refused ({refusal.code}). {refusal.text}")
        for note in target.notes:
            typer.echo(f"{target.name}: {note}")
        model = target.ladder.get("direct")
        if target.value is None and model is not None and target.whole.estimator != "direct":
            if model.value is not None:
                typer.echo(
                    f"{target.name}: by the cascade model, which passed its checks, {model.value:.4f} ({_ends(model)}):"
                    " grade C, not by experiment."
                )
            elif model.bounds is not None:
                typer.echo(
                    f"{target.name}: by the cascade model between {model.bounds[0]:.4f} and {model.bounds[1]:.4f}:"
                    " grade D, items of the target are hardly known."
                )
        if target.value is None and target.exploring is not None:
            way = target.exploring
            typer.echo(
                f"{target.name}: to know, serve {way.order} with explore = {way.temperature:g} (a softmax by rank,"
                f" whose propensities are recorded); about {way.lists:,} lists then tell ±{way.within:g}."
            )
