"""Rankings."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import decoded, json_response
from driftrank.serve.http.endpoint import HEADERS, count_array
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.service import Service
from driftrank.wire import RANK, RankRequest, RankResponse

TAG = "rank and learn"
_EXAMPLE = {"query": "running shoes", "items": ["a", "b", "c", "d", "e"], "k": 3, "event_id": "example-1"}


async def rank(service: Service, request: Request) -> Response:
    """Rank the items for a query.

    One request, or an array of them for an array of rankings. A repeated event_id returns the same ranking, and 409 if
    query, items, k or offset are others. The event_id also seeds the ranking's randomness, unless draw numbers it, as
    simulations do. k is the number of positions, at most the ranker's own. excluded
    removes items, pinned puts them at positions ({"a": 1}: at the top), baseline is your own order, for the modes
    shadow and safe and for a holdout. With defer nothing is learnt before the ranking is activated. subject is an id of
    the user or session: it decides on holdout and arm, and gets the same list again for as long as the ranker's setting
    stable; offset asks for a further page of that list. Only a hash of it is stored. While the
    service is starting, or cannot write to its store, the answer is the baseline, marked as degraded, with an empty
    event_id; with the header Prefer: handling=strict it is 503 instead.
    """
    wanted = decoded(RANK, await request.body())
    name = request.path_params["ranker"]
    lenient = request.scope[HEADERS].get(b"prefer") != b"handling=strict"
    if isinstance(wanted, list):
        count_array(request, len(wanted))
    requests = wanted if isinstance(wanted, list) else [wanted]
    rankings = await service.rank(name, requests, lenient=lenient, has_gone=partial(has_gone, request))
    service.answered(name, rankings, delivered=not has_gone(request))
    return json_response(rankings if isinstance(wanted, list) else rankings[0])


def has_gone(request: Request) -> bool:
    """True if the client has closed the connection. Does not wait: one step of ``receive`` tells."""
    step = request.receive().__await__()
    try:
        step.send(None)
    except StopIteration as message:
        return bool(message.value["type"] == "http.disconnect")
    finally:
        step.close()
    return False


ROUTES = (
    Operation(
        "POST", "/v1/rankers/{ranker}/rank", rank, Need.RANKER, "rank",
        body=RankRequest | list[RankRequest], answer=RankResponse | list[RankResponse], example=_EXAMPLE,
    ),
)  # fmt: skip
