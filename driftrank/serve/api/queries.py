"""Queries: what was learnt of them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from driftrank.serve.api.described import answered, route
from driftrank.serve.problems import Refused
from driftrank.serve.queries import Queries
from driftrank.serve.service import Service
from driftrank.wire import QueryState

_MOST = 1000


def router(service: Service) -> APIRouter:
    known = Queries(service)

    async def queries(request: Request) -> Response:
        """The names of a ranker's queries, sorted; those after one, a page at a time."""
        limit = request.query_params.get("limit", "100")
        if not limit.isascii() or not limit.isdigit() or len(limit) > 9 or not 1 <= int(limit) <= _MOST:
            raise Refused(422, "Bad value", f"limit={limit!r}: must be an integer from 1 to {_MOST}")
        after = request.query_params.get("after")
        return answered(known.names(request.path_params["ranker"], after, int(limit)))

    async def query(request: Request) -> Response:
        """What was learnt of a query: how attractive each item is, how sure that is, what changed."""
        return answered(known.state(request.path_params["ranker"], request.path_params["query"]))

    async def delete_query(request: Request) -> Response:
        """Delete a query and all that was learnt of it."""
        await service.reset(request.path_params["ranker"], request.path_params["query"], gone=True)
        return Response(status_code=204)

    async def reset_query(request: Request) -> Response:
        """Forget what was learnt of a query; its items stay."""
        await service.reset(request.path_params["ranker"], request.path_params["query"])
        return Response(status_code=204)

    out = APIRouter(tags=["queries"])
    pages: dict[str, dict[str, Any]] = {
        "after": {"schema": {"type": "string"}, "description": "Begin after this name."},
        "limit": {
            "schema": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": 100},
            "description": "How many names at most.",
        },
    }
    route(out, "GET", "/v1/rankers/{ranker}/queries", queries, answer=list[str], parameters=pages)
    # queries may have slashes in them, so this comes before what a query called "x/reset" would match
    route(out, "POST", "/v1/rankers/{ranker}/queries/{query:path}/reset", reset_query, status=204)
    route(out, "GET", "/v1/rankers/{ranker}/queries/{query:path}", query, answer=QueryState)
    route(out, "DELETE", "/v1/rankers/{ranker}/queries/{query:path}", delete_query, status=204)
    return out
