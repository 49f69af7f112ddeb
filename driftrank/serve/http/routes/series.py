"""The traffic of rankers over time, at a glance, and list by list."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.answers import series as over_time
from driftrank.serve.answers.query_lists import query_lists
from driftrank.serve.http.bodies import json_response
from driftrank.serve.http.endpoint import VISIBLE
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.parameters import choice, choices, integer, limit, time
from driftrank.serve.service import Service
from driftrank.wire import Overview, QueryLists, SeriesState

TAG = "over time"
_SERIES: dict[str, Any] = {
    **choices("step", over_time.STEPS, "The length of a period: minutes of a day, or hours of 92 days."),
    "since": {
        "schema": {"type": "string", "format": "date-time"},
        "description": "Begin with the period of this time.",
    },
}
_LISTS = limit("lists", default=20)


async def overview(service: Service, request: Request) -> Response:
    """Show the rankers that the key has access to at a glance, and the service with a key to all of them.

    Lists, and the share with a click, of the last 60 minutes and of the last 24 hours by arm; what the arms earn more
    than the baseline; exploration; changes. All of it is part of the state; the service is the one that answers, since
    it was started.
    """
    return json_response(await over_time.overview(service, request.scope[VISIBLE]))


async def series(service: Service, request: Request) -> Response:
    """Show a ranker over time: lists, clicks, outcomes by arm, exploration by position, the time to a click, the gain.

    The numbers are part of the state: they are counted at the times of the records, survive restarts, and are the same
    on every node of a shared store. A day of minutes and 92 days of hours are kept.
    """
    step = cast(over_time.Step, choice(request, _SERIES, "step"))
    ranker = service.ranker(request.path_params["ranker"])
    return json_response(over_time.series_of(ranker, step, time(request, "since"), service.now()))


async def lists(service: Service, request: Request) -> Response:
    """Show the latest lists of a query with their clicks, and how often its items were shown and clicked in them.

    Of the busiest queries, of all arms, as long as the records are in the log (see the setting retention).
    """
    ranker, query = request.path_params["ranker"], request.path_params["query"]
    return json_response(await query_lists(service, ranker, query, integer(request, _LISTS, "limit")))


ROUTES = (
    Operation("GET", "/v1/overview", overview, Need.ANY, answer=Overview),
    Operation("GET", "/v1/rankers/{ranker}/series", series, Need.RANKER, answer=SeriesState, parameters=_SERIES),
    Operation(
        "GET", "/v1/rankers/{ranker}/lists/{query:path}", lists, Need.RANKER, answer=QueryLists, parameters=_LISTS
    ),
)
