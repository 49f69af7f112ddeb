"""driftrank demo: the service, simulated users and the live page."""

from __future__ import annotations

import os
import socket
import tempfile
from typing import Annotated

import typer

from driftrank.cli.serve import end_compiling
from driftrank.extras import need

PortOption = Annotated[
    int, typer.Option("--port", metavar="PORT", help="Port of the page; if it is taken, any free one.")
]
StoreOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Store of the log.", show_default="a temporary one")
]
RateOption = Annotated[float, typer.Option(metavar="R", min=0.1, max=500.0, help="Simulated users per second.")]
SeedOption = Annotated[int, typer.Option(metavar="N", help="Seed of the users.")]
OpenOption = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]


def demo(
    port: PortOption = 8000,
    store: StoreOption = None,
    rate: RateOption = 50.0,
    seed: SeedOption = 0,
    open_: OpenOption = True,
) -> None:
    """Try it: the service with simulated users, and its live page.

    Users see three of eight dishes, and click what they like. A button on the page changes their minds: watch the
    service learn, notice the change and recover, in a minute. The store is temporary unless one is given; variables of
    driftrank serve, such as DRIFTRANK_ADMIN_KEY, count here too. Ctrl-C ends everything.

    \b
    driftrank demo
    driftrank demo --port 0 --no-open --rate 200
    """
    need("serve", "jinja2", "msgspec", "prometheus_client", "starlette", "uvicorn")
    from driftrank.serve.app import serve
    from driftrank.serve.monitoring.logging import set_up_logging
    from driftrank.serve.page.sandbox import Sandbox
    from driftrank.serve.settings.load import load_settings
    from driftrank.serve.settings.server import check_reachable

    def listening(url: str) -> None:
        typer.echo(f"driftrank listens on {url}, simulated users are at {url}/try; Ctrl-C ends it")
        if open_:
            typer.launch(f"{url}/try")

    with tempfile.TemporaryDirectory(prefix="driftrank-demo-", ignore_cleanup_errors=True) as folder:
        options = {"port": _free(port), "durability": "relaxed", "log_level": "warning"}
        options["store"] = store or f"sqlite:///{folder}/demo.db"
        settings = load_settings(None, os.environ, options)
        check_reachable(settings)
        set_up_logging(settings.log_level)
        typer.echo("driftrank is starting; the very first time it compiles for up to a minute", err=True)
        serve(settings, listening, sandbox=Sandbox(rate=rate, seed=seed))
    end_compiling()


def _free(port: int) -> int:
    """The port, or 0 if it is taken."""
    with socket.socket() as probe:
        if os.name == "posix":  # connections of a process that has ended do not count
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port
