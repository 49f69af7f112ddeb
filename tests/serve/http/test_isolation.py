"""Access from outside: every route of the OpenAPI document, with every kind of key."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from driftrank.serve.access.keys import new_key
from tests.serve.running import Running

#: what a ranker's own key has access to; everything else needs the admin key
OWN = {
    ("POST", "/v1/rankers/{ranker}/rank"),
    ("POST", "/v1/rankers/{ranker}/feedback"),
    ("POST", "/v1/rankers/{ranker}/events/{event_id}/activate"),
    ("POST", "/v1/events/{event_id}/activate"),
    ("GET", "/v1/rankers"),
    ("GET", "/v1/rankers/{ranker}"),
    ("GET", "/v1/rankers/{ranker}/experiment"),
    ("GET", "/v1/rankers/{ranker}/shadow"),
    ("GET", "/v1/overview"),
    ("GET", "/v1/rankers/{ranker}/series"),
    ("GET", "/v1/rankers/{ranker}/lists/{query}"),
    ("GET", "/v1/rankers/{ranker}/queries"),
    ("GET", "/v1/rankers/{ranker}/queries/{query}"),
    ("GET", "/v1/rankers/{ranker}/events/{event_id}"),
    ("GET", "/v1/rankers/{ranker}/changes"),
    ("GET", "/v1/rankers/{ranker}/top-queries"),
    # pages without data of a ranker
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
}
FREE = {("GET", "/healthz"), ("GET", "/readyz")}
#: routes that are not in the document
BESIDE = {("GET", "/docs"), ("GET", "/openapi.json")}
#: a valid body for each route
BODIES: dict[str, Any] = {
    "rank": {"query": "alpha-secret", "items": ["alpha-item", "alpha-other"], "event_id": "ev-9"},
    "feedback": {"event_id": "ev-1", "clicks": [1]},
    "warmstart": [{"query": "alpha-secret", "ranking": ["alpha-item"], "clicks": [1]}],
    "reward": {"value": 1.0},
}


class Shops(NamedTuple):
    """A server with two rankers, each with a key and some rankings."""

    server: Running
    admin: str
    alpha: str
    beta: str


def make_rankings(client: httpx.Client, ranker: str, key: str, word: str, event: str) -> None:
    for name, defer in ((event, False), (f"{event}-later", True)):
        body = {"query": f"{word}-secret", "items": [f"{word}-item", f"{word}-other"], "event_id": name, "defer": defer}
        answer = client.post(f"/v1/rankers/{ranker}/rank", json=body, headers=bearer(key))
        assert answer.status_code == 200


@pytest.fixture
def shops(tmp_path: Path) -> Iterator[Shops]:
    (admin, kept), (alpha, of_alpha), (beta, of_beta) = new_key(), new_key(), new_key()
    (tmp_path / "driftrank.toml").write_text(
        f'[server]\nadmin_key = "{kept}"\n'
        f'[rankers.alpha-shop]\npolicy = "CascadeUCB1"\nkeys = ["{of_alpha}"]\n'
        f'[rankers.beta-shop]\npolicy = "CascadeUCB1"\nkeys = ["{of_beta}"]\n'
        '[rankers.default]\npolicy = "CascadeUCB1"\n'
    )
    with Running(tmp_path, "--config", "driftrank.toml") as server:
        with httpx.Client(base_url=server.url) as client:
            make_rankings(client, "alpha-shop", alpha, "alpha", "ev-1")
            make_rankings(client, "beta-shop", beta, "beta", "ev-2")
        yield Shops(server, admin, alpha, beta)
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("driftrank.db*"))
        for key in (admin, alpha, beta):  # stored as hashes, never logged
            assert key not in server.log
            assert key.encode() not in stored
        assert "Traceback" not in server.log


@pytest.fixture
def client(shops: Shops) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shops.server.url) as client:
        yield client


def bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def routes(client: httpx.Client, admin: str) -> list[tuple[str, str]]:
    document = client.get("/openapi.json", headers=bearer(admin)).json()
    known = [(method.upper(), path) for path, its in document["paths"].items() for method in its]
    assert len(known) > 20
    return sorted({*known, *BESIDE})


def ask(client: httpx.Client, route: tuple[str, str], ranker: str, key: str | None, event: str = "ev-1-later") -> Any:
    method, path = route
    url = path.format(ranker=ranker, query="alpha-secret", event_id=event, number=1)
    body = BODIES.get(path.rpartition("/")[2])
    if method == "PUT":
        body = {"policy": "CascadeUCB1", "k": 3}
    if path.startswith("/personalizer") and path.endswith("rank"):
        body = {"actions": [{"id": "alpha-item"}]}
    return client.request(method, url, json=body, headers=bearer(key))


def everything(client: httpx.Client, admin: str) -> list[str]:
    """The whole state."""
    names = ("alpha-shop", "beta-shop", "default")
    exports = [client.get(f"/v1/rankers/{name}/export", headers=bearer(admin)).text for name in names]
    return [client.get("/v1/rankers", headers=bearer(admin)).text, *exports]


def visible(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """An answer without the headers that always differ."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "x-request-id")}
    return answer.status_code, headers, answer.text


def test_nothing_without_a_key(shops: Shops, client: httpx.Client) -> None:
    before = everything(client, shops.admin)
    for route in routes(client, shops.admin):
        for ranker in ("alpha-shop", "nobody"):
            answer = ask(client, route, ranker, None)
            if route in FREE:
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, route
            assert "www-authenticate" in answer.headers
            assert "alpha" not in answer.text
    for headers in ({"Authorization": "Basic eDp5"}, {"Authorization": ""}, {"X-Key": shops.admin}):
        assert client.get("/v1/rankers", headers=headers).status_code == 401
    assert client.get(f"/v1/rankers?key={shops.admin}").status_code == 401
    assert everything(client, shops.admin) == before


def test_nothing_with_an_unknown_key(shops: Shops, client: httpx.Client) -> None:
    before = everything(client, shops.admin)
    for key in (new_key()[0], "x", "x" * 5000, shops.alpha[:-1], shops.alpha + "x", shops.alpha.lower()):
        for route in routes(client, shops.admin):
            answer = ask(client, route, "alpha-shop", key)
            assert answer.status_code == (200 if route in FREE else 403), (route, key)
            assert "alpha" not in answer.text
    assert everything(client, shops.admin) == before


def test_nothing_of_one_ranker_with_the_key_of_another(shops: Shops, client: httpx.Client) -> None:
    before = everything(client, shops.admin)
    for route in routes(client, shops.admin):
        answer = ask(client, route, "alpha-shop", shops.beta)
        assert "alpha" not in answer.text, route
        if "{ranker}" in route[1]:
            # the same answer as for a missing ranker
            assert answer.status_code == 403, route
            assert visible(answer) == visible(ask(client, route, "nobody", shops.beta))
        elif route not in FREE | OWN:
            assert answer.status_code == 403, route
        if "{event_id}" in route[1]:  # a ranking of another ranker looks like a missing one
            unknown = ask(client, route, "alpha-shop", shops.beta, "ev-8-later")
            status, headers, text = visible(unknown)
            assert visible(answer) == (status, headers, text.replace("ev-8-later", "ev-1-later"))
    listed = client.get("/v1/rankers", headers=bearer(shops.beta)).json()
    assert [info["name"] for info in listed] == ["beta-shop"]
    assert everything(client, shops.admin) == before


def test_event_ids_belong_to_their_ranker(shops: Shops, client: httpx.Client) -> None:
    """The same id in another ranker is another ranking: ids of others are not revealed."""
    body = {"query": "beta-secret", "items": ["beta-item", "beta-other"]}
    path = "/v1/rankers/beta-shop"
    answer = client.post(f"{path}/rank", json=body | {"event_id": "ev-1"}, headers=bearer(shops.beta))
    assert answer.status_code == 200
    assert {item["id"] for item in answer.json()["items"]} == {"beta-item", "beta-other"}
    orphan = client.post(f"{path}/feedback", json={"event_id": "ev-1-later"}, headers=bearer(shops.beta))
    assert orphan.json()["outcome"] == "orphan"
    activated = client.post("/v1/events/ev-1-later/activate", headers=bearer(shops.alpha))
    assert activated.json()["outcome"] == "activated"
    # one id in two rankers: the key decides
    client.post(f"{path}/rank", json=body | {"event_id": "ev-1-later", "defer": True}, headers=bearer(shops.beta))
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(shops.beta)).json()["outcome"] == "activated"
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(shops.alpha)).json()["outcome"] == "duplicate"
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(shops.admin)).status_code == 409


def test_a_key_has_access_to_its_own_ranker_only(shops: Shops, client: httpx.Client) -> None:
    all_routes = routes(client, shops.admin)
    assert {*all_routes} >= OWN
    for route in all_routes:
        answer = ask(client, route, "alpha-shop", shops.alpha)
        if route in FREE | OWN:
            assert answer.status_code == 200, (route, answer.text)
        else:
            assert answer.status_code == 403, (route, answer.text)
    for header in ("X-API-Key", "Ocp-Apim-Subscription-Key"):
        assert client.get("/v1/rankers/alpha-shop", headers={header: shops.alpha}).status_code == 200


def test_the_admin_key_has_access_to_everything(shops: Shops, client: httpx.Client) -> None:
    # deletions come last
    for route in sorted(routes(client, shops.admin), key=lambda route: (route[0] == "DELETE", route[1].count("{") < 2)):
        answer = ask(client, route, "alpha-shop", shops.admin)
        assert answer.status_code not in (401, 403), route
        assert answer.status_code < 500, (route, answer.text)
    assert client.get("/v1/rankers/alpha-shop", headers=bearer(shops.admin)).status_code == 404
    # a deleted ranker's key is invalid
    assert client.get("/v1/rankers/alpha-shop", headers=bearer(shops.alpha)).status_code == 403
    assert client.get("/v1/rankers", headers=bearer(shops.alpha)).status_code == 403


def test_no_keys_of_rankers_without_an_admin_key(tmp_path: Path) -> None:
    """Otherwise they could never be changed."""
    with Running(tmp_path, DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:
        answer = httpx.put(f"{server.url}/v1/rankers/shop", json={"keys": [new_key()[1]]})
        assert answer.status_code == 422
        assert "admin key" in answer.json()["detail"]
        assert httpx.get(f"{server.url}/v1/rankers").status_code == 200


#: paths that have confused servers
AROUND = [
    "/v1/rankers/beta-shop/../alpha-shop",
    "/v1/rankers/beta-shop%2F..%2Falpha-shop",
    "/v1/rankers/beta-shop/queries/../../alpha-shop/queries/alpha-secret",
    "/v1/rankers/./alpha-shop",
    "//v1/rankers/alpha-shop",
    "/v1//rankers/alpha-shop",
    "/v1/rankers//alpha-shop",
    "/v1/rankers/alpha-shop/",
    "/v1/rankers/alpha-shop%0A",
    "/v1/rankers/alpha-shop%00",
    "/v1/rankers/ALPHA-SHOP",
    "/v1/rankers/alpha-shop;beta-shop",
    "/v1/rankers/alpha-shop/export%0A",
    "/v1/rankers/alpha-shop%2Fqueries%2Falpha-secret",
    "/v1/rankers/alpha-shop/queries/alpha-secret?ranker=beta-shop",
    "http://x/v1/rankers/alpha-shop",
    "/metrics%0A",
    "/metrics/",
    "/openapi.json/../v1/rankers/alpha-shop",
    "/healthz/../v1/rankers",
    "/healthz%0A",
]


def test_no_path_bypasses_the_key(shops: Shops, client: httpx.Client) -> None:
    before = everything(client, shops.admin)
    for path in AROUND:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            connection = http.client.HTTPConnection("127.0.0.1", shops.server.port)
            connection.request(method, path, body=b"{}", headers=bearer(shops.beta))
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            assert answer.status in (307, 400, 403, 404, 405), (method, path, text)
            assert "alpha-item" not in text
            assert "CascadeUCB1" not in text
            if answer.status == 307:  # to a path that needs the key as well
                followed = client.request(method, answer.getheader("location") or "", headers=bearer(shops.beta))
                assert followed.status_code == 403, (method, path)
    assert everything(client, shops.admin) == before
