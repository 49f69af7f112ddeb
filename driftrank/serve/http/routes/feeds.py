"""Feeds of a ranker: its changes, its busiest queries, the operations on it."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.answers import feeds
from driftrank.serve.http.bodies import json_response
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.parameters import BEFORE, choice, choices, integer, limit, offset, optional_integer
from driftrank.serve.service import Service
from driftrank.wire import ChangeLogged, OperationLogged, QuerySummary

TAG = "feeds"
_TOP = {
    **choices("by", feeds.BY, "traffic: most rankings of late first. change: latest change first. loss: surest first."),
    **offset("queries"),
    **limit("queries"),
}
_CHANGES = {
    "query": {"schema": {"type": "string"}, "description": "Only the changes of this query."},
    **BEFORE,
    **limit("changes"),
}
_OPERATIONS = {**BEFORE, **limit("operations")}


async def top_queries(service: Service, request: Request) -> Response:
    """List queries by traffic, by their latest change, or by loss against the holdout, a page at a time.

    Of the busiest queries, some thousands, there are counts of rankings and clicks, of the policy and of the holdout.
    loss is the difference of their clicks per ranking; those come first that are above twice their standard error by
    most. Queries without a change, or without both arms, are left out where they are sorted by it.
    """
    by = cast(feeds.By, choice(request, _TOP, "by"))
    begin, most = integer(request, _TOP, "offset"), integer(request, _TOP, "limit")
    return json_response(feeds.top_queries(service, request.path_params["ranker"], by, begin, most))


async def changes(service: Service, request: Request) -> Response:
    """List the changes of users that the policy has detected, the latest first, a page at a time.

    The latest thousand of a ranker are kept. before and after are estimates of the item's attraction.
    """
    before, most = optional_integer(request, _CHANGES, "before"), integer(request, _CHANGES, "limit")
    query = request.query_params.get("query")
    return json_response(feeds.changes(service, request.path_params["ranker"], query, before, most))


async def operations(service: Service, request: Request) -> Response:
    """List the operations on a ranker, the latest first, a page at a time: changes of settings, resets, deletions.

    Each has the time, the key that asked for it, the settings before and after, and the number of rankings whose
    learning it discarded. The operations on a deleted ranker can be listed, too. The latest thousand are kept.
    """
    return json_response(_operations(service, request, request.path_params["ranker"]))


async def all_operations(service: Service, request: Request) -> Response:
    """List the operations on all rankers, the latest first, a page at a time."""
    return json_response(_operations(service, request, None))


def _operations(service: Service, request: Request, name: str | None) -> list[OperationLogged]:
    before, most = optional_integer(request, _OPERATIONS, "before"), integer(request, _OPERATIONS, "limit")
    return feeds.operations(service, name, before, most)


ROUTES = (
    Operation(
        "GET", "/v1/rankers/{ranker}/top-queries", top_queries, Need.RANKER, answer=list[QuerySummary], parameters=_TOP
    ),
    Operation(
        "GET", "/v1/rankers/{ranker}/changes", changes, Need.RANKER, answer=list[ChangeLogged], parameters=_CHANGES
    ),
    Operation(
        "GET", "/v1/rankers/{ranker}/operations", operations, Need.ADMIN,
        answer=list[OperationLogged], parameters=_OPERATIONS,
    ),
    Operation(
        "GET", "/v1/operations", all_operations, Need.ADMIN, answer=list[OperationLogged], parameters=_OPERATIONS
    ),
)  # fmt: skip
