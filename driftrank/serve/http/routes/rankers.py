"""Rankers and their settings."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from driftrank.serve.http.bodies import decoded, json_response, no_content
from driftrank.serve.http.endpoint import VISIBLE, caller
from driftrank.serve.http.operation import Need, Operation
from driftrank.serve.operations.undo import undo
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.settings.load import ranker_settings
from driftrank.wire import RankerInfo, RankerSettings

TAG = "rankers"
_SETTINGS = msgspec.json.Decoder(dict[str, Any])
_EXAMPLE = {"policy": "CascadeSWUCB:window=24h", "k": 5, "wait": "10m"}
#: not the default ranker, which would forget what it has learnt because somebody tried an example
_OTHER = {"ranker": "shop"}
_DISCARD = {"discard": {"schema": {"type": "boolean"}, "description": "Discard what was learnt, if need be."}}


async def rankers(service: Service, request: Request) -> Response:
    """List the rankers that the key has access to."""
    visible = request.scope[VISIBLE]
    names = [name for name in service.ranker_names() if visible is None or name in visible]
    return json_response([service.info(name) for name in names])


async def ranker(service: Service, request: Request) -> Response:
    """Return a ranker's settings and counts."""
    return json_response(service.info(request.path_params["ranker"]))


async def put_ranker(service: Service, request: Request) -> Response:
    """Create a ranker, or replace its settings.

    Settings that are not given have their defaults; PATCH changes some and keeps the others. If policy, seed or horizon
    change, or the mode to or from safe, or k grows with one of the few policies that cannot keep it, a ranker that has
    learnt something would begin again: the answer is 409 unless discard is true. mode: live ranks, shadow returns the
    baseline, safe stays near it. holdout: the share of rankings that are the baseline's. wait: the feedback window of a
    ranking; silence: the meaning of no feedback within it; second_click: refuse (the first feedback counts) or update
    (clicks are collected until the window ends). forget_items: items that were not offered for this long are forgotten.
    arms: policies or settings to be compared with the ranker's own, each with a share of the rankings and learners of
    its own; shares may change and arms be added, to remove one that has learnt something needs discard. values: what
    kinds of events are worth. stable: how long a subject gets the same list again. planned: the rankings after which
    the intervals of the experiment are narrowest. explore: the temperature of a softmax by rank through which lists are
    shown, so that their probabilities are known and recorded; 0, the default, shows them as ranked, 0.5 changes little;
    the answer has the price. Durations are seconds, or strings such as "30m", "24h", "7d".
    """
    settings, _ = await _settings(request)
    name, by = request.path_params["ranker"], caller(request)
    return json_response(await service.put_ranker(name, settings, discard=_discard(request), by=by))


async def patch_ranker(service: Service, request: Request) -> Response:
    """Change some settings of a ranker; the others stay. See PUT for what may need discard."""
    settings, given = await _settings(request)
    changes = {name: getattr(settings, name) for name in given}
    name, by = request.path_params["ranker"], caller(request)
    return json_response(await service.patch_ranker(name, changes, discard=_discard(request), by=by))


async def _settings(request: Request) -> tuple[RankerSettings, list[str]]:
    """The settings of a body, and the names that it contains."""
    given = decoded(_SETTINGS, await request.body())
    try:  # as from a file: msgspec's own errors would not list the allowed values
        return ranker_settings(given), list(given)
    except ValueError as error:
        raise Refused(422, "Bad settings", str(error)) from None


def _discard(request: Request) -> bool:
    given = request.query_params.get("discard", "false")
    if given not in ("true", "false"):
        raise Refused(422, "Bad value", f"discard={given!r}: must be true or false")
    return given == "true"


async def delete_ranker(service: Service, request: Request) -> Response:
    """Delete a ranker and all that it has learnt."""
    await service.delete_ranker(request.path_params["ranker"], by=caller(request))
    return no_content()


async def reset_ranker(service: Service, request: Request) -> Response:
    """Forget what a ranker has learnt about all queries."""
    await service.reset(request.path_params["ranker"], by=caller(request))
    return no_content()


async def undo_operation(service: Service, request: Request) -> Response:
    """Undo an operation: the ranker, or its query, is again what it was before.

    What was learnt since is discarded. The answer is 409 if records from before the operation are no longer in the log.
    """
    number = request.path_params["number"]
    if not number.isascii() or not number.isdigit() or len(number) > 18:
        raise Refused(422, "Bad value", f"number={number!r}: must be the number of an operation")
    return json_response(await undo(service, request.path_params["ranker"], int(number), caller(request)))


ROUTES = (
    Operation("GET", "/v1/rankers", rankers, Need.ANY, answer=list[RankerInfo]),
    Operation("GET", "/v1/rankers/{ranker}", ranker, Need.RANKER, answer=RankerInfo),
    Operation(
        "PUT", "/v1/rankers/{ranker}", put_ranker, Need.ADMIN,
        body=RankerSettings, answer=RankerInfo, example=_EXAMPLE, path_examples=_OTHER, parameters=_DISCARD,
    ),
    Operation(
        "PATCH", "/v1/rankers/{ranker}", patch_ranker, Need.ADMIN,
        body=RankerSettings, answer=RankerInfo, example={"holdout": 0.05}, path_examples=_OTHER, parameters=_DISCARD,
    ),
    Operation(
        "POST", "/v1/rankers/{ranker}/operations/{number}/undo", undo_operation, Need.ADMIN, answer=RankerInfo
    ),
    Operation("DELETE", "/v1/rankers/{ranker}", delete_ranker, Need.ADMIN, status=204, path_examples=_OTHER),
    Operation("POST", "/v1/rankers/{ranker}/reset", reset_ranker, Need.ADMIN, status=204),
)  # fmt: skip
