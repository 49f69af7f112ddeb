"""driftrank serve: the ranking service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from driftrank.serve.config import ServerSettings


def serve(
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen. Others than this machine are let in only where there is an admin key.",
            show_default="127.0.0.1",
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(metavar="PORT", help="0: any that is free.", show_default="8080")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the log lives; four slashes begin an absolute path.",
            show_default="sqlite:///driftrank.db",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml", help="Settings of the server and its rankers; $DRIFTRANK_CONFIG if not given."
        ),
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(
            metavar="full|relaxed",
            help="Whether what was acknowledged survives a power cut, or only a crash of the process.",
            show_default="full",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="For learners; the least recently used are written out when there are more.",
            show_default="512MB",
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(metavar="TIME|forever", help="How long old records are kept in the log.", show_default="30d"),
    ] = None,
    access_log: Annotated[
        bool | None,
        typer.Option("--access-log/--no-access-log", help="A line for every request.", show_default="no-access-log"),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="debug|info|warning|error", help="What to log.", show_default="info")
    ] = None,
) -> None:
    """Start the ranking service: send it rank and feedback, and get lists that keep learning.

    Everything is stored in one SQLite file, and a ranker called default is there from the start. More rankers come from
    the file of settings, from the environment (DRIFTRANK_RANKERS__SHOP__POLICY=CascadeSWUCB:window=24h) or over HTTP.
    Every setting has a variable (DRIFTRANK_PORT); options win over variables, variables over the file. Logs go to
    standard error. SIGTERM or Ctrl-C ends it in peace.

    \b
    driftrank serve
    driftrank serve --port 9000 --store sqlite:////var/lib/driftrank/log.db --config driftrank.toml
    DRIFTRANK_ADMIN_KEY=sha256:... driftrank serve --host 0.0.0.0

    \b
    curl http://127.0.0.1:8080/v1/rankers/default/rank -d '{"query": "shoes", "items": ["a", "b", "c"]}'
    """
    options: dict[str, Any] = {
        "host": host, "port": port, "store": store, "durability": durability, "memory": memory,
        "retention": retention, "access_log": access_log, "log_level": log_level,
    }  # fmt: skip
    run, settings = _ready(config, options)
    if settings.public and settings.admin_key is None:
        raise ValueError(
            f"host={settings.host!r}: others than this machine could do anything there; set DRIFTRANK_ADMIN_KEY to a "
            "key first, which driftrank key makes"
        )
    run(settings, lambda url: typer.echo(_listening(url, settings)))


def _ready(config: Path | None, options: dict[str, Any]) -> tuple[Any, ServerSettings]:
    """What serves, and the settings; ImportError where what it needs is not installed."""
    import os

    try:
        from driftrank.serve import app
        from driftrank.serve.config import load_settings
        from driftrank.serve.logging import set_up_logging
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("driftrank"):
            raise
        raise ImportError(f"{error.name} is not installed: pip install 'driftrank[serve]'") from None
    settings = load_settings(config, os.environ, options)
    set_up_logging(settings.log_level)
    return app.serve, settings


def _listening(url: str, settings: ServerSettings) -> str:
    near = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    key = ' -H "Authorization: Bearer KEY"' if settings.admin_key else ""
    body = '{"query": "shoes", "items": ["a", "b", "c"]}'
    return f"driftrank listens on {url}, its API is at /docs; try: curl{key} {near}/v1/rankers/default/rank -d '{body}'"
