"""What was learnt elsewhere: old click logs, and the states of other services."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.responses import StreamingResponse

from driftrank.serve.api.described import answered, decoded, route
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.transfer import Transfer
from driftrank.wire import Counted, SavedQuery, WarmRow

_ROWS = msgspec.json.Decoder(list[WarmRow])
_STATES = msgspec.json.Decoder(SavedQuery)
_EXAMPLE = [{"query": "running shoes", "ranking": ["a", "b", "c"], "clicks": [2]}]


def router(service: Service) -> APIRouter:
    transfer = Transfer(service)

    async def warmstart(request: Request) -> Response:
        """Learn from the lists of an old click log, in their order.

        Name the batch, and sending it again counts it once. Times (seconds since 1970) are used as they are where they
        are not in the future; without any, the lists count as of now.
        """
        rows = decoded(_ROWS, await request.body())
        counted = await transfer.warmstart(request.path_params["ranker"], rows, request.query_params.get("batch"))
        return answered(counted)

    async def export(request: Request) -> Response:
        """The state of every query, a JSON object on each line, for import."""
        name = request.path_params["ranker"]
        service.ranker(name)

        async def lines() -> AsyncIterator[bytes]:
            async for query, state in transfer.export(name):
                yield msgspec.json.encode(SavedQuery(query, base64.b64encode(state).decode())) + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def import_(request: Request) -> Response:
        """Take over the states of queries, as exported by a ranker of the same policy and k. Replaces what is there.

        The body is what export answered, line by line (curl --data-binary @FILE; -d would take the line ends out).
        Where it is longer than max_body, send some lines at a time, as the client does.
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
                raise Refused(422, "Bad value", f"line {n + 1}: state is no base64 ({error})") from None
        return answered(await transfer.import_(request.path_params["ranker"], states))

    out = APIRouter(tags=["transfer"])
    batch = {"batch": {"schema": {"type": "string"}, "description": "A name for these rows, to count them once."}}
    route(
        out, "POST", "/v1/rankers/{ranker}/warmstart", warmstart, body=list[WarmRow], answer=Counted,
        parameters=batch, example=_EXAMPLE,
    )  # fmt: skip
    route(out, "GET", "/v1/rankers/{ranker}/export", export, answer=SavedQuery, media="application/x-ndjson")
    route(out, "POST", "/v1/rankers/{ranker}/import", import_, body=SavedQuery, answer=Counted, may_be_empty=True)
    return out
