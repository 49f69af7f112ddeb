"""Parameters of query strings, as the OpenAPI document describes them: they are checked by their schemas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.types import Scope

from driftrank.serve.problems import Refused

Parameters = Mapping[str, Mapping[str, Any]]

#: the largest number of an operation or a change
LARGEST = 2**53 - 1
#: parameters of pages, the latest first
BEFORE: Parameters = {
    "before": {
        "schema": {"type": "integer", "minimum": 1, "maximum": LARGEST},
        "description": "Begin before this number: the last of the page before. By default with the latest.",
    },
}


def check_names(scope: Scope, parameters: Parameters) -> None:
    """Raise if the query string has a parameter that is not one of these."""
    for name in QueryParams(scope["query_string"]):
        if name not in parameters:
            known = f"must be one of {', '.join(map(repr, parameters))}" if parameters else "there are no parameters"
            raise Refused(422, "Bad value", f"{name!r}: unknown parameter; {known}")


def limit(what: str, default: int = 100) -> Parameters:
    """The parameter that limits a page."""
    schema = {"type": "integer", "minimum": 1, "maximum": 1000, "default": default}
    return {"limit": {"schema": schema, "description": f"The maximum number of {what}."}}


def offset(what: str) -> Parameters:
    """The parameter that begins a page."""
    schema = {"type": "integer", "minimum": 0, "maximum": 10**9 - 1, "default": 0}
    return {"offset": {"schema": schema, "description": f"The number of {what} to leave out."}}


def choices(name: str, values: tuple[str, ...], description: str) -> Parameters:
    """A parameter that is one of these words, by default the first."""
    return {name: {"schema": {"type": "string", "enum": [*values], "default": values[0]}, "description": description}}


def integer(request: Request, parameters: Parameters, name: str) -> int:
    """The value of an integer with a default."""
    out = optional_integer(request, parameters, name)
    assert out is not None, "it has a default"
    return out


def optional_integer(request: Request, parameters: Parameters, name: str) -> int | None:
    schema = parameters[name]["schema"]
    value = request.query_params.get(name)
    if value is None:
        return schema.get("default")  # type: ignore[no-any-return]
    low, high = schema["minimum"], schema["maximum"]
    if not value.isascii() or not value.isdigit() or len(value) > 18 or not low <= int(value) <= high:
        raise Refused(422, "Bad value", f"{name}={value!r}: must be an integer from {low} to {high}")
    return int(value)


def time(request: Request, name: str) -> float | None:
    """The value of a time, in seconds since 1970; None if it is not given. Without a zone it is UTC."""
    value = request.query_params.get(name)
    if value is None:
        return None
    try:
        at = datetime.fromisoformat(value.replace(" ", "+"))  # a + that was not encoded
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise Refused(422, "Bad value", f"{name}={value!r}: must be a time such as 2026-01-31T12:00:00Z") from None


def choice(request: Request, parameters: Parameters, name: str) -> str:
    """The value of a parameter that is one of some words."""
    schema = parameters[name]["schema"]
    value = request.query_params.get(name, schema["default"])
    if value not in schema["enum"]:
        raise Refused(422, "Bad value", f"{name}={value!r}: must be one of {', '.join(map(repr, schema['enum']))}")
    return value  # type: ignore[no-any-return]
