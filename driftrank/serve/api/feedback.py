"""What users did with lists."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from driftrank.serve.api.described import answered, decoded, route
from driftrank.serve.middleware import VISIBLE
from driftrank.serve.service import Service
from driftrank.wire import FEEDBACK, Activation, Feedback, FeedbackResult

#: outcomes of a single feedback that are the caller's mistake
_STATUS = {"orphan": 404, "refused": 409, "inactive": 409}
_EXAMPLE = {"event_id": "visit-1", "clicks": [2]}


def router(service: Service) -> APIRouter:
    async def feedback(request: Request) -> Response:
        """What users clicked in a list; no clicks: they saw it and clicked nothing.

        A click is an item's id, or its position (1 is the top); an item whose id is a number is {"id": 7}. One
        feedback, or an array of them for an array of outcomes. What is answered is durable. The same feedback again
        counts once. The status of a single one is 404 where no list has this event_id, 409 where other clicks were
        counted before or the list is not activated.
        """
        said = decoded(FEEDBACK, await request.body())
        name = request.path_params["ranker"]
        if isinstance(said, list):
            return answered(await service.feedback(name, said))
        (result,) = await service.feedback(name, [said])
        return answered(result, _STATUS.get(result.outcome, 200))

    async def activate(request: Request) -> Response:
        """A deferred list was shown: the wait for its clicks begins."""
        service.ranker(request.path_params["ranker"])
        return answered(await service.activate(request.path_params["event_id"], [request.path_params["ranker"]]))

    async def activate_anywhere(request: Request) -> Response:
        """A deferred list was shown, of whichever ranker that the key opens."""
        visible = request.scope.get(VISIBLE)
        names = service.ranker_names() if visible is None else sorted(visible)
        return answered(await service.activate(request.path_params["event_id"], names))

    out = APIRouter(tags=["rank and learn"])
    route(
        out, "POST", "/v1/rankers/{ranker}/feedback", feedback, body=Feedback | list[Feedback],
        answer=FeedbackResult | list[FeedbackResult], example=_EXAMPLE,
        also=dict.fromkeys(_STATUS.values(), FeedbackResult),
    )  # fmt: skip
    route(out, "POST", "/v1/rankers/{ranker}/events/{event_id:path}/activate", activate, answer=Activation)
    route(out, "POST", "/v1/events/{event_id:path}/activate", activate_anywhere, answer=Activation)
    return out
