"""Bodies of requests and answers: JSON, by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from driftrank import wire
from driftrank.serve.http.operation import JSON
from driftrank.serve.http.problems import Refused


def json_response(value: Any, status: int = 200) -> Response:
    return Response(wire.ENCODER.encode(value), status, media_type=JSON)


def no_content() -> Response:
    return Response(status_code=204)


def decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    """The decoded body. Raises ``Refused``: 400 if it is not JSON, 422 if a value is wrong."""
    if not body:
        raise Refused(400, "Not JSON", "the body is empty")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(422, "Bad value", str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "Not JSON", str(error)) from None
