"""Queries and what was learnt about them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import json_response, no_content
from driftrank.serve.http.endpoint import caller
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.problems import Refused
from driftrank.serve.introspection import Introspection
from driftrank.serve.service import Service
from driftrank.wire import QueryState

TAG = "queries"
_MAX_LIMIT = 1000
_PAGE: dict[str, dict[str, Any]] = {
    "after": {"schema": {"type": "string"}, "description": "Begin after this name."},
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT, "default": 100},
        "description": "The maximum number of names.",
    },
}


_ITEMS: dict[str, dict[str, Any]] = {
    "offset": {
        "schema": {"type": "integer", "minimum": 0, "maximum": 10**9 - 1, "default": 0},
        "description": "The number of items to leave out, best first.",
    },
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": _MAX_LIMIT, "default": _MAX_LIMIT},
        "description": "The maximum number of items.",
    },
}


async def queries(service: Service, request: Request) -> Response:
    """List the names of a ranker's queries, sorted, a page at a time."""
    limit = _integer(request, _PAGE, "limit")
    after = request.query_params.get("after")
    return json_response(Introspection(service).names(request.path_params["ranker"], after, limit))


async def query(service: Service, request: Request) -> Response:
    """Return what was learnt about a query: the estimate of each item, its uncertainty, detected changes.

    Items are sorted by their estimates and come a page at a time; items_total is the number of all.
    """
    ranker, name = request.path_params["ranker"], request.path_params["query"]
    offset, limit = _integer(request, _ITEMS, "offset"), _integer(request, _ITEMS, "limit")
    service.ranker(ranker)
    await service.hold(ranker, [name])
    return json_response(Introspection(service).state(ranker, name, offset, limit))


def _integer(request: Request, parameters: dict[str, dict[str, Any]], name: str) -> int:
    """The value of a parameter of the query string, checked."""
    schema = parameters[name]["schema"]
    low, high, value = schema["minimum"], schema["maximum"], request.query_params.get(name, str(schema["default"]))
    if not value.isascii() or not value.isdigit() or len(value) > 9 or not low <= int(value) <= high:
        raise Refused(422, "Bad value", f"{name}={value!r}: must be an integer from {low} to {high}")
    return int(value)


async def delete_query(service: Service, request: Request) -> Response:
    """Delete a query and all that was learnt about it."""
    await service.reset(request.path_params["ranker"], request.path_params["query"], gone=True, by=caller(request))
    return no_content()


async def reset_query(service: Service, request: Request) -> Response:
    """Forget what was learnt about a query; its items stay."""
    await service.reset(request.path_params["ranker"], request.path_params["query"], by=caller(request))
    return no_content()


ROUTES = (
    Operation(
        "GET", "/v1/rankers/{ranker}/queries", queries, Need.RANKER, answer=list[str], parameters=_PAGE
    ),
    # queries may contain slashes, so this comes before the route that a query "x/reset" would match
    Operation("POST", "/v1/rankers/{ranker}/queries/{query:path}/reset", reset_query, Need.ADMIN, status=204),
    Operation(
        "GET", "/v1/rankers/{ranker}/queries/{query:path}", query, Need.RANKER, answer=QueryState, parameters=_ITEMS
    ),
    Operation("DELETE", "/v1/rankers/{ranker}/queries/{query:path}", delete_query, Need.ADMIN, status=204),
)  # fmt: skip
