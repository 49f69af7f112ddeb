"""The application of ``driftrank serve`` on granian, or an echo route, to compare HTTP servers.

    python benchmarks/granian_server.py PORT [--store URL] [--config FILE]

Without a store: the echo route of ``benchmarks/service.py``. Needs ``pip install granian``. Only for measurements: the
limits of connections, bodies and time are those of uvicorn's connections, and not in force here.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from pathlib import Path
from typing import Any

import uvloop
from granian.constants import Interfaces
from granian.server.embed import Server

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def with_body(app: Any) -> Any:
    """The application with a ``receive`` that ends with the body: the service steps it, which granian's does not allow.

    A client that has gone is therefore not noticed.
    """

    async def called(scope: Any, receive: Any, send: Any) -> None:
        more = True

        async def body() -> Any:
            nonlocal more
            if not more:
                await asyncio.Event().wait()
            message = await receive()
            more = message.get("more_body", False)
            return message

        await app(scope, body, send)

    return called


async def serve(app: Any, port: int, start: Any = None, stop: Any = None) -> None:
    server = Server(app, address="127.0.0.1", port=port, interface=Interfaces.ASGINL, log_enabled=False)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.stop)
    serving = asyncio.create_task(server.serve())
    if start is not None:
        await start()
        gc.freeze()
    await serving
    if stop is not None:
        await stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--store")
    parser.add_argument("--config", type=Path)
    options = parser.parse_args()
    if options.store is None:
        from benchmarks.service import echo_app

        uvloop.run(serve(echo_app(), options.port))
        return
    from driftrank.serve.app import build
    from driftrank.serve.log.store.base import open_store
    from driftrank.serve.service import Service
    from driftrank.serve.settings.load import load_settings

    sys.setswitchinterval(0.0001)  # as in driftrank.serve.app
    gc.set_threshold(10_000, 1, 1_000)
    service = Service(open_store(options.store), load_settings(options.config))
    uvloop.run(serve(with_body(build(service)), options.port, service.start, service.stop))


if __name__ == "__main__":
    main()
