"""driftrank serve: the ranking service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.cli import _options as o
from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.serve.settings.server import ServerSettings

# None: not given, and the variable, the file or the default of ServerSettings counts
HostOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on; other machines can connect only if there is an admin key.",
        show_default="127.0.0.1",
    ),
]
PortOption = Annotated[
    int | None, typer.Option("--port", metavar="PORT", help="Port to listen on; 0: any free one.", show_default="8080")
]
SocketOption = Annotated[
    str | None, typer.Option(metavar="PATH", help="Unix socket to listen on instead.", show_default="none")
]
CertOption = Annotated[
    str | None,
    typer.Option(metavar="FILE.pem", help="Certificate with its chain: HTTPS instead of HTTP.", show_default="none"),
]
TlsKeyOption = Annotated[
    str | None, typer.Option(metavar="FILE.pem", help="Private key of the certificate.", show_default="none")
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Store of the log; an absolute path begins with four slashes.",
        show_default="sqlite:///driftrank.db",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help="Settings of the server and its rankers.", show_default="$DRIFTRANK_CONFIG"),
]
DurabilityOption = Annotated[
    str | None,
    typer.Option(
        metavar="full|relaxed",
        help="What acknowledged requests survive: a power cut (full), or a crash of the process (relaxed).",
        show_default="full",
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Memory for learners; beyond it, the least recently used are written to the store.",
        show_default="512MB",
    ),
]
RetentionOption = Annotated[
    str | None, typer.Option(metavar="TIME|forever", help="Time to keep old records in the log.", show_default="30d")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Processes that answer requests; several need PostgreSQL.", show_default="1"),
]
DiscardOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RANKER",
        help="Ranker that begins again if its settings have changed so; otherwise the start is refused.",
        show_default=False,
    ),
]
AccessLogOption = Annotated[
    bool | None,
    typer.Option("--access-log/--no-access-log", help="Log every request.", show_default="no-access-log"),
]
LogLevelOption = Annotated[
    str | None,
    typer.Option(metavar="debug|info|warning|error", help="Least severe messages to log.", show_default="info"),
]


def serve(
    host: HostOption = None,
    port: PortOption = None,
    socket: SocketOption = None,
    tls_cert: CertOption = None,
    tls_key: TlsKeyOption = None,
    store: StoreOption = None,
    config: ConfigOption = None,
    durability: DurabilityOption = None,
    memory: MemoryOption = None,
    retention: RetentionOption = None,
    workers: WorkersOption = None,
    discard: DiscardOption = None,
    access_log: AccessLogOption = None,
    log_level: LogLevelOption = None,
    imports: o.ImportOption = None,
) -> None:
    """Start the ranking service, which learns from clicks.

    Everything is stored in one SQLite file, or in a PostgreSQL database that several servers share, and there is a
    ranker called default from the start. More rankers come from the settings file, from the environment
    (DRIFTRANK_RANKERS__SHOP__POLICY=CascadeSWUCB:window=24h) or over HTTP. Every setting has a variable
    (DRIFTRANK_PORT); options win over variables, variables over the file. Logs go to standard error. SIGTERM or Ctrl-C
    shuts it down gracefully, SIGHUP loads the settings again.

    \b
    driftrank serve
    driftrank serve --port 9000 --store sqlite:////var/lib/driftrank/log.db --config driftrank.toml
    driftrank serve --store "postgresql://driftrank@db1,db2/driftrank?schema=shop" --workers 4
    DRIFTRANK_ADMIN_KEY=sha256:... driftrank serve --host 0.0.0.0

    \b
    curl http://127.0.0.1:8080/v1/rankers/default/rank --json '{"query": "shoes", "items": ["a", "b", "c"]}'
    """
    options = {name: value for name, value in locals().items() if name not in ("config", "imports")} | {
        "discard": discard or None
    }
    run, load = _prepare(config, options)
    settings = load()
    run(settings, lambda url: typer.echo("\n".join([_listening(url, settings), *_exploring(settings)])), load)
    end_compiling()


def end_compiling() -> None:
    """End the process if it is compiling, which nothing can interrupt, once all else is done."""
    import os
    import sys

    from driftrank.serve.requests.compiler import compiling

    if compiling():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _prepare(config: Path | None, options: dict[str, Any]) -> tuple[Any, Callable[[], ServerSettings]]:
    """The function that serves, and the one that loads its settings."""
    import os

    need("serve", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
    from driftrank.serve import app
    from driftrank.serve.monitoring.logging import set_up_logging
    from driftrank.serve.settings.load import load_settings
    from driftrank.serve.settings.server import check_reachable

    def load() -> ServerSettings:
        settings = load_settings(config, os.environ, options)
        check_reachable(settings)
        return settings

    set_up_logging(load().log_level)
    return app.serve, load


def _exploring(settings: ServerSettings) -> list[str]:
    """The price of exploration, for the rankers of the settings that explore."""
    from driftrank.serve.ranking.explore import shown_as_ranked

    lines = []
    for name, ranker in settings.rankers.items():
        if ranker.explore:
            first, whole = shown_as_ranked(ranker.k, ranker.explore)
            lines.append(
                f"ranker {name} explores (explore = {ranker.explore:g}): {first:.0%} of first places and {whole:.0%} of"
                f" lists of {ranker.k} are shown as ranked; explore = 0 shows all so"
            )
    return lines


def _listening(url: str, settings: ServerSettings) -> str:
    near = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    pages = f"its live page is at {near}/, its API at {near}/docs"
    if settings.socket is not None:
        near = f"--unix-socket {settings.socket} http://localhost"
        pages = "its live page is at /, its API at /docs"
    key = ' -H "Authorization: Bearer KEY"' if settings.admin_keys else ""
    body = '{"query": "shoes", "items": ["a", "b", "c"]}'
    path = f"{near}/v1/rankers/default/rank"
    return f"driftrank listens on {url}, {pages}; try: curl{key} {path} --json '{body}'"
