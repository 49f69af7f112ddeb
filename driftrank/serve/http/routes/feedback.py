"""Clicks, and rankings that were shown later."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import decoded, json_response
from driftrank.serve.http.endpoint import VISIBLE, count_array
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.service import Service
from driftrank.wire import FEEDBACK, Activation, Feedback, FeedbackResult

TAG = "rank and learn"
#: outcomes of a single feedback that are the caller's mistake
_STATUS = {"orphan": 404, "refused": 409, "inactive": 409}
_EXAMPLE = {"event_id": "example-1", "clicks": [2]}


async def feedback(service: Service, request: Request) -> Response:
    """Report the clicks on a ranking; without clicks: it was seen and nothing was clicked.

    A click is the id of an item; {"position": 2} names its position (1 is the top). If no item of the ranking has an
    integer as its id, a bare integer is a position, too. A click is worth value, or as much as the ranker's setting
    values has for this kind of event: it is learnt from as a click with that probability. One feedback, or an array of
    them for an array of outcomes. Acknowledged feedback is durable. Repeated feedback counts once. The status of a
    single feedback is 404 if no ranking has this event_id, and 409 if other clicks were counted before or the ranking
    is not activated.
    """
    given = decoded(FEEDBACK, await request.body())
    name = request.path_params["ranker"]
    if isinstance(given, list):
        count_array(request, len(given))
        return json_response(await service.feedback(name, given))
    (result,) = await service.feedback(name, [given])
    return json_response(result, _STATUS.get(result.outcome, 200))


async def activate(service: Service, request: Request) -> Response:
    """Activate a deferred ranking that was shown: its feedback window begins."""
    name = request.path_params["ranker"]
    service.ranker(name)
    return json_response(await service.activate(request.path_params["event_id"], [name]))


async def activate_anywhere(service: Service, request: Request) -> Response:
    """Activate a deferred ranking of any ranker that the key has access to."""
    visible = request.scope[VISIBLE]
    names = service.ranker_names() if visible is None else sorted(visible)
    return json_response(await service.activate(request.path_params["event_id"], names))


ROUTES = (
    Operation(
        "POST", "/v1/rankers/{ranker}/feedback", feedback, Need.RANKER, "feedback",
        body=Feedback | list[Feedback], answer=FeedbackResult | list[FeedbackResult], example=_EXAMPLE,
        also=dict.fromkeys(_STATUS.values(), FeedbackResult),
    ),
    Operation(
        "POST", "/v1/rankers/{ranker}/events/{event_id:path}/activate", activate, Need.RANKER, answer=Activation
    ),
    Operation("POST", "/v1/events/{event_id:path}/activate", activate_anywhere, Need.ANY, answer=Activation),
)  # fmt: skip
