"""The calls of Azure Personalizer v1.0, so that its users change a URL and nothing else.

An event of Personalizer is a list of one: it learns about the action at the top alone, so one is chosen, and the
others stand below it for the eye. Rewards are numbers and clicks are not: a reward of 0.3 is a click with probability
0.3, drawn from the event's id, so that on average it is worth what it says, and is the same when it is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta, Struct

from driftrank.kernels.rng import key_of
from driftrank.serve.api.described import answered, decoded, route
from driftrank.serve.problems import Refused
from driftrank.serve.queries import Queries
from driftrank.serve.service import Service
from driftrank.wire import Feedback, Item, ItemId, RankRequest

_PATH = "/personalizer/v1.0"
#: features are looked for in namespaces in namespaces, but not without end
_DEEPEST = 8

_Id = Annotated[str, Meta(min_length=1, max_length=256)]


class Action(Struct, frozen=True):
    """Something to show. Its features are used where the ranker's policy looks at features and all are numbers."""

    id: _Id
    features: list[dict[str, Any]] | None = None


class PersonalizerRank(Struct, frozen=True, rename="camel"):
    """Which of these actions to show?"""

    actions: Annotated[list[Action], Meta(min_length=1, max_length=50)]
    context_features: list[dict[str, Any]] | None = None
    excluded_actions: list[str] | None = None
    event_id: _Id | None = None
    defer_activation: bool | None = False


class RankedAction(Struct, frozen=True):
    """An action and the probability of its being chosen."""

    id: str
    probability: float


class PersonalizerRanking(Struct, frozen=True, rename="camel"):
    """The action to show, and how all of them compare."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str


class Reward(Struct, frozen=True):
    """What showing the action was worth: from 0, nothing, to 1."""

    value: float


class PersonalizerError(Struct, frozen=True):
    """What was wrong."""

    code: str
    message: str


class PersonalizerProblem(Struct, frozen=True):
    """What was wrong, in Personalizer's form."""

    error: PersonalizerError


_RANK = msgspec.json.Decoder(PersonalizerRank)
_REWARD = msgspec.json.Decoder(Reward)
_EXAMPLE = {
    "contextFeatures": [{"device": "mobile"}, {"time": {"weekday": "monday"}}],
    "actions": [{"id": "pasta", "features": [{"taste": "salty"}]}, {"id": "salad", "features": [{"taste": "fresh"}]}],
    "eventId": "75269ad0-bfee-4598-8196-c57383d38e10",
}


def router(service: Service) -> APIRouter:
    queries = Queries(service)

    async def rank(request: Request) -> Response:
        """Choose an action, as Azure Personalizer does.

        Show the action that rewardActionId names, then send its reward. The ranker is the one that the server's setting
        personalizer names; those context features that its setting context names tell queries apart.
        """
        said: PersonalizerRank = decoded(_RANK, await request.body())
        name = service.settings.personalizer
        ranker = service.ranker(name)
        query = query_of(ranker.settings.context, said.context_features or [])
        excluded = set(said.excluded_actions or ())
        open_ = [action for action in said.actions if action.id not in excluded]
        items: list[ItemId | Item] = [action.id for action in said.actions]
        if ranker.policy.contextual and (rows := numbers_of([action.features or [] for action in open_])):
            by = dict(zip((action.id for action in open_), rows, strict=True))
            items = [Item(action.id, by[action.id]) for action in open_]
        wanted = RankRequest(
            query, items, k=1, event_id=said.event_id, excluded=list(excluded), defer=bool(said.defer_activation)
        )
        (answer,) = await service.rank(name, [wanted])
        chosen = answer.items[0]
        rest = [action.id for action in open_ if action.id != chosen.id]
        if len(rest) == len(open_):
            detail = f"eventId={answer.event_id!r}: was used before, and what was chosen then is not among the actions"
            raise Refused(409, "Event id taken", detail)
        p = chosen.propensity if isinstance(chosen.propensity, float) else 1.0
        left = max(0.0, 1.0 - p) / len(rest) if rest else 0.0
        below = [RankedAction(str(id_), left) for id_ in queries.best_first(name, query, rest)]
        order = iter([RankedAction(str(chosen.id), p), *below])
        # those excluded keep their places
        ranking = [RankedAction(a.id, 0.0) if a.id in excluded else next(order) for a in said.actions]
        return answered(PersonalizerRanking(ranking, answer.event_id, str(chosen.id)), 201)

    async def reward(request: Request) -> Response:
        """Say what showing the action was worth.

        The first reward of an event counts. A reward for an event that is not known, not activated, or over is accepted
        and changes nothing.
        """
        value = decoded(_REWARD, await request.body()).value
        name, event_id = service.settings.personalizer, request.path_params["event_id"]
        await service.feedback(name, [Feedback(event_id, [1] if is_click(name, event_id, value) else [])])
        return Response(status_code=204)

    async def activate(request: Request) -> Response:
        """Say that a deferred event was shown: the wait for its reward begins."""
        name = service.settings.personalizer
        service.ranker(name)
        try:
            await service.activate(request.path_params["event_id"], [name])
        except Refused as problem:
            if problem.status != 404:
                raise
        return Response(status_code=204)

    out = APIRouter(tags=["Azure Personalizer"])
    shape: dict[str, Any] = {
        "problems": (400, 401, 403, 404, 409, 413, 429, 503),
        "problem": PersonalizerProblem,
        "problem_media": "application/json",
        "named": {"event_id": _EXAMPLE["eventId"]},
    }
    route(
        out, "POST", f"{_PATH}/rank", rank, body=PersonalizerRank, answer=PersonalizerRanking, status=201,
        example=_EXAMPLE, **shape,
    )  # fmt: skip
    route(
        out, "POST", f"{_PATH}/events/{{event_id:path}}/reward", reward, body=Reward, status=204,
        example={"value": 1.0}, **shape,
    )  # fmt: skip
    route(out, "POST", f"{_PATH}/events/{{event_id:path}}/activate", activate, status=204, **shape)
    return out


def is_click(ranker: str, event_id: str, value: float) -> bool:
    """Whether a reward is a click: with a probability of its value, the same whenever it is asked.

    >>> [is_click("default", "e1", value) for value in (-1.0, 0.0, 0.1, 0.9, 1.0)]
    [False, False, False, True, True]
    """
    return (key_of(f"reward/{ranker}/{event_id}") >> 11) * 2.0**-53 < value


def query_of(names: Sequence[str], features: Sequence[dict[str, Any]]) -> str:
    """The query that the named features of a context stand for. One that is not there is empty.

    >>> query_of(["device", "time.weekday"], [{"device": "mobile"}, {"time": {"weekday": "monday", "hour": 7}}])
    'device=mobile|time.weekday=monday'
    """
    if not names:
        return ""
    found = _flat(features)
    return "|".join(f"{name}={_text(found.get(name))}" for name in names)


def numbers_of(features: Sequence[Sequence[dict[str, Any]]]) -> list[list[float]] | None:
    """Rows of numbers, in the order of the features' names; None where some are no numbers, or actions differ in names.

    >>> numbers_of([[{"price": 3, "size": {"cm": 10.5}}], [{"size": {"cm": 8}}, {"price": 2}]])
    [[3.0, 10.5], [2.0, 8.0]]
    """
    named = [dict(_leaves(given)) for given in features]
    names = sorted(named[0]) if named else []
    if not names or any(sorted(row) != names for row in named):
        return None
    if any(not isinstance(value, int | float) for row in named for value in row.values()):
        return None
    try:
        return [[float(row[name]) for name in names] for row in named]
    except OverflowError:  # integers of hundreds of digits
        return None


def _flat(features: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Values by name: as "name" and as "namespace.name". Of several of a name, the one least deep, then the first."""
    out: dict[str, Any] = {}
    short: dict[str, Any] = {}
    for path, value in _leaves(features):
        out.setdefault(path, value)
        short.setdefault(path.rpartition(".")[2], value)
    return short | out


def _leaves(features: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Paths and values, those less deep first."""
    out: list[tuple[str, Any]] = []
    level = [("", part) for part in features]
    for _ in range(_DEEPEST):
        below: list[tuple[str, dict[str, Any]]] = []
        for prefix, part in level:
            for name, value in part.items():
                if isinstance(value, dict):
                    below.append((f"{prefix}{name}.", value))
                else:
                    out.append((f"{prefix}{name}", value))
        level = below
    return out


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text.replace("%", "%25").replace("|", "%7C")  # so that no two contexts are the same query
