"""Transfer of what was learnt elsewhere: old click logs, and the states of other services."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from driftrank.serve.http.bodies import decoded, json_response
from driftrank.serve.http.endpoint import ARM, arm_of
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.operations.transfer import Transfer
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.wire import Counted, SavedQuery, WarmRow

TAG = "transfer"
_ROWS = msgspec.json.Decoder(list[WarmRow])
_STATES = msgspec.json.Decoder(SavedQuery)
_EXAMPLE = [{"query": "running shoes", "ranking": ["a", "b", "c"], "clicks": [2]}]
_BATCH = {
    "batch": {"schema": {"type": "string"}, "description": "A name for these rows, to count them once."},
    **ARM,
}


async def warmstart(service: Service, request: Request) -> Response:
    """Learn from the rankings of an old click log, in their order.

    With a name for the batch, sending it again counts it once. Times (seconds since 1970) are used unless they are in
    the future; rows without a time count as of now.
    """
    rows = decoded(_ROWS, await request.body())
    name, batch = request.path_params["ranker"], request.query_params.get("batch")
    return json_response(await Transfer(service).warmstart(name, rows, batch, arm_of(request)))


async def export(service: Service, request: Request) -> Response:
    """Export the state of every query, a JSON object on each line, for import."""
    name, arm = request.path_params["ranker"], arm_of(request)
    service.arm(name, arm)

    async def lines() -> AsyncIterator[bytes]:
        async for query, state in Transfer(service).export(name, arm):
            yield msgspec.json.encode(SavedQuery(query, base64.b64encode(state).decode())) + b"\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


async def import_(service: Service, request: Request) -> Response:
    """Import the states of queries, exported by a ranker of the same policy and k. Replaces existing states.

    The body is the answer of export, line by line (curl --data-binary @FILE; -d would remove the line ends). If it is
    longer than max_body, send some lines at a time, as the client does.
    """
    states = []
    for n, line in enumerate((await request.body()).splitlines()):
        if not line.strip():
            continue
        try:
            saved = decoded(_STATES, line)
            states.append((saved.query, base64.b64decode(saved.state, validate=True)))
        except Refused as problem:
            raise Refused(problem.status, problem.title, f"line {n + 1}: {problem.detail}") from None
        except ValueError as error:
            raise Refused(422, "Bad value", f"line {n + 1}: state is not base64 ({error})") from None
    return json_response(await Transfer(service).import_(request.path_params["ranker"], states, arm_of(request)))


ROUTES = (
    Operation(
        "POST", "/v1/rankers/{ranker}/warmstart", warmstart, Need.ADMIN,
        body=list[WarmRow], answer=Counted, parameters=_BATCH, example=_EXAMPLE,
    ),
    Operation(
        "GET", "/v1/rankers/{ranker}/export", export, Need.ADMIN,
        answer=SavedQuery, media="application/x-ndjson", parameters=ARM,
    ),
    Operation(
        "POST", "/v1/rankers/{ranker}/import", import_, Need.ADMIN,
        body=SavedQuery, body_required=False, answer=Counted, parameters=ARM,
    ),
)  # fmt: skip
