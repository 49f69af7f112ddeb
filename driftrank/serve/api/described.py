"""Routes that are described for people and tools, and decoded and encoded by msgspec.

FastAPI's own way, with models of pydantic, takes half as long again for a request. So routes take the plain request,
and this says in OpenAPI what FastAPI would have worked out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute

from driftrank import wire
from driftrank.serve.problems import MEDIA_TYPE, wrong_body

Handler = Callable[[Request], Awaitable[Response]]

#: the types that some route speaks of
_types: dict[Any, None] = {wire.Problem: None}

_REF = "#/components/schemas/{name}"
_JSON = "application/json"
_PARAMETERS: dict[str, dict[str, Any]] = {
    "ranker": {"schema": {"type": "string"}, "description": "The name of a ranker.", "example": "default"},
    "query": {
        "schema": {"type": "string"},
        "description": "A query; it may have slashes in it.",
        "example": "running shoes",
    },
    "event_id": {"schema": {"type": "string"}, "description": "The id of a list.", "example": "visit-1"},
}
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
#: what any route may answer: bad requests, keys, limits, a store that fails
_ALWAYS = (400, 401, 403, 404, 409, 413, 422, 429, 503)


class _Plain(APIRoute):
    """A route whose handler takes the request and gives the response; FastAPI's way to it takes 28 microseconds."""

    def get_route_handler(self) -> Any:
        return self.endpoint


def route(
    router: APIRouter,
    method: str,
    path: str,
    handler: Handler,
    *,
    body: Any = None,
    answer: Any = None,
    status: int = 200,
    media: str = _JSON,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    example: Any = None,
    named: Mapping[str, str] | None = None,
    problems: Sequence[int] = _ALWAYS,
    problem: Any = wire.Problem,
    problem_media: str = MEDIA_TYPE,
    also: Mapping[int, Any] | None = None,
    free: bool = False,
    may_be_empty: bool = False,
) -> None:
    """Add a route; the handler's docstring is what people read of it.

    ``also`` are answers that go with statuses of problems and are none; ``free`` routes need no key. A body that
    ``may_be_empty`` says that there is nothing. Examples can be sent as they are, in the order of the page; ``named``
    are those of the path that are not the usual ones.
    """
    summary, _, text = (handler.__doc__ or "").strip().partition("\n")
    extra: dict[str, Any] = {"parameters": []}
    for name in ("ranker", "query", "event_id"):
        if "{" + name in path:
            shown = {"example": named[name]} if named and name in named else {}
            extra["parameters"].append({"name": name, "in": "path", "required": True, **_PARAMETERS[name], **shown})
    for name, described in (parameters or {}).items():
        extra["parameters"].append({"name": name, "in": "query", "required": False, **described})
    if body is not None:
        content: dict[str, Any] = {"schema": _schema(body)}
        if example is not None:
            content["example"] = example
        extra["requestBody"] = {"required": not may_be_empty, "content": {_JSON: content}}
    responses: dict[int | str, dict[str, Any]] = {
        number: {"description": HTTPStatus(number).phrase, "content": {problem_media: {"schema": _schema(problem)}}}
        for number in problems
    }
    for number, kind in (also or {}).items():
        responses[number]["content"][_JSON] = {"schema": _schema(kind)}
    if free:
        extra["security"] = []
    good: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if answer is not None:
        good["content"] = {media: {"schema": _schema(answer)}}
    responses[status] = good
    router.add_api_route(
        path, handler, methods=[method], status_code=status, responses=responses, openapi_extra=extra,
        summary=summary.rstrip("."), description=" ".join(text.split()) or None, response_class=Response,
        route_class_override=_Plain,
    )  # fmt: skip


def describe(app: FastAPI, *, keys: bool) -> None:
    """Have the application's OpenAPI document speak of msgspec's types, and of keys where they are needed, too."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = made()
            _, schemas = msgspec.json.schema_components(list(_types), ref_template=_REF)
            document.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
            document["components"]["securitySchemes"] = _KEYS
            document["security"] = [{name: []} for name in _KEYS] + ([] if keys else [{}])
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def answered(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(wire.ENCODER.encode(value), status, media_type=_JSON)


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """A body, or the problem with it."""
    if not body:
        raise wrong_body(msgspec.DecodeError("the body is empty"))
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise wrong_body(error) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise wrong_body(msgspec.DecodeError(str(error))) from None


def _schema(kind: Any) -> dict[str, Any]:
    _types[kind] = None
    (out,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
    return dict(out)
