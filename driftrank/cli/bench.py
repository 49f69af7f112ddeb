"""driftrank bench: the speed of simulations on this machine."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.cli._complete import policy_names

PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar=o.SPEC,
        help="Measure this policy only; repeatable.",
        show_default="all",
        autocompletion=policy_names,
    ),
]
ItemsOption = Annotated[
    str | None,
    typer.Option(metavar="L1,L2,...", help="Measure also how cost grows with items, horizon and window."),
]
QuickOption = Annotated[bool, typer.Option("--quick", help="Measure for a moment only: rough figures.")]


def bench(
    policy: PolicyOption = None,
    items: ItemsOption = None,
    quick: QuickOption = False,
    imports: o.ImportOption = None,
    json: o.JsonOption = False,
) -> None:
    """Measure the speed of policies, next to a NumPy loop.

    Steps per second of every policy on all cores, and of a plain NumPy loop on one core. 10 items, 3 positions, runs of
    100,000 steps in the paper's environment. The NumPy loop is CascadeSWUCB as a researcher would write it. The two are
    measured in turn, and the median of the ratios counts.

    \b
    driftrank bench
    driftrank bench --quick --policy CascadeSWUCB --policy CascadeDUCB
    driftrank bench --items 10,100,1000,10000
    """
    from driftrank.cli._output import show_json, show_table
    from driftrank.experiments.speed.bench import MAIN, Bench, growth_table, speed_table

    sizes = _sizes(items) if items is not None else []
    measure = Bench.quick(_say) if quick else Bench(say=_say)
    measured: dict[str, Any] = measure.against_numpy(policy or ())
    if sizes:
        main = policy or MAIN
        measured["items"] = measure.by_items(sizes, main)
        measured["horizons"] = measure.by_horizon(main)
        measured["windows"] = {"CascadeSWUCB": measure.by_window()}
    _say("")
    if json:
        show_json(measured)
        return
    typer.echo(f"All {measured['cores']} cores; the NumPy loop on one core, as it is usually run.")
    if measured["load"] > 0.5:
        typer.echo(f"This machine was busy (load {measured['load']:g}): ratios come out too low.")
    typer.echo()
    show_table(speed_table(measured))
    for what in ("items", "horizons", "windows"):
        if what in measured:
            typer.echo()
            show_table(growth_table(what.rstrip("s") if what != "items" else what, measured[what]))


def _sizes(text: str) -> list[int]:
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 3:
        raise ValueError(f"items={text!r}: must be numbers of at least 3, such as 10,100,1000")
    return sizes


def _say(what: str) -> None:
    """Replace the line on standard error, if it is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[2K{what}", end="", file=sys.stderr, flush=True)
