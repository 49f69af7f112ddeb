"""Pages of other origins, and a service without a key."""

from __future__ import annotations

from typing import Any

import pytest

from driftrank.serve.http.origin import check_origin
from driftrank.serve.problems import Refused
from driftrank.serve.settings.server import ServerSettings
from tests.serve.conftest import problem


def refused(settings: ServerSettings, **headers: str) -> str:
    """The title of the refusal, or an empty string."""
    try:
        check_origin({name.encode(): value.encode("latin-1") for name, value in headers.items()}, settings)
    except Refused as error:
        return error.title if error.status == 403 else str(error.status)
    return ""


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8080", True), ("localhost", True), ("localhost:8080", True), ("[::1]:8080", True),
        ("127.8.8.8", True), ("", True), ("evil.example", False), ("evil.example:8080", False),
        ("localhost.evil.example", False), ("127.0.0.1.evil.example", False), ("192.0.2.1", False), ("[::1", False),
        ("\xff", False), ("ranking.example", False),
    ],
)  # fmt: skip
def test_hosts(host: str, allowed: bool) -> None:
    assert refused(ServerSettings(), host=host) == ("" if allowed else "Host refused")
    assert refused(ServerSettings(allowed_hosts=["*"]), host=host) == ""
    named = ServerSettings(allowed_hosts=["ranking.example"])
    assert refused(named, host="ranking.example") == refused(named, host="ranking.example:8080") == ""
    assert refused(named, host="evil.example") == "Host refused"
    assert refused(ServerSettings(socket="x"), host=host) == ""  # no page reaches a Unix socket


@pytest.mark.parametrize("origin", ["http://localhost:19111", "https://evil.example", "null", "", "http://[", "x"])
def test_origins(origin: str) -> None:
    assert refused(ServerSettings(), host="127.0.0.1:8080", origin=origin) == "Origin refused"
    assert refused(ServerSettings(), host="127.0.0.1:8080", origin="http://127.0.0.1:8080") == ""
    shop = ServerSettings(allowed_hosts=["shop.example"])
    assert refused(shop, host="127.0.0.1:8080", origin="https://shop.example") == ""


def test_a_page_cannot_reset_a_ranker(http: Any, ranker: Any) -> None:
    """As a page of another origin does without asking: with POST in the mode no-cors."""
    url = ranker()
    http.post(f"{url}/rank", json={"query": "q", "items": ["a", "b"]}).raise_for_status()
    problem(http.post(f"{url}/reset", headers={"Origin": "http://localhost:19111"}), 403, "pages of other origins")
    problem(http.post(f"{url}/reset", headers={"Host": "evil.example"}), 403, "host='evil.example': must be of this")
    row = [{"query": "q", "ranking": ["a"]}]
    problem(http.post(f"{url}/warmstart", json=row, headers={"Host": "evil.example"}), 403)
    assert http.get(url).json()["queries"] == 1
    assert http.post(f"{url}/reset", headers={"Origin": str(http.base_url).rstrip("/")}).status_code == 204
    assert http.get("/healthz", headers={"Host": "evil.example"}).status_code == 200  # tells nothing


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "json"]
)
def test_bodies_must_be_json(http: Any, ranker: Any, kind: str | None) -> None:
    url, body = ranker(), b'{"query": "q", "items": ["a", "b"]}'
    headers = {} if kind is None else {"Content-Type": kind}
    for method, path in (
        ("POST", "/rank"),
        ("POST", "/feedback"),
        ("PUT", ""),
        ("POST", "/warmstart"),
        ("POST", "/import"),
    ):
        problem(http.request(method, f"{url}{path}", content=body, headers=headers), 415, "must be 'application/json'")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/problem+json"])
def test_kinds_of_json(http: Any, ranker: Any, kind: str) -> None:
    body = b'{"query": "q", "items": ["a", "b"]}'
    assert http.post(f"{ranker()}/rank", content=body, headers={"Content-Type": kind}).status_code == 200
