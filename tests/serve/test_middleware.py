from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from driftrank.serve.keys import Keys, hashed
from driftrank.serve.logging import JsonFormatter
from driftrank.serve.metrics import Metrics
from driftrank.serve.middleware import VISIBLE, Gate, need_of
from driftrank.serve.problems import Refused, install
from driftrank.wire import RankerSettings

# the same in every process that runs tests: they are in the names of tests
ADMIN = "dr_" + "a" * 32
ADMIN_HASH = hashed(ADMIN)
SHOP = "dr_" + "s" * 32
SHOP_HASH = hashed(SHOP)
RANKERS = {"shop": RankerSettings(keys=[SHOP_HASH]), "default": RankerSettings()}
REUSED = [(b"content-type", b"text/plain"), (b"content-length", b"2")]


class Service:
    """An application with routes that do as they are told, behind the gate."""

    def __init__(self, admin: str | None = None, **how: Any) -> None:
        self.metrics = Metrics()
        app = FastAPI()
        install(app)

        async def echo(request: Request) -> Response:
            body = await request.body()
            seen = request.scope.get(VISIBLE, "not set")
            return Response(json.dumps([len(body), sorted(seen) if isinstance(seen, frozenset) else seen]))

        async def bug(request: Request) -> Response:
            raise ZeroDivisionError("a secret of ours")

        async def full(request: Request) -> Response:
            raise Refused(503, "Store full", "no room left", {"Retry-After": "5"})

        async def reused(request: Request) -> Response:
            response = Response(b"ok")
            response.raw_headers = REUSED
            return response

        async def breaks(request: Request) -> Response:
            async def parts() -> AsyncIterator[bytes]:
                yield b"begun"
                raise ZeroDivisionError

            return StreamingResponse(parts())

        async def number(n: int) -> int:
            return n

        app.get("/v1/rankers/{ranker}/queries/{n}")(number)
        for path, route in (("bug", bug), ("full", full), ("reused", reused), ("breaks", breaks)):
            app.add_route(f"/v1/rankers/{{ranker}}/queries/x/{path}", route, methods=["GET"])
        app.add_route("/personalizer/v1.0/events/{id}/reward", full, methods=["POST"])
        for path in ("/v1/rankers/{ranker}/rank", "/v1/rankers", "/healthz", "/metrics", "/v1/events/{id}/activate"):
            app.add_route(path, echo, methods=["GET", "POST", "PUT"])
        keys = Keys(admin, lambda: RANKERS if admin else {"default": RankerSettings()})
        app.add_middleware(Gate, keys=keys, metrics=self.metrics, max_body=1000, **how)
        self.app = app

    def call(self, method: str, path: str, **how: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://driftrank") as client:
                return await client.request(method, path, **how)

        return asyncio.run(once())


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged."""
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("driftrank")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield told
    logger.removeHandler(handler)
    logger.setLevel(level)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def is_problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told.keys() == {"title", "status", "detail"}
    assert told["status"] == status
    return str(told["detail"])


def test_ids_of_requests() -> None:
    service = Service()
    assert service.call("GET", "/healthz", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    made = [service.call("GET", "/healthz").headers["x-request-id"] for _ in range(3)]
    assert len(set(made)) == 3
    for odd in ("a b", "x" * 129, "<script>", ""):
        assert service.call("GET", "/healthz", headers={"X-Request-Id": odd}).headers["x-request-id"] != odd


def test_a_response_may_be_used_again() -> None:
    service = Service()
    for _ in range(2):
        answer = service.call("GET", "/v1/rankers/default/queries/x/reused")
        assert len(answer.headers.get_list("x-request-id")) == 1
    assert len(REUSED) == 2


def test_long_bodies_are_refused_whether_they_say_so_or_not() -> None:
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


def test_bodies_that_are_compressed() -> None:
    service = Service()
    path = "/v1/rankers/default/rank"
    squeezed = service.call("POST", path, content=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert "must not be compressed" in is_problem(squeezed, 415)
    assert service.call("POST", path, content=b"{}", headers={"Content-Encoding": "identity"}).status_code == 200


def test_long_paths_are_refused_and_not_remembered() -> None:
    service = Service()
    before = need_of.cache_info().misses
    is_problem(service.call("GET", f"/v1/rankers/default/queries/{'x' * 8192}"), 414)
    assert need_of.cache_info().misses == before
    assert service.call("GET", f"/v1/rankers/default/queries/{'0' * 8000}1").status_code != 414


@pytest.mark.parametrize(
    ("method", "path", "with_none", "with_shop", "with_admin"),
    [
        ("GET", "/healthz", 200, 200, 200),
        ("GET", "/readyz", 404, 404, 404),  # not there in this application
        ("POST", "/v1/rankers/shop/rank", 401, 200, 200),
        ("POST", "/v1/rankers/default/rank", 401, 403, 200),
        ("POST", "/v1/rankers/nowhere/rank", 401, 403, 200),
        ("PUT", "/v1/rankers/shop/rank", 401, 403, 200),
        ("GET", "/v1/rankers/shop/queries/7", 401, 200, 200),
        ("GET", "/v1/rankers/default/queries/7", 401, 403, 200),
        ("PUT", "/v1/rankers/shop", 401, 403, 404),
        ("DELETE", "/v1/rankers/shop", 401, 403, 404),
        ("POST", "/v1/rankers/shop/reset", 401, 403, 404),
        ("POST", "/v1/rankers/shop/warmstart", 401, 403, 404),
        ("POST", "/v1/rankers/shop/queries/rank", 401, 403, 405),
        ("POST", "/v1/rankers/shop/queries/q/reset", 401, 403, 404),
        ("GET", "/v1/rankers/shop/export", 401, 403, 404),
        ("POST", "/v1/rankers/shop/events/e/activate", 401, 404, 404),
        ("GET", "/v1/rankers", 401, 200, 200),
        ("POST", "/v1/rankers", 401, 403, 200),
        ("POST", "/v1/events/e/activate", 401, 200, 200),
        ("POST", "/personalizer/v1.0/rank", 401, 403, 404),
        ("GET", "/metrics", 401, 403, 200),
        ("GET", "/docs", 401, 200, 200),
        ("GET", "/openapi.json", 401, 200, 200),
        ("GET", "/anything", 401, 403, 404),
        ("GET", "//v1/rankers/shop/queries/7", 401, 403, 404),
    ],
)
def test_what_needs_which_key(method: str, path: str, with_none: int, with_shop: int, with_admin: int) -> None:
    service = Service(ADMIN_HASH)
    assert service.call(method, path).status_code == with_none
    assert service.call(method, path, headers=bearer(SHOP)).status_code == with_shop
    assert service.call(method, path, headers={"X-API-Key": ADMIN}).status_code == with_admin
    assert Service().call(method, path).status_code == with_admin  # all is open where there are no keys


def test_ways_to_send_a_key() -> None:
    service = Service(ADMIN_HASH)
    rank, docs = "/v1/rankers/shop/rank", "/docs"
    for headers in (bearer(SHOP), {"authorization": f"bearer  {SHOP}"}, {"Ocp-Apim-Subscription-Key": SHOP}):
        assert service.call("POST", rank, headers=headers).status_code == 200
    basic = {"Authorization": "Basic " + base64.b64encode(f"me:{SHOP}".encode()).decode()}
    assert service.call("GET", docs, headers=basic).status_code == 200
    assert service.call("POST", rank, headers=basic).status_code == 401  # browsers send it by themselves
    assert service.call("GET", docs, headers={"Authorization": "Basic ###"}).status_code == 403
    assert service.call("GET", docs).headers["www-authenticate"].startswith("Basic ")
    assert service.call("POST", rank).headers["www-authenticate"] == "Bearer"
    is_problem(service.call("POST", rank), 401)


def test_a_foreign_ranker_looks_like_none() -> None:
    service = Service(ADMIN_HASH)
    headers = {**bearer(SHOP), "X-Request-Id": "same"}
    foreign, none = (service.call("POST", f"/v1/rankers/{name}/rank", headers=headers) for name in ("default", "none"))
    assert (foreign.status_code, foreign.content, foreign.headers) == (none.status_code, none.content, none.headers)


def test_routes_without_a_ranker_learn_what_the_key_shows() -> None:
    service = Service(ADMIN_HASH)
    assert service.call("GET", "/v1/rankers", headers=bearer(SHOP)).json() == [0, ["shop"]]
    assert service.call("GET", "/v1/rankers", headers=bearer(ADMIN)).json() == [0, None]
    assert Service().call("POST", "/v1/events/e/activate").json() == [0, None]


def test_a_bug_is_told_to_us_and_not_to_the_client(lines: io.StringIO) -> None:
    service = Service()
    answer = service.call("GET", "/v1/rankers/default/queries/x/bug", headers={"X-Request-Id": "abc"})
    detail = is_problem(answer, 500)
    assert "abc" in detail
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] == "abc"
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first["request_id"] == second["request_id"] == "abc"
    assert "ZeroDivisionError: a secret of ours" in first["exception"]
    assert (second["status"], second["level"]) == (500, "error")
    assert service.metrics.count("http_requests", ("other", 500)) == 1


def test_refusals_become_problem_documents() -> None:
    service = Service()
    answer = service.call("GET", "/v1/rankers/default/queries/x/full")
    assert is_problem(answer, 503) == "no room left"
    assert answer.json()["title"] == "Store full"
    assert answer.headers["retry-after"] == "5"


def test_what_fastapi_refuses_looks_the_same() -> None:
    service = Service()
    assert is_problem(service.call("GET", "/nowhere"), 404) == "there is nothing at /nowhere; /docs shows what there is"
    assert "DELETE is not possible" in is_problem(service.call("DELETE", "/v1/rankers"), 405)
    assert "n='seven'" in is_problem(service.call("GET", "/v1/rankers/default/queries/seven"), 422)


def test_personalizer_has_errors_of_its_own() -> None:
    answer = Service().call("POST", "/personalizer/v1.0/events/e/reward")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": {"code": "503", "message": "no room left"}}
    refused = Service(ADMIN_HASH).call("POST", "/personalizer/v1.0/rank")
    assert refused.json()["error"]["code"] == "401"


def test_an_answer_that_breaks_off_breaks_the_connection(lines: io.StringIO) -> None:
    service = Service()
    with pytest.raises(ZeroDivisionError):
        service.call("GET", "/v1/rankers/default/queries/x/breaks")
    assert "failed: ZeroDivisionError" in lines.getvalue()


def test_who_has_gone_is_no_fault(lines: io.StringIO) -> None:
    service = Service()

    async def gone() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            raise AssertionError("nobody is there")

        scope = {"type": "http", "method": "POST", "path": "/v1/rankers/default/rank", "query_string": b"",
                 "headers": [], "root_path": ""}  # fmt: skip
        await service.app(scope, receive, send)

    asyncio.run(gone())
    assert lines.getvalue() == ""
    assert service.metrics.count("http_requests", ("rank", 499)) == 1


def test_a_request_that_is_cancelled_ends_in_a_line(lines: io.StringIO) -> None:
    """As when the server ends and waits no longer; whoever runs it would write a traceback."""
    service = Service()

    async def cancelled() -> None:
        began = asyncio.Event()

        async def receive() -> dict[str, Any]:
            began.set()
            await asyncio.sleep(3600)
            raise AssertionError("nothing comes")

        async def send(message: Any) -> None:
            raise AssertionError("nobody is there")

        scope = {"type": "http", "method": "POST", "path": "/v1/rankers/default/rank", "query_string": b"",
                 "headers": [], "root_path": ""}  # fmt: skip
        request = asyncio.create_task(service.app(scope, receive, send))
        await began.wait()
        request.cancel()
        await request

    asyncio.run(cancelled())
    assert "/v1/rankers/default/rank was broken off: the service has stopped" in lines.getvalue()
    assert service.metrics.count("http_requests", ("rank", 499)) == 1


def test_calls_that_come_often_go_to_their_handlers_at_once() -> None:
    async def rank(request: Request) -> Response:
        return Response(f"{request.path_params['ranker']} {len(await request.body())}")

    service = Service(direct={"rank": rank})
    assert service.call("POST", "/v1/rankers/shop/rank", content=b"12345").text == "shop 5"
    assert service.call("GET", "/v1/rankers/default/rank").json()[0] == 0, "which is another route"
    service = Service(ADMIN_HASH, direct={"rank": rank})
    is_problem(service.call("POST", "/v1/rankers/shop/rank"), 401)


def test_access_log(lines: io.StringIO) -> None:
    Service().call("GET", "/healthz")
    assert lines.getvalue() == ""
    Service(access_log=True).call("GET", "/healthz", headers={"X-Request-Id": "abc"})
    told = json.loads(lines.getvalue())
    assert (told["message"], told["request_id"], told["status"]) == ("GET /healthz: 200", "abc", 200)
    assert told["ms"] > 0


def test_time_is_counted_by_route() -> None:
    service = Service()
    service.call("POST", "/v1/rankers/default/rank", content=b"{}")
    service.call("GET", "/healthz")
    text = service.metrics.render().decode()
    assert 'driftrank_http_request_duration_seconds_count{route="rank"} 1.0' in text
    assert 'driftrank_http_requests_total{route="other",status="200"} 1.0' in text
