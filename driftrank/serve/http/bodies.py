"""Bodies of requests and answers: JSON, by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from driftrank import wire
from driftrank.serve.http.operation import JSON
from driftrank.serve.problems import Refused

_JSON_TYPE = (b"content-type", JSON.encode())


class WholeBody(Request):
    """A request whose body is read without Starlette's generators, which take longer than decoding it."""

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            pieces, more = [], True
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                pieces.append(message.get("body", b""))
                more = message.get("more_body", False)
            self._body = b"".join(pieces)
        return self._body


class _JSONResponse(Response):
    """An encoded answer, with no other headers."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), _JSON_TYPE]


def json_response(value: Any, status: int = 200) -> Response:
    return _JSONResponse(wire.ENCODER.encode(value), status)


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
