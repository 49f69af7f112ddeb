"""The OpenAPI document of the route table. The schemas are msgspec's, the descriptions of fields their comments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from importlib import resources
from typing import Any, get_args, get_type_hints

import msgspec

import driftrank
from driftrank import wire
from driftrank.serve.http.limits import Limit, Limits, field_limits, path_limits, restrict
from driftrank.serve.http.operation import JSON, Need, Operation

_INFO = {
    "title": "driftrank",
    "version": driftrank.__version__,
    "description": """Ranks items, learns from clicks, and adapts when users change their minds.

Send **rank** with a query and candidates, show the ranking, send **feedback** with the clicks.
""",
}
#: answers of a server to the examples of requests, in their order; by operation
_EXAMPLES: dict[str, Any] = msgspec.json.decode((resources.files(__package__) / "examples.json").read_bytes())
_REF = "#/components/schemas/{name}"
_PARAMETERS: dict[str, dict[str, Any]] = {
    "ranker": {"schema": {"type": "string"}, "description": "The name of a ranker.", "example": "default"},
    "query": {
        "schema": {"type": "string"},
        "description": "A query; it may contain slashes.",
        "example": "running shoes",
    },
    "number": {"schema": {"type": "integer"}, "description": "The number of an operation.", "example": 1},
    "event_id": {"schema": {"type": "string"}, "description": "The id of a ranking.", "example": "example-1"},
}
_KEYS = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def document(operations: Sequence[Operation], limits: Limits, *, keys: bool) -> dict[str, Any]:
    """The document of a server with these limits; ``keys``: it requires keys."""
    schemas = _Schemas(limits)
    paths: dict[str, dict[str, Any]] = {}
    tags: dict[str, None] = {}
    for operation in operations:
        if operation.documented:
            path = re.sub(r":path}", "}", operation.path)
            paths.setdefault(path, {})[operation.method.lower()] = _described(operation, path, schemas)
            tags[operation.tag] = None
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": schemas.components(), "securitySchemes": _KEYS},
        "tags": [{"name": tag} for tag in tags],
        "security": [{name: []} for name in _KEYS] + ([] if keys else [{}]),
    }


class _Schemas:
    """The schemas of the types that the operations use."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._types: dict[Any, None] = {wire.Problem: None}

    def of(self, kind: Any) -> dict[str, Any]:
        self._types[kind] = None
        (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REF)
        return {"schema": schema}

    def components(self) -> dict[str, Any]:
        out = msgspec.json.schema_components(list(self._types), ref_template=_REF)[1]
        for kind in {struct for used in self._types for struct in _structs(used)}:
            comments = field_comments(kind)
            for name, field in zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True):
                if field in comments:
                    out[kind.__name__]["properties"][name]["description"] = comments[field]
        for type_name, fields in field_limits(self.limits).items():
            for name, limit in fields.items() if type_name in out else ():
                restrict(out[type_name]["properties"][name], limit)
        return out


def _structs(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """The structs of a type, and of their fields."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _structs(hint)
    for argument in get_args(kind):
        yield from _structs(argument)


def field_comments(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The comments ``#:`` of fields, above them or at the end of their line.

    >>> field_comments(wire.Counted)["duplicates"]
    'those of a batch that was sent before'
    """
    out: dict[str, str] = {}
    comments: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        code, _, comment = line.partition("#:")
        if comment:
            comments.append(comment.strip())
        if code.strip():
            field = re.match(r" +(\w+): ", code)
            if field and comments:
                out[field[1]] = " ".join(comments)
            comments = []
    return out


def _described(operation: Operation, path: str, schemas: _Schemas) -> dict[str, Any]:
    text = (operation.handler.__doc__ or "").strip()
    summary, _, details = text.partition("\n")
    return {
        "tags": [operation.tag],
        "summary": summary.rstrip("."),
        "description": " ".join(details.split()) or text,
        "operationId": _id(operation),
        "parameters": _parameters(operation, path, path_limits(schemas.limits)),
        **_request_body(operation, schemas),
        "responses": _responses(operation, schemas),
        **({"security": []} if operation.need is Need.NOTHING else {}),
    }


def _id(operation: Operation) -> str:
    return operation.handler.__name__.rstrip("_")


def _parameters(operation: Operation, path: str, limits: Mapping[str, Limit]) -> list[dict[str, Any]]:
    out = []
    for name, described in _PARAMETERS.items():
        if f"{{{name}}}" in path:
            example = (operation.path_examples or {}).get(name, described["example"])
            schema = dict(described["schema"])
            restrict(schema, limits[name])
            about = {"schema": schema, "description": described["description"], "example": example}
            out.append({"name": name, "in": "path", "required": True, **about})
    for name, given in (operation.parameters or {}).items():
        out.append({"name": name, "in": "query", "required": False, **given})
    return out


def _request_body(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    if operation.body is None:
        return {}
    content = schemas.of(operation.body) | ({} if operation.example is None else {"example": operation.example})
    return {"requestBody": {"required": operation.body_required, "content": {JSON: content}}}


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    out: dict[int, dict[str, Any]] = {operation.status: {"description": HTTPStatus(operation.status).phrase}}
    if operation.answer is not None:
        name = _id(operation)
        example = {"example": _EXAMPLES[name]} if name in _EXAMPLES else {}
        out[operation.status]["content"] = {operation.media: schemas.of(operation.answer) | example}
    for status in operation.problems:
        content = {operation.problem_media: schemas.of(operation.problem)}
        out[status] = {"description": HTTPStatus(status).phrase, "content": content}
    for status, kind in (operation.also or {}).items():
        out[status]["content"][JSON] = schemas.of(kind)
    return {str(status): response for status, response in out.items()}
