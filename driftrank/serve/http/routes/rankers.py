"""Rankers and their settings."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import decoded, json_response, no_content
from driftrank.serve.http.endpoint import VISIBLE
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.http.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.settings import ranker_settings
from driftrank.wire import RankerInfo, RankerSettings

TAG = "rankers"
_SETTINGS = msgspec.json.Decoder(dict[str, Any])
_EXAMPLE = {"policy": "CascadeSWUCB:window=24h", "k": 5, "wait": "10m"}
#: not the default ranker, which would forget what it has learnt because somebody tried an example
_OTHER = {"ranker": "shop"}


async def rankers(service: Service, request: Request) -> Response:
    """List the rankers that the key has access to."""
    visible = request.scope[VISIBLE]
    names = [name for name in service.ranker_names() if visible is None or name in visible]
    return json_response([service.info(name) for name in names])


async def ranker(service: Service, request: Request) -> Response:
    """Return a ranker's settings and counts."""
    return json_response(service.info(request.path_params["ranker"]))


async def put_ranker(service: Service, request: Request) -> Response:
    """Create a ranker, or change its settings.

    Settings that are not given have their defaults. If policy, k, seed or horizon change, or the mode to or from safe,
    learning starts again. mode: live ranks, shadow returns the baseline, safe stays near it. holdout: the share of
    rankings that are the baseline's. wait: the feedback window of a ranking; silence: the meaning of no feedback
    within it; second_click: refuse (the first feedback counts) or update (clicks are collected until the window ends).
    forget_items: items that were not offered for this long are forgotten. Durations are seconds, or strings such as
    "30m", "24h", "7d".
    """
    try:  # as from a file: msgspec's own errors would not list the allowed values
        settings = ranker_settings(decoded(_SETTINGS, await request.body()))
    except ValueError as error:
        raise Refused(422, "bad settings", str(error)) from None
    return json_response(await service.put_ranker(request.path_params["ranker"], settings))


async def delete_ranker(service: Service, request: Request) -> Response:
    """Delete a ranker and all that it has learnt."""
    await service.delete_ranker(request.path_params["ranker"])
    return no_content()


async def reset_ranker(service: Service, request: Request) -> Response:
    """Forget what a ranker has learnt about all queries."""
    await service.reset(request.path_params["ranker"])
    return no_content()


ROUTES = (
    Operation("GET", "/v1/rankers", rankers, Need.ANY, answer=list[RankerInfo]),
    Operation("GET", "/v1/rankers/{ranker}", ranker, Need.RANKER, answer=RankerInfo),
    Operation(
        "PUT", "/v1/rankers/{ranker}", put_ranker, Need.ADMIN,
        body=RankerSettings, answer=RankerInfo, example=_EXAMPLE, path_examples=_OTHER,
    ),
    Operation("DELETE", "/v1/rankers/{ranker}", delete_ranker, Need.ADMIN, status=204, path_examples=_OTHER),
    Operation("POST", "/v1/rankers/{ranker}/reset", reset_ranker, Need.ADMIN, status=204),
)  # fmt: skip
