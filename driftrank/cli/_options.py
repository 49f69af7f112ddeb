"""Options that several commands have. A command gives the default: ``horizon: HorizonOption = 100_000``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from driftrank.cli._complete import click_model_names, environment_names, policy_names
from driftrank.cli._config import read_config

SPEC = "NAME[:KEY=VALUE,...]"
SPEC_WITH_GRIDS = "NAME[:KEY=GRID,...]"
QUERIES = "yandex-like:N[xITEMS]|FILE.json"
#: the default address of the service
URL = "http://127.0.0.1:8080"

# -- the problem ---------------------------------------------------------------------------------------------------

PolicyOption = Annotated[
    list[str],
    typer.Option(
        "--policy", metavar=SPEC, help="A policy, see driftrank policies; repeatable.", autocompletion=policy_names
    ),
]
EnvironmentOption = Annotated[
    str,
    typer.Option(
        "--env",
        metavar=SPEC,
        help="How users change, see driftrank environments.",
        autocompletion=environment_names,
    ),
]
#: empty by default: some environments have queries of their own
QueriesOption = Annotated[
    str, typer.Option("--queries", metavar=QUERIES, help="The queries to rank for.", show_default="yandex-like:10")
]
#: None by default, for the same reason
PositionsOption = Annotated[
    int | None, typer.Option("--k", metavar="K", help="Positions: items shown at a time.", show_default="3")
]
ClickModelOption = Annotated[
    str,
    typer.Option(
        "--click-model",
        metavar=SPEC,
        help="How users click, see driftrank click-models; the file of queries has its parameters.",
        show_default="CM",
        autocompletion=click_model_names,
    ),
]

# -- the size of the experiment ------------------------------------------------------------------------------------

HorizonOption = Annotated[int, typer.Option("--horizon", metavar="N", help="Steps of a run.")]
RunsOption = Annotated[int, typer.Option("--runs", metavar="R", help="Runs of every query.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="S", help="Everything random derives from it.")]
CheckpointsOption = Annotated[int, typer.Option("--checkpoints", metavar="C", help="Number of steps to record at.")]

# -- the device ----------------------------------------------------------------------------------------------------

DeviceOption = Annotated[
    str, typer.Option("--device", metavar="cpu|cuda|cluster", help="Where to compute; changes no number.")
]
#: of commands that read a log
LogDeviceOption = Annotated[str, typer.Option("--device", metavar="cpu|cluster", help="Where to count the log.")]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", metavar="T", help="Cores to use with --device cpu.", show_default="all")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Address of a Dask scheduler, for --device cluster.",
        show_default="start a local cluster",
    ),
]
SchedulerFileOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler-file", metavar="FILE", help="Scheduler file, instead of the address.", show_default="none"
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="W", help="Worker processes of a local cluster.", show_default="all cores"),
]

# -- stores --------------------------------------------------------------------------------------------------------

StoreArgument = Annotated[
    str, typer.Argument(metavar="URL", help="The address of the store, such as postgresql://host/database?schema=name.")
]

# -- click logs ----------------------------------------------------------------------------------------------------

LogArgument = Annotated[
    str, typer.Argument(metavar="LOG", help="Parquet files, a table FILE.duckdb:TABLE, or text; gzipped or not.")
]
OptionalLogArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[LOG]", help="Parquet files, a table FILE.duckdb:TABLE, or text; gzipped or not.", show_default=False
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="NAME=COLUMN,...",
        help="Columns with other names, as query=q; time=# if a text has no clock.",
        show_default=False,
    ),
]
DialectOption = Annotated[
    str,
    typer.Option(
        "--dialect", metavar="NAME", help="With --print-sql: duckdb, spark, bigquery, snowflake or clickhouse."
    ),
]
TableOption = Annotated[str, typer.Option("--table", metavar="NAME", help="With --print-sql: the table with the log.")]

# -- a running service ---------------------------------------------------------------------------------------------

UrlOption = Annotated[str, typer.Option("--url", metavar="URL", help="The address of the service.")]
RankerOption = Annotated[str, typer.Option("--ranker", metavar="NAME", help="The ranker.")]
StoredRankerOption = Annotated[
    str | None,
    typer.Option("--ranker", metavar="NAME", help="The ranker of the store.", show_default="the only one with lists"),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", metavar="KEY", help="The key, if the service has keys.", envvar="DRIFTRANK_KEY"),
]

# -- input and output ----------------------------------------------------------------------------------------------

OutOption = Annotated[str, typer.Option("--out", metavar="DIR", help="Folder for the results.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="Read options from a file; those on the command line win.",
        is_eager=True,
        callback=read_config,
    ),
]


def _import_files(context: typer.Context, files: list[str] | None) -> list[str]:
    """Import the files; their absolute paths are what ``run.toml`` keeps."""
    if context.resilient_parsing:
        return []
    from driftrank.plugins import import_file

    for file in files or ():
        import_file(file)
    return [str(Path(file).absolute()) for file in files or ()]


#: becomes a list of absolute paths
ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="FILE.py",
        help="File with policies, environments or click models of your own; repeatable.",
        show_default="none",
        callback=_import_files,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def command_line(command: Callable[..., None], **options: Any) -> list[str]:
    """The command line with these options; those with the command's defaults are left out."""
    parameters = inspect.signature(command).parameters
    words = ["driftrank", command.__name__.replace("_", "-")]
    for name, value in options.items():
        if value != parameters[name].default:
            flag = "--import" if name == "imports" else f"--{name.replace('_', '-')}"  # import is a keyword
            for each in value if isinstance(value, list) else [value]:
                words += [flag, str(each)]
    return words
