"""Lists to show."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from driftrank.serve.api.described import answered, decoded, route
from driftrank.serve.service import Service
from driftrank.wire import RANK, RankRequest, RankResponse

_EXAMPLE = {"query": "running shoes", "items": ["a", "b", "c", "d", "e"], "k": 3, "event_id": "visit-1"}


def router(service: Service) -> APIRouter:
    async def rank(request: Request) -> Response:
        """The list to show for a query: which of these items, in which order.

        One request, or an array of them for an array of lists. The same event_id again: the same list again. An
        event_id also seeds the randomness of the list. k is how many are shown, at most the ranker's own. excluded
        keeps items out, pinned puts them at positions ({"a": 1}: at the top), baseline is your own order, for modes
        shadow and safe and for a holdout. With defer nothing is learnt before the list is activated.
        """
        said = decoded(RANK, await request.body())
        several = isinstance(said, list)
        lists = await service.rank(request.path_params["ranker"], said if several else [said])
        return answered(lists if several else lists[0])

    out = APIRouter(tags=["rank and learn"])
    route(
        out, "POST", "/v1/rankers/{ranker}/rank", rank, body=RankRequest | list[RankRequest],
        answer=RankResponse | list[RankResponse], example=_EXAMPLE,
    )  # fmt: skip
    return out
