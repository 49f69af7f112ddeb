"""Rankers: what there is, how they are set."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from driftrank.serve.api.described import answered, decoded, route
from driftrank.serve.config import ranker_settings
from driftrank.serve.middleware import VISIBLE
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.wire import RankerInfo, RankerSettings

_SETTINGS = msgspec.json.Decoder(dict[str, Any])
_EXAMPLE = {"policy": "CascadeSWUCB:window=24h", "k": 5, "wait": "10m"}


def router(service: Service) -> APIRouter:
    async def rankers(request: Request) -> Response:
        """The rankers that the key opens."""
        visible = request.scope.get(VISIBLE)
        names = [name for name in service.ranker_names() if visible is None or name in visible]
        return answered([service.info(name) for name in names])

    async def ranker(request: Request) -> Response:
        """A ranker: its settings and what it did."""
        return answered(service.info(request.path_params["ranker"]))

    async def put_ranker(request: Request) -> Response:
        """Make a ranker, or change one.

        Settings that are not given are the defaults. Where policy, k, seed or horizon change, or the mode to or from
        safe, it starts to learn anew. mode: live ranks, shadow answers the baseline, safe stays near it. holdout: the
        share of lists that stay the baseline's. wait: how long a list waits for clicks; silence: what it means if none
        come; second_click: refuse (the first feedback counts) or update (clicks are collected until the wait is over).
        forget_items: items that no call has offered for so long are forgotten. Durations are seconds, or texts such as
        "30m", "24h", "7d".
        """
        try:  # as of a file: msgspec would not say which values there are
            settings = ranker_settings(decoded(_SETTINGS, await request.body()))
        except ValueError as error:
            raise Refused(422, "bad settings", str(error)) from None
        return answered(await service.put_ranker(request.path_params["ranker"], settings))

    async def delete_ranker(request: Request) -> Response:
        """Delete a ranker and all it has learnt."""
        await service.delete_ranker(request.path_params["ranker"])
        return Response(status_code=204)

    async def reset_ranker(request: Request) -> Response:
        """Forget what a ranker has learnt, of all queries."""
        await service.reset(request.path_params["ranker"])
        return Response(status_code=204)

    out = APIRouter(tags=["rankers"])
    route(out, "GET", "/v1/rankers", rankers, answer=list[RankerInfo])
    route(out, "GET", "/v1/rankers/{ranker}", ranker, answer=RankerInfo)
    # not the default one, which would forget what it knows because somebody tried an example
    other = {"ranker": "shop"}
    route(
        out, "PUT", "/v1/rankers/{ranker}", put_ranker, body=RankerSettings, answer=RankerInfo, example=_EXAMPLE,
        named=other,
    )  # fmt: skip
    route(out, "DELETE", "/v1/rankers/{ranker}", delete_ranker, status=204, named=other)
    route(out, "POST", "/v1/rankers/{ranker}/reset", reset_ranker, status=204)
    return out
