"""driftrank serve: the ranking service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from driftrank.extras import need

if TYPE_CHECKING:
    from driftrank.serve.settings import ServerSettings

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
    int | None, typer.Option(metavar="PORT", help="Port to listen on; 0: any free one.", show_default="8080")
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
    store: StoreOption = None,
    config: ConfigOption = None,
    durability: DurabilityOption = None,
    memory: MemoryOption = None,
    retention: RetentionOption = None,
    discard: DiscardOption = None,
    access_log: AccessLogOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Start the ranking service, which learns from clicks.

    Everything is stored in one SQLite file, and there is a ranker called default from the start. More rankers come from
    the settings file, from the environment (DRIFTRANK_RANKERS__SHOP__POLICY=CascadeSWUCB:window=24h) or over HTTP.
    Every setting has a variable (DRIFTRANK_PORT); options win over variables, variables over the file. Logs go to
    standard error. SIGTERM or Ctrl-C shuts it down gracefully.

    \b
    driftrank serve
    driftrank serve --port 9000 --store sqlite:////var/lib/driftrank/log.db --config driftrank.toml
    DRIFTRANK_ADMIN_KEY=sha256:... driftrank serve --host 0.0.0.0

    \b
    curl http://127.0.0.1:8080/v1/rankers/default/rank -d '{"query": "shoes", "items": ["a", "b", "c"]}'
    """
    options = {name: value for name, value in locals().items() if name != "config"} | {"discard": discard or None}
    run, settings = _prepare(config, options)
    if settings.public and settings.admin_key is None:
        raise ValueError(
            f"host={settings.host!r}: must be an address of this machine only, unless DRIFTRANK_ADMIN_KEY is set; "
            "driftrank key makes a key"
        )
    run(settings, lambda url: typer.echo(_listening(url, settings)))


def _prepare(config: Path | None, options: dict[str, Any]) -> tuple[Any, ServerSettings]:
    """The function that serves, and its settings."""
    import os

    need("serve", "msgspec", "prometheus_client", "starlette", "uvicorn")
    from driftrank.serve import app
    from driftrank.serve.logging import set_up_logging
    from driftrank.serve.settings import load_settings

    settings = load_settings(config, os.environ, options)
    set_up_logging(settings.log_level)
    return app.serve, settings


def _listening(url: str, settings: ServerSettings) -> str:
    near = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    key = ' -H "Authorization: Bearer KEY"' if settings.admin_key else ""
    body = '{"query": "shoes", "items": ["a", "b", "c"]}'
    return f"driftrank listens on {url}, its API is at /docs; try: curl{key} {near}/v1/rankers/default/rank -d '{body}'"
