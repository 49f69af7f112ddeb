"""The page that shows the API to people. It loads nothing from another address."""

from __future__ import annotations

import asyncio
import functools
from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from driftrank import wire
from driftrank.serve.http.limits import Limits
from driftrank.serve.http.openapi import document
from driftrank.serve.http.operation import JSON, Need, Operation
from driftrank.serve.http.routes import table
from driftrank.serve.service import Service

TAG = "pages"
_PAGE = (resources.files(__package__) / "docs.html").read_text(encoding="utf-8")
#: the browser loads nothing else, whatever the page contains
_POLICY = "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


async def docs(service: Service, request: Request) -> Response:
    return HTMLResponse(_PAGE, headers={"content-security-policy": _POLICY})


async def openapi(service: Service, request: Request) -> Response:
    settings = service.settings
    # made at the first request, which takes longer than others should wait
    text = await asyncio.to_thread(_document, Limits.of(settings), bool(settings.admin_keys))
    return Response(text, media_type=JSON)


@functools.cache
def _document(limits: Limits, keys: bool) -> bytes:
    return wire.ENCODER.encode(document(table(), limits, keys=keys))


ROUTES = (
    Operation("GET", "/docs", docs, Need.PAGE, documented=False),
    Operation("GET", "/openapi.json", openapi, Need.PAGE, documented=False),
)
