"""Rankings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import decoded, json_response
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.service import Service
from driftrank.wire import RANK, RankRequest, RankResponse

TAG = "rank and learn"
_EXAMPLE = {"query": "running shoes", "items": ["a", "b", "c", "d", "e"], "k": 3, "event_id": "example-1"}


async def rank(service: Service, request: Request) -> Response:
    """Rank the items for a query.

    One request, or an array of them for an array of rankings. A repeated event_id returns the same ranking, and 409 if
    query, items or k are others. The event_id also seeds the ranking's randomness, unless draw numbers it, as
    simulations do. k is the number of positions, at most the ranker's own. excluded
    removes items, pinned puts them at positions ({"a": 1}: at the top), baseline is your own order, for the modes
    shadow and safe and for a holdout. With defer nothing is learnt before the ranking is activated.
    """
    wanted = decoded(RANK, await request.body())
    name = request.path_params["ranker"]
    if isinstance(wanted, list):
        return json_response(await service.rank(name, wanted))
    (ranking,) = await service.rank(name, [wanted])
    return json_response(ranking)


ROUTES = (
    Operation(
        "POST", "/v1/rankers/{ranker}/rank", rank, Need.RANKER, "rank",
        body=RankRequest | list[RankRequest], answer=RankResponse | list[RankResponse], example=_EXAMPLE,
    ),
)  # fmt: skip
