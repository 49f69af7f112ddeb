from __future__ import annotations

import asyncio
import base64
import dataclasses
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from driftrank.serve.access.keys import hashed
from driftrank.serve.app import build
from driftrank.serve.http.endpoint import VISIBLE
from driftrank.serve.http.operation import Handler, Need, Operation
from driftrank.serve.http.routes import table
from driftrank.serve.monitoring.logging import JsonFormatter
from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.problems import Refused
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import RankerSettings

# the same in every process that runs tests: they are in the names of tests
ADMIN = "dr_" + "a" * 32
ADMIN_HASH = hashed(ADMIN)
SHOP = "dr_" + "s" * 32
SHOP_HASH = hashed(SHOP)
RANKERS = {"shop": RankerSettings(keys=[SHOP_HASH]), "default": RankerSettings()}
REUSED = [(b"content-type", b"text/plain"), (b"content-length", b"2")]


async def echo(service: Any, request: Request) -> Response:
    body = await request.body()
    seen = request.scope.get(VISIBLE, "not set")
    return Response(json.dumps([len(body), sorted(seen) if isinstance(seen, frozenset) else seen]))


async def bug(service: Any, request: Request) -> Response:
    raise ZeroDivisionError("a secret of ours")


async def full(service: Any, request: Request) -> Response:
    raise Refused(503, "Store full", "no room left", {"Retry-After": "5"})


async def reused(service: Any, request: Request) -> Response:
    response = Response(b"ok")
    response.raw_headers = REUSED
    return response


async def breaks(service: Any, request: Request) -> Response:
    async def parts() -> AsyncIterator[bytes]:
        yield b"begun"
        raise ZeroDivisionError

    return StreamingResponse(parts())


#: handlers for what goes wrong, at paths of their own
WRONG: tuple[Handler, ...] = (bug, full, reused, breaks)


class Service:
    """The application with the real route table, whose handlers return the length of the body."""

    def __init__(self, admin: str | None = None, **how: Any) -> None:
        self.metrics = Metrics()
        self.draining = False
        self.position = None
        self.settings = ServerSettings(admin_key=admin, max_body=1000, **how)
        operations = [dataclasses.replace(operation, handler=echo) for operation in table()]
        operations += [Operation("GET", f"/wrong/{handler.__name__}", handler, Need.RANKER) for handler in WRONG]
        operations += [Operation("POST", "/personalizer/v1.0/full", full, Need.RANKER)]
        self.app = build(self, operations)  # type: ignore[arg-type]

    def ranker_settings(self) -> dict[str, RankerSettings]:
        return RANKERS if self.settings.admin_key else {"default": RankerSettings()}

    def call(self, method: str, path: str, **how: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                how["headers"] = {"Content-Type": "application/json", **how.get("headers", {})}
                return await client.request(method, path, **how)

        return asyncio.run(once())


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("driftrank")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(level)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def is_problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body.keys() == {"title", "status", "detail", "type"}
    assert body["status"] == status
    return str(body["detail"])


def test_request_ids() -> None:
    service = Service()
    assert service.call("GET", "/healthz", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = [service.call("GET", "/healthz").headers["x-request-id"] for _ in range(3)]
    assert len(set(made)) == 3
    for odd in ("a b", "x" * 129, "<script>", ""):
        assert service.call("GET", "/healthz", headers={"X-Request-Id": odd}).headers["x-request-id"] != odd


def test_a_response_may_be_used_again() -> None:
    service = Service()
    for _ in range(2):
        answer = service.call("GET", "/wrong/reused")
        assert len(answer.headers.get_list("x-request-id")) == 1
    assert len(REUSED) == 2


def test_long_bodies_are_refused_with_and_without_a_length() -> None:
    service = Service()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(11):
            yield b"x" * 100

    async def few() -> AsyncIterator[bytes]:
        yield b"x" * 1000

    path = "/v1/rankers/default/rank"
    assert service.call("POST", path, content=b"x" * 1000).json()[0] == 1000
    assert "no longer than 1000 bytes (max_body)" in is_problem(service.call("POST", path, content=b"x" * 1001), 413)
    assert service.call("POST", path, content=few()).json()[0] == 1000
    is_problem(service.call("POST", path, content=pieces()), 413)
    is_problem(service.call("POST", path, headers={"Content-Length": "many"}), 400)
    assert service.metrics.count("http_requests", ("rank", 413)) == 2


def test_compressed_bodies_are_refused() -> None:
    service = Service()
    path = "/v1/rankers/default/rank"
    squeezed = service.call("POST", path, content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert "must not be compressed" in is_problem(squeezed, 415)
    assert service.call("POST", path, content=b"{}", headers={"Content-Encoding": "identity"}).status_code == 200


def test_long_paths_are_refused() -> None:
    service = Service()
    is_problem(service.call("GET", f"/v1/rankers/default/queries/{'x' * 8192}"), 414)
    assert service.call("GET", f"/v1/rankers/default/queries/{'0' * 8000}1").status_code == 200


def test_a_path_that_ends_in_a_newline_is_another_path() -> None:
    service = Service(ADMIN_HASH)
    for path in ("/healthz%0A", "/metrics%0A", "/v1/rankers/shop/queries%0A"):
        is_problem(service.call("GET", path, headers=bearer(ADMIN)), 404)


@pytest.mark.parametrize(
    ("method", "path", "with_none", "with_shop", "with_admin"),
    [
        ("GET", "/healthz", 200, 200, 200),
        ("GET", "/readyz", 200, 200, 200),
        ("POST", "/v1/rankers/shop/rank", 401, 200, 200),
        ("POST", "/v1/rankers/default/rank", 401, 403, 200),
        ("POST", "/v1/rankers/nowhere/rank", 401, 403, 200),
        ("PUT", "/v1/rankers/shop/rank", 401, 403, 405),
        ("GET", "/v1/rankers/shop/queries/7", 401, 200, 200),
        ("HEAD", "/v1/rankers/shop/queries/7", 401, 200, 200),
        ("GET", "/v1/rankers/default/queries/7", 401, 403, 200),
        ("GET", "/v1/rankers/shop", 401, 200, 200),
        ("PUT", "/v1/rankers/shop", 401, 403, 200),
        ("DELETE", "/v1/rankers/shop", 401, 403, 200),
        ("POST", "/v1/rankers/shop/reset", 401, 403, 200),
        ("POST", "/v1/rankers/shop/warmstart", 401, 403, 200),
        ("POST", "/v1/rankers/shop/queries/rank", 401, 403, 405),
        ("POST", "/v1/rankers/shop/queries/q/reset", 401, 403, 200),
        ("GET", "/v1/rankers/shop/queries/q/reset", 401, 200, 200),  # a query called "q/reset"
        ("GET", "/v1/rankers/shop/export", 401, 403, 200),
        ("POST", "/v1/rankers/shop/events/e/activate", 401, 200, 200),
        ("GET", "/v1/rankers", 401, 200, 200),
        ("POST", "/v1/rankers", 401, 403, 405),
        ("POST", "/v1/events/e/activate", 401, 200, 200),
        ("POST", "/personalizer/v1.0/rank", 401, 403, 200),
        ("GET", "/metrics", 401, 403, 200),
        ("GET", "/docs", 401, 200, 200),
        ("GET", "/openapi.json", 401, 200, 200),
        ("GET", "/anything", 401, 403, 404),
        ("GET", "/metrics/", 401, 403, 307),
        ("GET", "//v1/rankers/shop/queries/7", 401, 403, 404),
    ],
)
def test_the_key_that_each_route_needs(method: str, path: str, with_none: int, with_shop: int, with_admin: int) -> None:
    service = Service(ADMIN_HASH)
    assert service.call(method, path).status_code == with_none
    assert service.call(method, path, headers=bearer(SHOP)).status_code == with_shop
    assert service.call(method, path, headers={"X-API-Key": ADMIN}).status_code == with_admin
    assert Service().call(method, path).status_code == with_admin  # without keys all is open


def test_ways_to_send_a_key() -> None:
    service = Service(ADMIN_HASH)
    rank, docs = "/v1/rankers/shop/rank", "/docs"
    for headers in (bearer(SHOP), {"authorization": f"bearer  {SHOP}"}, {"Ocp-Apim-Subscription-Key": SHOP}):
        assert service.call("POST", rank, headers=headers).status_code == 200
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{SHOP}".encode()).decode()}
    assert service.call("GET", docs, headers=basic).status_code == 200
    assert service.call("POST", rank, headers=basic).status_code == 401  # browsers send it with every request
    assert service.call("GET", docs, headers={"Authorization": "Basic ###"}).status_code == 403
    assert service.call("GET", docs).headers["www-authenticate"].startswith("Basic ")
    assert service.call("POST", rank).headers["www-authenticate"] == "Bearer"
    is_problem(service.call("POST", rank), 401)


def test_another_ranker_looks_like_a_missing_one() -> None:
    service = Service(ADMIN_HASH)
    headers = {**bearer(SHOP), "X-Request-Id": "same"}
    foreign, none = (service.call("POST", f"/v1/rankers/{name}/rank", headers=headers) for name in ("default", "none"))
    assert (foreign.status_code, foreign.content, foreign.headers) == (none.status_code, none.content, none.headers)


def test_routes_without_a_ranker_get_the_rankers_of_the_key() -> None:
    service = Service(ADMIN_HASH)
    assert service.call("GET", "/v1/rankers", headers=bearer(SHOP)).json() == [0, ["shop"]]
    assert service.call("GET", "/v1/rankers", headers=bearer(ADMIN)).json() == [0, None]
    assert Service().call("POST", "/v1/events/e/activate").json() == [0, None]


def test_a_bug_is_logged_and_not_shown_to_the_client(lines: io.StringIO) -> None:
    service = Service()
    answer = service.call("GET", "/wrong/bug", headers={"X-Request-Id": "abc"})
    detail = is_problem(answer, 500)
    assert "abc" in detail
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] == "abc"
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first["request_id"] == second["request_id"] == "abc"
    assert "ZeroDivisionError: a secret of ours" in first["exception"]
    assert (second["status"], second["level"]) == (500, "error")
    assert service.metrics.count("http_requests", ("other", 500)) == 1


def test_errors_become_problem_documents() -> None:
    service = Service()
    answer = service.call("GET", "/wrong/full")
    assert is_problem(answer, 503) == "no room left"
    assert answer.json()["title"] == "Store full"
    assert answer.headers["retry-after"] == "5"


def test_unknown_paths_and_methods() -> None:
    service = Service()
    assert is_problem(service.call("GET", "/nowhere"), 404) == "no such path: /nowhere; see /docs"
    answer = service.call("POST", "/v1/rankers/shop")
    assert is_problem(answer, 405) == "POST is not allowed at /v1/rankers/shop"
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    redirect = service.call("GET", "/v1/rankers/")
    assert (redirect.status_code, redirect.headers["location"]) == (307, "http://127.0.0.1/v1/rankers")


@pytest.mark.parametrize(("key", "status"), [(None, 401), (SHOP, 403), (ADMIN, 404)])
def test_a_path_without_a_slash(key: str | None, status: int) -> None:
    """As of ``OPTIONS * HTTP/1.1``."""
    service, sent = Service(ADMIN_HASH), []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [] if key is None else [(b"x-api-key", key.encode())]
    scope = {"type": "http", "method": "GET", "path": "*", "query_string": b"", "headers": headers, "root_path": ""}
    asyncio.run(service.app(scope, receive, send))
    assert sent[0]["status"] == status
    assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"


def test_personalizer_has_errors_of_its_own() -> None:
    answer = Service().call("POST", "/personalizer/v1.0/full")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": {"code": "503", "message": "no room left"}}
    refused = Service(ADMIN_HASH).call("POST", "/personalizer/v1.0/rank")
    assert refused.json()["error"]["code"] == "401"


def test_an_aborted_answer_breaks_the_connection(lines: io.StringIO) -> None:
    service = Service()
    with pytest.raises(ZeroDivisionError):
        service.call("GET", "/wrong/breaks")
    assert "failed: ZeroDivisionError" in lines.getvalue()


def test_a_client_that_disconnects_is_not_an_error(lines: io.StringIO) -> None:
    service = Service()

    async def gone() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError("the client has gone")

        scope = {"type": "http", "method": "POST", "path": "/v1/rankers/default/rank", "query_string": b"",
                 "headers": [], "root_path": ""}  # fmt: skip
        await service.app(scope, receive, send)

    asyncio.run(gone())
    assert lines.getvalue() == ""
    assert service.metrics.count("http_requests", ("rank", 499)) == 1


def test_a_cancelled_request_is_logged_in_a_line(lines: io.StringIO) -> None:
    """As when the server stops: uvicorn would log a traceback."""
    service = Service()

    async def cancelled() -> None:
        began = asyncio.Event()

        async def receive() -> dict[str, Any]:
            began.set()
            await asyncio.sleep(3600)
            raise AssertionError("nothing comes")

        async def send(message: Any) -> None:
            raise AssertionError("the client has gone")

        scope = {"type": "http", "method": "POST", "path": "/v1/rankers/default/rank", "query_string": b"",
                 "headers": [], "root_path": ""}  # fmt: skip
        request = asyncio.create_task(service.app(scope, receive, send))
        await began.wait()
        request.cancel()
        await request

    asyncio.run(cancelled())
    assert "/v1/rankers/default/rank was aborted: the service has stopped" in lines.getvalue()
    assert service.metrics.count("http_requests", ("rank", 499)) == 1


def test_access_log(lines: io.StringIO) -> None:
    Service().call("GET", "/healthz")
    assert lines.getvalue() == ""
    Service(access_log=True).call("GET", "/healthz", headers={"X-Request-Id": "abc"})
    line = json.loads(lines.getvalue())
    assert (line["message"], line["request_id"], line["status"]) == ("GET /healthz: 200", "abc", 200)
    assert line["ms"] > 0


def test_time_is_counted_by_route() -> None:
    service = Service()
    service.call("POST", "/v1/rankers/default/rank", content=b"{}")
    service.call("GET", "/healthz")
    text = service.metrics.render().decode()
    assert 'driftrank_http_request_duration_seconds_count{route="rank"} 1.0' in text
    assert 'driftrank_http_requests_total{route="other",status="200"} 1.0' in text
