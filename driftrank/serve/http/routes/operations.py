"""Health checks and metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import json_response
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service

TAG = "operations"


async def healthz(service: Service, request: Request) -> Response:
    """Check that the process is alive. Needs no key."""
    return json_response({"status": "ok"})


async def readyz(service: Service, request: Request) -> Response:
    """Check that requests can be answered: the log is replayed and the store is writable. Needs no key."""
    if service.draining:
        raise Refused(503, "Not ready", "the service is stopping", {"Retry-After": "1"})
    if not service.ready or service.problem is not None:
        detail = service.problem or "the log is being replayed"
        raise Refused(503, "Not ready", detail, {"Retry-After": "1"})
    return json_response({"status": "ready"})


async def metrics(service: Service, request: Request) -> Response:
    """Counts, times and sizes, for Prometheus; of several workers each, with the label ``worker``."""
    return Response(await service.all_metrics(), headers={"content-type": service.metrics.content_type})


ROUTES = (
    Operation("GET", "/healthz", healthz, Need.NOTHING, answer=dict[str, str], problems=()),
    Operation("GET", "/readyz", readyz, Need.NOTHING, answer=dict[str, str], problems=(503,)),
    Operation("GET", "/metrics", metrics, Need.ADMIN, answer=str, media="text/plain", problems=(401, 403)),
)
