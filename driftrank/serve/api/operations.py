"""For whoever looks after the process: is it alive, is it ready, what does it do?"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from driftrank.serve.api.described import answered, route
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service


def router(service: Service) -> APIRouter:
    async def healthz(request: Request) -> Response:
        """Whether the process is alive. Needs no key."""
        return answered({"status": "ok"})

    async def readyz(request: Request) -> Response:
        """Whether requests can be answered: the log is replayed, and the store can be written. Needs no key."""
        if not service.ready or service.problem is not None:
            detail = service.problem or "the log is being replayed"
            raise Refused(503, "not ready", detail, {"Retry-After": "1"})
        return answered({"status": "ready"})

    async def metrics(request: Request) -> Response:
        """Counts, times and sizes, for Prometheus."""
        response = Response(service.metrics.render())
        response.headers["content-type"] = service.metrics.content_type
        return response

    out = APIRouter(tags=["operations"])
    route(out, "GET", "/healthz", healthz, answer=dict[str, str], problems=(), free=True)
    route(out, "GET", "/readyz", readyz, answer=dict[str, str], problems=(503,), free=True)
    route(out, "GET", "/metrics", metrics, answer=str, media="text/plain", problems=(401, 403))
    return out
