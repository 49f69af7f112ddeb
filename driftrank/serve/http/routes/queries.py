"""Queries and what was learnt about them."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.answers.queries import SORTS, Introspection, Sort
from driftrank.serve.http.bodies import json_response, no_content
from driftrank.serve.http.endpoint import ARM, arm_of, caller
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.parameters import choice, choices, integer, limit, offset
from driftrank.serve.service import Service
from driftrank.wire import QueryState

TAG = "queries"
_PAGE = {"after": {"schema": {"type": "string"}, "description": "Begin after this name."}, **limit("names"), **ARM}
_ITEMS = {
    **choices("sort", SORTS, "The order of the items: largest or latest first, unknown ones last; ids ascend."),
    **offset("items"),
    **limit("items", default=1000),
    **ARM,
}


async def queries(service: Service, request: Request) -> Response:
    """List the names of a ranker's queries, sorted, a page at a time."""
    after = request.query_params.get("after")
    most = integer(request, _PAGE, "limit")
    names = await Introspection(service).names(request.path_params["ranker"], after, most, arm_of(request))
    return json_response(names)


async def query(service: Service, request: Request) -> Response:
    """Return what was learnt about a query: the estimate of each item, its uncertainty, detected changes.

    Items are sorted, by default by their estimates, and come a page at a time; items_total is the number of all.
    """
    ranker, name = request.path_params["ranker"], request.path_params["query"]
    begin, most = integer(request, _ITEMS, "offset"), integer(request, _ITEMS, "limit")
    sort = cast(Sort, choice(request, _ITEMS, "sort"))
    return json_response(await Introspection(service).state(ranker, name, begin, most, sort, arm_of(request)))


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
