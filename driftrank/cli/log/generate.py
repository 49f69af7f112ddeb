"""driftrank log generate: a click log of simulated users."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from driftrank.cli._complete import click_model_names, environment_names


def generate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write: FILE.parquet, FILE.txt, FILE.txt.gz.")],
    lists: Annotated[int, typer.Option(metavar="N", help="How many lists.")] = 100_000,
    queries: Annotated[
        str, typer.Option(metavar="yandex-like:N|FILE.json", help="The queries that are asked.")
    ] = "yandex-like:100",
    click_model: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users click, see driftrank click-models.",
            show_default="as the file of queries says, or CM",
            autocompletion=click_model_names,
        ),
    ] = "",
    env: Annotated[
        str,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="How users change, see driftrank environments; a step is a list of the query.",
            autocompletion=environment_names,
        ),
    ] = "Stationary",
    length: Annotated[
        int | None, typer.Option(metavar="N", help="Items in a list.", show_default="all of the query")
    ] = None,
    k: Annotated[int, typer.Option(metavar="K", help="Of the environment: how many items count as the best.")] = 3,
    order: Annotated[
        str,
        typer.Option(
            metavar="ORDER", help="shuffled; sorted by attraction; or swapped: sorted, with neighbours exchanged."
        ),
    ] = "shuffled",
    zipf: Annotated[
        float, typer.Option(metavar="Z", help="The n-th query is asked in proportion to n to the power of -Z.")
    ] = 0.0,
    format: Annotated[
        str, typer.Option(metavar="FORMAT", help="parquet or yandex.", show_default="by the name of the file")
    ] = "auto",
    seed: Annotated[int, typer.Option(metavar="S", help="Everything random derives from it.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Write a click log of simulated users: for tests, and for those who have no log.

    Parquet in the project's schema, or the text format of the Yandex relevance-prediction log, in which queries and
    items are numbers. The same options give the same log.

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
        raise ValueError(f"env={env!r}: {name} has queries of its own; a log is generated from --queries")
    world = parse_environment(env, queries=parse_queries(queries, seed, click_model), k=k)
    made = write(
        out,
        world,
        lists,
        length=length,
        order=order,
        zipf=zipf,
        format=format,
        seed=seed,
        progress=False if quiet else None,
    )
    if not quiet:
        typer.echo(f"{out}: {made.lists:,} lists, {made.clicks:,} clicks")
        if made.numbered:
            typer.echo("Queries and items have numbers instead of their names, in the order of the file of queries.")
