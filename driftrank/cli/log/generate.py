"""driftrank log generate: a click log of simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli import _options as o

LengthOption = Annotated[int | None, typer.Option(metavar="N", help="Items per list.", show_default="all of the query")]
OrderOption = Annotated[
    str,
    typer.Option(
        "--order", metavar="ORDER", help="shuffled; sorted by attraction; swapped: sorted, neighbours exchanged."
    ),
]
ZipfOption = Annotated[
    float, typer.Option(metavar="Z", help="The frequency of the n-th query is proportional to n to the power of -Z.")
]
FormatOption = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help="parquet or yandex.", show_default="by the name of the file")
]


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: FILE.parquet, FILE.txt, FILE.txt.gz.")],
    lists: Annotated[int, typer.Option(metavar="N", help="Number of lists.")] = 100_000,
    queries: Annotated[str, typer.Option(metavar=o.QUERIES, help="The queries.")] = "yandex-like:100",
    click_model: o.ClickModelOption = "",
    env: o.EnvironmentOption = "Stationary",
    length: LengthOption = None,
    k: Annotated[int, typer.Option("--k", metavar="K", help="Number of items that count as the best, for --env.")] = 3,
    order: OrderOption = "shuffled",
    zipf: ZipfOption = 0.0,
    format: FormatOption = "auto",
    seed: o.SeedOption = 0,
    imports: o.ImportOption = None,
    quiet: o.QuietOption = False,
) -> None:
    """Generate a click log of simulated users.

    Parquet in the project's schema, or the text format of the Yandex relevance-prediction log, in which queries and
    items are numbers. A step of the environment is a list of the query. The same options give the same log.

    \b
    driftrank log generate log.parquet
    driftrank log generate log.txt.gz --lists 1000000 --click-model DBN --zipf 1
    driftrank log generate changing.parquet --env Abrupt:period=2000 --queries models.json --click-model PBM
    """
    from driftrank.environments.registry import parse_environment, takes_queries
    from driftrank.logs.generation import generate as write
    from driftrank.queries import parse_queries

    name = env.partition(":")[0].strip()
    if not takes_queries(name):
        raise ValueError(f"env={env!r}: {name} has queries of its own, but a log needs --queries")
    world = parse_environment(env, queries=parse_queries(queries, seed, click_model), k=k)
    progress = False if quiet else None
    made = write(out, world, lists, length=length, order=order, zipf=zipf, format=format, seed=seed, progress=progress)
    if not quiet:
        typer.echo(f"{out}: {made.lists:,} lists, {made.clicks:,} clicks")
        if made.numbered:
            typer.echo("Queries and items have numbers instead of their names, in the order of the queries.")
