"""The calls of Azure Personalizer v1.0, so that its users change a URL and nothing else.

An event of Personalizer is a ranking with one position: it learns about the top action only, so one is chosen, and the
others below it are for display. Rewards are numbers, clicks are not: a reward of 0.3 is a click with probability 0.3,
drawn from the event's id, so that its expectation is the reward, and it is the same when it is sent again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from driftrank.kernels.rng import key_of
from driftrank.policies.learner.named import leaves
from driftrank.serve.http.bodies import decoded, json_response, no_content
from driftrank.serve.http.operation import JSON, Need, Operation
from driftrank.serve.http.problems import Refused
from driftrank.serve.http.routes.rank import has_gone
from driftrank.serve.introspection import Introspection
from driftrank.serve.service import Service
from driftrank.wire import Clicked, Feedback, Item, RankRequest

TAG = "Azure Personalizer"
_PATH = "/personalizer/v1.0"
#: the depth to which nested namespaces are searched for features
_MAX_DEPTH = 8
#: the most notes on features of other kinds
_MOST_NOTES = 3

_Id = Annotated[str, Meta(min_length=1, max_length=256)]


class Action(Struct, frozen=True):
    """Something to show, and its features, by name."""

    id: _Id
    features: list[dict[str, Any]] | None = None


class PersonalizerRank(Struct, frozen=True, rename="camel"):
    """The actions to choose from."""

    actions: Annotated[list[Action], Meta(min_length=1, max_length=50)]
    context_features: list[dict[str, Any]] | None = None
    excluded_actions: list[str] | None = None
    event_id: _Id | None = None
    defer_activation: bool | None = False


class RankedAction(Struct, frozen=True):
    """An action and the probability that it is chosen."""

    id: str
    probability: float


class PersonalizerRanking(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The action to show, and the ranking of all actions."""

    ranking: list[RankedAction]
    event_id: str
    reward_action_id: str
    notes: list[str] = []  #: what was sent and is not used, and why; not in Personalizer


class Reward(Struct, frozen=True):
    """The value of showing the action, from 0 to 1."""

    value: float


class PersonalizerError(Struct, frozen=True):
    """An error."""

    code: str
    message: str


class PersonalizerProblem(Struct, frozen=True):
    """An error, in the form of Personalizer."""

    error: PersonalizerError


_RANK = msgspec.json.Decoder(PersonalizerRank)
_REWARD = msgspec.json.Decoder(Reward)
_EXAMPLE = {
    "contextFeatures": [{"device": "mobile"}, {"time": {"weekday": "monday"}}],
    "actions": [{"id": "pasta", "features": [{"taste": "salty"}]}, {"id": "salad", "features": [{"taste": "fresh"}]}],
    "eventId": "75269ad0-bfee-4598-8196-c57383d38e10",
}


async def rank(service: Service, request: Request) -> Response:
    """Choose an action, as Azure Personalizer does.

    Show the action named by rewardActionId, then send its reward. The server's setting personalizer names the ranker;
    the ranker's setting context names the context features that identify a query.
    """
    given: PersonalizerRank = decoded(_RANK, await request.body())
    name = service.settings.personalizer
    ranker = service.ranker(name)
    query = query_of(ranker.settings.context, given.context_features or [])
    excluded = set(given.excluded_actions or ())
    candidates = [action for action in given.actions if action.id not in excluded]
    most = service.settings.max_features
    notes: list[str] = []
    context = usable("contextFeatures", given.context_features, most, notes)
    if ranker.settings.context and not ranker.policy.shares:
        context = None  # it is used: it names the query
    items = [Item(action.id, usable("features", action.features, most, notes)) for action in given.actions]
    wanted = RankRequest(
        query, [*items], k=1, event_id=given.event_id, excluded=list(excluded), defer=bool(given.defer_activation),
        context=context,
    )  # fmt: skip
    (answer,) = await service.rank(name, [wanted], lenient=True)
    event_id = answer.event_id or given.event_id or str(uuid.uuid4())  # rewards of unknown events are ignored
    service.answered(name, [answer], delivered=not has_gone(request))
    chosen = answer.items[0]
    rest = [item for item in items if item.id not in excluded and item.id != chosen.id]
    if len(rest) == len(candidates):
        detail = f"eventId={answer.event_id!r}: was used before, and the action chosen then is not among the actions"
        raise Refused(409, "Event id taken", detail)
    p = chosen.propensity if isinstance(chosen.propensity, float) else 1.0
    left = max(0.0, 1.0 - p) / len(rest) if rest else 0.0
    below = [RankedAction(str(id_), left) for id_ in Introspection(service).best_first(name, query, rest, context)]
    order = iter([RankedAction(str(chosen.id), p), *below])
    # excluded actions keep their places
    ranking = [RankedAction(a.id, 0.0) if a.id in excluded else next(order) for a in given.actions]
    service.count_ignored(ranker, notes)
    notes += answer.notes
    return json_response(PersonalizerRanking(ranking, event_id, str(chosen.id), notes), 201)


async def reward(service: Service, request: Request) -> Response:
    """Report the value of showing the action.

    The first reward of an event counts. A reward for an event that is unknown, not activated, or over is accepted and
    ignored.
    """
    value = decoded(_REWARD, await request.body()).value
    name, event_id = service.settings.personalizer, request.path_params["event_id"]
    await service.feedback(name, [Feedback(event_id, [Clicked(position=1)] if is_click(name, event_id, value) else [])])
    return no_content()


async def activate(service: Service, request: Request) -> Response:
    """Activate a deferred event that was shown: its feedback window begins."""
    name = service.settings.personalizer
    service.ranker(name)
    try:
        await service.activate(request.path_params["event_id"], [name])
    except Refused as problem:
        if problem.status != 404:
            raise
    return no_content()


_SHAPE: dict[str, Any] = {
    "problems": (400, 401, 403, 404, 409, 413, 429, 503),
    "problem": PersonalizerProblem,
    "problem_media": JSON,
    "path_examples": {"event_id": _EXAMPLE["eventId"]},
}
ROUTES = (
    Operation(
        "POST", f"{_PATH}/rank", rank, Need.RANKER, "rank",
        body=PersonalizerRank, answer=PersonalizerRanking, status=201, example=_EXAMPLE, **_SHAPE,
    ),
    Operation(
        "POST", f"{_PATH}/events/{{event_id:path}}/reward", reward, Need.RANKER, "feedback",
        body=Reward, status=204, example={"value": 1.0}, **_SHAPE,
    ),
    Operation("POST", f"{_PATH}/events/{{event_id:path}}/activate", activate, Need.RANKER, status=204, **_SHAPE),
)  # fmt: skip


def is_click(ranker: str, event_id: str, value: float) -> bool:
    """True if a reward is a click: with the probability of its value, always the same for an event.

    >>> [is_click("default", "e1", value) for value in (-1.0, 0.0, 0.1, 0.9, 1.0)]
    [False, False, False, True, True]
    """
    return (key_of(f"reward/{ranker}/{event_id}") >> 11) * 2.0**-53 < value


def query_of(names: Sequence[str], features: Sequence[dict[str, Any]]) -> str:
    """The query that the named features of a context identify. A missing feature is empty.

    >>> query_of(["device", "time.weekday"], [{"device": "mobile"}, {"time": {"weekday": "monday", "hour": 7}}])
    'device=mobile|time.weekday=monday'
    """
    if not names:
        return ""
    found = _flat(features)
    return "|".join(f"{name}={_text(found.get(name))}" for name in names)


def usable(what: str, features: Sequence[dict[str, Any]] | None, most: int, notes: list[str]) -> dict[str, Any] | None:
    """The features that can be used, by their full names, at most so many; Personalizer takes any.

    >>> usable("features", [{"price": 3, "sizes": [1, 2]}, {"shop": {"open": True}}], 256, [])
    {'price': 3, 'shop.open': True}
    """
    wrong: list[str] = []
    out: dict[str, Any] = {}
    for name, value in leaves(what, features or [], wrong.append):
        n = len(value) if isinstance(value, list) else 1
        if n > most:
            wrong.append(f"{what}: {name!r} is one too many")
        elif name not in out:
            out[name] = value
            most -= n
    if wrong and len(notes) < _MOST_NOTES:
        notes.append(f"{wrong[0]}; ignored")
    return out or None


def _flat(features: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Values by "name" and by "namespace.name"; of several with the same name the least deep, then the first."""
    out: dict[str, Any] = {}
    short: dict[str, Any] = {}
    for path, value in _leaves(features):
        out.setdefault(path, value)
        short.setdefault(path.rpartition(".")[2], value)
    return short | out


def _leaves(features: Sequence[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Paths and values, the least deep first."""
    out: list[tuple[str, Any]] = []
    level = [("", part) for part in features]
    for _ in range(_MAX_DEPTH):
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
    return text.replace("%", "%25").replace("|", "%7C")  # so that two contexts are never the same query
