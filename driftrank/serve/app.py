"""The web application, and the process that serves it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.routing import BaseRoute

import driftrank
from driftrank.serve import api
from driftrank.serve.api import described
from driftrank.serve.config import ServerSettings
from driftrank.serve.keys import Keys
from driftrank.serve.middleware import Gate
from driftrank.serve.problems import install
from driftrank.serve.service import Service
from driftrank.serve.store.base import open_store

_log = logging.getLogger("driftrank.serve")
_TEXT = """Ranks items and learns from clicks, and keeps up when users change their minds.

Send **rank** with a query and candidates, show the list, send **feedback** with what was clicked.
"""
#: groups of routes, in the order in which people read of them
_TAGS = ("rank and learn", "rankers", "queries", "transfer", "operations", "Azure Personalizer")
#: the two calls that nearly all requests are
_OFTEN = ("/{ranker}/rank", "/{ranker}/feedback")
#: versions of FastAPI that measure by themselves need not: we do, and it takes 4 microseconds a request
_OFF: Any = {"tracing": False, "metrics": False, "logs": False}
#: seconds that requests have to end when the server is asked to
_GRACE = 10


def build(service: Service) -> FastAPI:
    """The routes of a service, and what every request passes on its way to them."""
    settings = service.settings
    app = FastAPI(
        title="driftrank",
        version=driftrank.__version__,
        description=_TEXT,
        telemetry=_OFF,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere; ours is in api/pages.py
        redoc_url=None,
        openapi_tags=[{"name": name} for name in _TAGS],
    )
    routes = [route for module in api.modules() for route in module.router(service).routes]
    # a router inside a router takes 15 microseconds more, so all are in one; people read of rank first
    app.router.routes[:0] = sorted(routes, key=_place)
    described.describe(app, keys=settings.admin_key is not None)
    install(app)
    app.add_middleware(
        Gate, keys=Keys(settings.admin_key, service.ranker_settings), metrics=service.metrics,
        max_body=settings.max_body_bytes, personalizer=settings.personalizer, access_log=settings.access_log,
        direct={path.rpartition("/")[2]: route.endpoint for route in routes if (path := route.path).endswith(_OFTEN)},
    )  # fmt: skip
    return app


def _place(route: BaseRoute) -> int:
    """Where a route stands: rank, feedback, then the others."""
    path = getattr(route, "path", "")
    return next((n for n, end in enumerate(_OFTEN) if path.endswith(end)), len(_OFTEN))


def serve(settings: ServerSettings, listening: Callable[[str], None] = lambda url: None) -> None:
    """Serve until asked to stop (SIGTERM or Ctrl-C). ``listening`` is told the address as soon as there is one."""
    # the thread that writes gets its turn after a tenth of a millisecond of a busy loop, not after five
    sys.setswitchinterval(0.0001)
    # many short collections of garbage; the few long ones of a command that ends soon would hold up 1 request in 50
    gc.set_threshold(2_000, 10, 1_000)
    listener = _listener(settings.host, settings.port)
    try:
        store = open_store(settings.store, durability=settings.durability)
        service = Service(store, settings)
        config = uvicorn.Config(
            build(service), http="httptools", log_config=None, access_log=False, lifespan="off", server_header=False,
            timeout_graceful_shutdown=_GRACE, ws="none", proxy_headers=False,
        )  # fmt: skip
        host, port = listener.getsockname()[:2]
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_serve(_Server(config, service), listener, lambda: listening(url)))
    finally:
        listener.close()


async def _serve(server: _Server, listener: socket.socket, listening: Callable[[], None]) -> None:
    service = server.service
    # requests are answered while the log is replayed, with 503: who looks after the process sees that it lives
    serving = asyncio.create_task(server.serve([listener]))
    starting = asyncio.create_task(service.start())
    try:
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # asked to stop before it began
            return
        replay = starting.result()
        _log.info(
            "%d records replayed in %.2f s, after the checkpoint at %d",
            replay.records,
            replay.seconds,
            replay.checkpoint,
        )
        gc.freeze()  # what is there now stays
        listening()
        await serving
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.gather(serving, starting, return_exceptions=True)
        await service.stop()


class _Server(uvicorn.Server):
    """Ends in peace: a request to stop is no error, and long answers end too."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        try:
            for number in signals:
                loop.add_signal_handler(number, self._stop)
        except NotImplementedError:  # Windows
            with super().capture_signals():
                yield
            return
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.service.stopping = True
        self.force_exit = self.should_exit  # asked twice: at once
        self.should_exit = True


def _listener(host: str, port: int) -> socket.socket:
    """A socket that listens; what is wrong with the address is said before anything else is done."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"host={host!r}: is not known ({error.strerror})") from None
    except UnicodeError as error:  # no host can be called so
        raise ValueError(f"host={host!r}: {error}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
