"""The web application, and the process that serves it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import re
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import uvicorn
from starlette.middleware import Middleware
from starlette.routing import Route, Router

from driftrank.serve.access.keys import Keys
from driftrank.serve.access.rate import Rates
from driftrank.serve.http.connection import Connection, Connections
from driftrank.serve.http.endpoint import Endpoint, Unmatched
from driftrank.serve.http.gate import Gate
from driftrank.serve.http.listener import allow_files, open_listener, url_of
from driftrank.serve.http.operation import Operation
from driftrank.serve.http.routes import table
from driftrank.serve.log.store.base import open_store
from driftrank.serve.monitoring.logging import set_level
from driftrank.serve.page.routes import Page
from driftrank.serve.page.sandbox import Sandbox
from driftrank.serve.problems import Refused
from driftrank.serve.processes.worker_metrics import WorkerMetrics
from driftrank.serve.processes.workers import RELOAD, STOP, STOP_NOW, Supervisor, Worker, check_workers
from driftrank.serve.service import Service
from driftrank.serve.settings.server import ServerSettings, reloaded

_log = logging.getLogger("driftrank.serve")
#: seconds that requests have to finish when the server is asked to stop
_GRACE = 10
#: ticks of 0.1 s between two collections of all objects, for garbage in cycles that was not found young: once an hour,
#: since none is known, and one takes 2 ms for a thousand queries of 50 items that are new since the start
_ALL_OBJECTS = 36_000
#: files besides connections: the store, the log, the event loop
_OTHER_FILES = 64


def build(
    service: Service,
    operations: Sequence[Operation] | None = None,
    *,
    overloaded: Callable[[], bool] = lambda: False,
    sandbox: Sandbox | None = None,
) -> Router:
    """The web application of a service; ``operations``: by default the whole route table, and the live page.

    ``sandbox``: simulated users for the page.
    """
    keys = Keys(lambda: service.settings, service.ranker_settings)
    rates = Rates(lambda: service.settings.rate)
    routes = [
        Route(entry.path, Endpoint(entry, service, keys, rates), methods=[entry.method], name=entry.handler.__name__)
        for entry in (table() if operations is None else operations)
    ]
    if operations is None:
        routes += Page(service, keys, sandbox).routes()
    unmatched = Unmatched(routes, keys)
    everything = Route("/{path:path}", unmatched)
    for route in (*routes, everything):  # names of queries may contain line breaks
        route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z", re.DOTALL)
    return Router(
        [*routes, everything],
        default=unmatched,  # paths that do not begin with a slash, such as "*"
        middleware=[Middleware(Gate, service=service, overloaded=overloaded)],
    )


def serve(
    settings: ServerSettings,
    listening: Callable[[str], None] = lambda url: None,
    load: Callable[[], ServerSettings] | None = None,
    sandbox: Sandbox | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. ``listening`` is called with the address as soon as requests are answered.

    ``load`` returns the settings again, at SIGHUP. ``sandbox``: simulated users, who come as long as it runs.
    """
    check_workers(settings)
    # the writing thread waits a tenth of a millisecond for a busy event loop, not five
    sys.setswitchinterval(0.0001)
    # garbage collections of milliseconds: the long ones of the command line would delay 1 request in 50, and with 2,000
    # instead of 10,000 the objects of 32 requests in progress were examined again and again, for a tenth of the CPU.
    # Every tick of the server counts for the last number
    gc.set_threshold(10_000, 1, 1_000_000)
    listener = open_listener(settings)
    url = url_of(listener, settings)
    try:
        if settings.workers == 1:
            _work(settings, listener, lambda: listening(url), load, sandbox=sandbox)
        else:
            gc.freeze()  # so that workers share the memory of what is imported
            work = functools.partial(_be_worker, settings, listener, load)
            Supervisor(settings.workers, work, lambda: listening(url)).run()
    finally:
        listener.close()
        if settings.socket is not None:
            Path(settings.socket).unlink(missing_ok=True)


def _be_worker(
    settings: ServerSettings, listener: socket.socket, load: Callable[[], ServerSettings] | None, worker: Worker
) -> None:
    _work(settings, listener, worker.ready, load, worker)


def _work(
    settings: ServerSettings,
    listener: socket.socket,
    listening: Callable[[], None],
    load: Callable[[], ServerSettings] | None,
    worker: Worker | None = None,
    sandbox: Sandbox | None = None,
) -> None:
    """Answer requests, as one of several workers or alone."""
    allow_files(settings.max_connections + _OTHER_FILES)
    store = open_store(settings.store, durability=settings.durability)
    service = Service(store, settings)
    connections = Connections(lambda: service.settings, service.metrics)
    config = uvicorn.Config(
        build(service, overloaded=lambda: connections.overloaded, sandbox=sandbox),
        http=functools.partial(Connection, connections=connections),  # type: ignore[arg-type]
        log_config=None, access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=_GRACE,
        ws="none", proxy_headers=False, ssl_certfile=settings.tls_cert, ssl_keyfile=settings.tls_key,
    )  # fmt: skip
    _check_certificate(settings)
    config.load()
    service.url = url_of(listener, settings)
    service.worker = None if worker is None else worker.number
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(_Server(config, service, load, worker), connections, listener, listening, sandbox))


def _check_certificate(settings: ServerSettings) -> None:
    """Raise if the certificate or its key cannot be used. One that fails in use would stay there, without its key."""
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise ValueError(f"tls_cert={settings.tls_cert!r}, tls_key={settings.tls_key!r}: {error}") from None


async def _serve(
    server: _Server, connections: Connections, listener: socket.socket, listening: Callable[[], None],
    sandbox: Sandbox | None,
) -> None:  # fmt: skip
    service = server.service
    sweeping = asyncio.create_task(connections.sweep())
    # while the log is replayed requests are answered with 503, so that health checks see a live process; but not by a
    # worker if others answer them
    serving = asyncio.create_task(server.serve([listener]))
    starting = asyncio.create_task(service.start())
    others = {sweeping, starting}
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
        server.open.set()
        if sandbox is not None:
            others.add(asyncio.create_task(sandbox.run(service)))
        listening()
        await serving
    finally:
        for task in others:
            task.cancel()
        server.should_exit = True
        await asyncio.gather(serving, *others, return_exceptions=True)
        await service.stop()


class _Server(uvicorn.Server):
    """Shuts down gracefully: exit code 0 after a signal, and long answers end too. SIGHUP loads the settings again.

    A worker is also asked by its supervisor, and stops if that has ended.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        load: Callable[[], ServerSettings] | None,
        worker: Worker | None = None,
    ) -> None:
        super().__init__(config)
        self.service = service
        self.open = asyncio.Event()  #: connections are accepted
        if worker is None or worker.alone:
            self.open.set()
        self._worker = worker
        self._asked: set[str] = set()  # who has asked to stop
        self._load = load
        self._reloading: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        with self.capture_signals():
            await self.open.wait()
            if self.should_exit:  # asked to stop before
                return
            if self._worker is None:
                await super().serve(sockets)
                return
            async with WorkerMetrics(self._worker, self.service.metrics) as metrics:
                self.service.all_metrics = metrics.render
                await super().serve(sockets)

    async def on_tick(self, counter: int) -> bool:
        # while as many objects die as are made, Python collects none of the young ones: those of 20,000 impressions in
        # memory are all young in the end, and the next collection takes 0.1 s
        gc.collect(1 if counter % _ALL_OBJECTS else 2)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = {
            signal.SIGINT: self._stop,
            signal.SIGTERM: self._stop,
        }
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = self._reload
        try:
            for number, handler in handlers.items():
                loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            with super().capture_signals():
                yield
            return
        if self._worker is not None:
            loop.add_reader(self._worker.link, self._told, self._worker.link)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)
            if self._worker is not None:
                loop.remove_reader(self._worker.link)

    def _told(self, link: socket.socket) -> None:
        """Read what the supervisor sends."""
        message = link.recv(100)
        if not message:  # it has ended
            asyncio.get_running_loop().remove_reader(link)
        if RELOAD in message:
            self._reload()
        if not message or STOP in message:
            self._stop("supervisor")
        if STOP_NOW in message:
            self._stop_now()

    def _stop(self, asked_by: str = "signal") -> None:
        # a signal to all processes also comes by the supervisor: that is one request to stop
        if asked_by in self._asked:
            self._stop_now()
            return
        self._asked.add(asked_by)
        service = self.service
        if service.draining:
            return
        service.draining = True
        drain = service.settings.drain_seconds if service.ready else 0.0
        if drain:
            _log.info("stopping: not ready any more; connections are refused in %g s", drain)
            asyncio.get_running_loop().call_later(drain, self._close)
        else:
            self._close()

    def _stop_now(self) -> None:
        """Do not wait for requests: the second signal."""
        self.service.draining = True
        self._close()
        self.force_exit = True

    def _close(self) -> None:
        self.service.hurry()
        self.should_exit = True
        self.open.set()

    def _reload(self) -> None:
        if self._load is None or not self.service.ready:
            _log.warning("the settings are not loaded again: the service is starting or stopping")
        elif self._reloading is None or self._reloading.done():
            self._reloading = asyncio.create_task(self._load_again(self._load))

    async def _load_again(self, load: Callable[[], ServerSettings]) -> None:
        try:
            settings, changed, fixed = reloaded(self.service.settings, load())
            _check_certificate(settings)
            await self.service.configure(settings)
            if self.config.ssl is not None and settings.tls_cert is not None:  # for new connections
                self.config.ssl.load_cert_chain(settings.tls_cert, settings.tls_key)
        except (ValueError, OSError, Refused) as error:
            _log.error("the settings were not loaded again: %s", error)
            return
        set_level(self.service.settings.log_level)
        _log.info("the settings were loaded again; changed: %s", ", ".join(changed) or "nothing")
        if fixed:
            _log.warning("a restart is needed to change %s", ", ".join(fixed))
