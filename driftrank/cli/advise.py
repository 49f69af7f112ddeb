"""driftrank advise: which policy to use, from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names
from driftrank.cli.evaluate import REFUSED, KOption
from driftrank.extras import LOGS, need

PoliciesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy", metavar=o.SPEC, help="A candidate beside the default policy; repeatable.",
        show_default="one of each kind", autocompletion=policy_names,
    ),
]  # fmt: skip
ModelOption = Annotated[str, typer.Option("--model", metavar="NAME,...|all", help="Click models to consider.")]
BudgetOption = Annotated[
    str, typer.Option(metavar="TIME", help="Time to take, about; no result depends on it being kept.")
]
TomlOption = Annotated[
    str | None, typer.Option("--out", metavar="FILE.toml", help="Write the ranker's settings.", show_default="none")
]
ReportOption = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Write report.html, figures, advice.json, driftrank.toml.", show_default="none"),
]
NameOption = Annotated[str, typer.Option("--ranker", metavar="NAME", help="The ranker in these settings.")]


def advise(
    log: o.LogArgument,
    k: KOption = None,
    policy: PoliciesOption = None,
    model: ModelOption = "all",
    budget: BudgetOption = "5m",
    out: TomlOption = None,
    ranker: NameOption = "default",
    report: ReportOption = None,
    columns: o.ColumnsOption = None,
    seed: o.SeedOption = 0,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """Advise on a policy, from the users of a log.

    Fits every click model to the log, with the changes found in it, and simulates policies on those that are
    plausible, beside what was shown. Prints what to do, the expected gain with its interval, what speaks against it,
    and the experiment that would tell. No propensities are needed; with them the policy is checked by another way.

    No number is given if every visitor saw the same list, or if no model holds: the reasons are printed, and the exit
    code is 3.

    \b
    driftrank advise log.parquet --k 3
    driftrank advise log.parquet --k 3 --out driftrank.toml --report out/advice
    driftrank advise log.parquet --policy CascadeSWUCB:window=500 --budget 20m --json
    """
    need("logs", *LOGS, serve=("msgspec",), plots=() if report is None else ("matplotlib",))
    from driftrank.cli._output import show_json
    from driftrank.cli.log._columns import columns_of
    from driftrank.experiments.advice.advice import check_settings_file
    from driftrank.experiments.advice.advise import advise as run
    from driftrank.files import usable_folder
    from driftrank.logs import open_log
    from driftrank.serve.settings.ranker import check_name

    check_name(ranker)
    if out is not None:
        check_settings_file(out)
    if report is not None:
        usable_folder(report, "report")
    found = run(
        open_log(log, columns_of(columns)), k=k, candidates=policy, models=model, budget=budget, seed=seed,
        progress=False if json else None,
    )  # fmt: skip
    files = []
    if out is not None:
        found.save_settings(out, ranker)
        files.append(f"Config: {out}")
    if report is not None:
        found.save(report, _command(log, k, policy, model, budget, seed))
        files.append(f"Report: {Path(report) / 'report.html'}")
    if json:
        show_json(found.to_dict())
    else:
        for sentence in found.sentences():
            typer.echo(sentence)
        if files:
            typer.echo("   ".join(files))
    if not found.answered:
        raise typer.Exit(REFUSED)


def _command(log: str, k: int | None, policy: list[str] | None, model: str, budget: str, seed: int) -> list[str]:
    """The command that repeats the advice."""
    words = o.command_line(advise, k=k, policy=policy, model=model, budget=budget, seed=seed)
    return [*words[:2], log, *words[2:]]
