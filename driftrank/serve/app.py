"""The web application, and the process that serves it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.middleware import Middleware
from starlette.routing import Route, Router

from driftrank.serve.http.endpoint import Endpoint, Unmatched
from driftrank.serve.http.gate import Gate
from driftrank.serve.http.operation import Operation
from driftrank.serve.http.routes import table
from driftrank.serve.keys import Keys
from driftrank.serve.log.store.base import open_store
from driftrank.serve.service import Service
from driftrank.serve.settings import ServerSettings

_log = logging.getLogger("driftrank.serve")
#: seconds that requests have to finish when the server is asked to stop
_GRACE = 10


def build(service: Service, operations: Sequence[Operation] | None = None) -> Router:
    """The web application of a service; ``operations``: by default the whole route table."""
    keys = Keys(service.settings.admin_key, service.ranker_settings)
    routes = [
        Route(entry.path, Endpoint(entry, service, keys), methods=[entry.method], name=entry.handler.__name__)
        for entry in (table() if operations is None else operations)
    ]
    unmatched = Unmatched(routes, keys)
    everything = Route("/{path:path}", unmatched)
    for route in (*routes, everything):  # names of queries may contain line breaks
        route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
    return Router(
        [*routes, everything],
        default=unmatched,  # paths that do not begin with a slash, such as "*"
        middleware=[Middleware(Gate, metrics=service.metrics, access_log=service.settings.access_log)],
    )


def serve(settings: ServerSettings, listening: Callable[[str], None] = lambda url: None) -> None:
    """Serve until SIGTERM or Ctrl-C. ``listening`` is called with the address as soon as requests are answered."""
    # the writing thread waits a tenth of a millisecond for a busy event loop, not five
    sys.setswitchinterval(0.0001)
    # many short garbage collections: the few long ones of the command line would delay 1 request in 50
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
    # while the log is replayed requests are answered with 503, so that health checks see a live process
    serving = asyncio.create_task(server.serve([listener]))
    starting = asyncio.create_task(service.start())
    try:
        await asyncio.wait({serving, starting}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():  # asked to stop during the replay
            return
        replay = starting.result()
        _log.info(
            "%d records replayed in %.2f s, after the checkpoint at %d",
            replay.records,
            replay.seconds,
            replay.checkpoint,
        )
        gc.freeze()  # all of it is long-lived
        listening()
        await serving
    finally:
        starting.cancel()
        server.should_exit = True
        await asyncio.gather(serving, starting, return_exceptions=True)
        await service.stop()


class _Server(uvicorn.Server):
    """Shuts down gracefully: exit code 0 after a signal, and long answers end too."""

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
        self.force_exit = self.should_exit  # the second signal: at once
        self.should_exit = True


def _listener(host: str, port: int) -> socket.socket:
    """A listening socket, opened first so that a wrong address is reported before anything else is done."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"host={host!r}: cannot be resolved ({error.strerror})") from None
    except UnicodeError as error:  # not a valid host name
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
