"""One event."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.answers.event import event as event_state
from driftrank.serve.http.bodies import json_response
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.service import Service
from driftrank.wire import EventState

TAG = "rank and learn"


async def event(service: Service, request: Request) -> Response:
    """Return a ranking that was served: its candidates, the list and why, its feedback, and what became of it.

    As long as its records are in the log (see the setting retention).
    """
    return json_response(await event_state(service, request.path_params["ranker"], request.path_params["event_id"]))


ROUTES = (
    Operation("GET", "/v1/rankers/{ranker}/events/{event_id:path}", event, Need.RANKER, answer=EventState),
)  # fmt: skip
