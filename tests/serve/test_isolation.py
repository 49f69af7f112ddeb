"""Keys, seen from outside: every route that the OpenAPI document knows, with every kind of key."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from driftrank.serve.keys import new_key
from tests.serve.running import Running

#: what a ranker's own key opens; whatever else there is, or will be, is for the admin key
OWN = {
    ("POST", "/v1/rankers/{ranker}/rank"),
    ("POST", "/v1/rankers/{ranker}/feedback"),
    ("POST", "/v1/rankers/{ranker}/events/{event_id}/activate"),
    ("POST", "/v1/events/{event_id}/activate"),
    ("GET", "/v1/rankers"),
    ("GET", "/v1/rankers/{ranker}"),
    ("GET", "/v1/rankers/{ranker}/queries"),
    ("GET", "/v1/rankers/{ranker}/queries/{query}"),
    # pages that say nothing of any ranker
    ("GET", "/docs"),
    ("GET", "/docs/swagger-ui-bundle.js"),
    ("GET", "/docs/swagger-ui.css"),
    ("GET", "/openapi.json"),
}
FREE = {("GET", "/healthz"), ("GET", "/readyz")}
#: routes that the document does not speak of
BESIDE = {(method, path) for method, path in OWN if path == "/openapi.json" or path.startswith("/docs")}
#: a body that each route would take
BODIES: dict[str, Any] = {
    "rank": {"query": "alpha-secret", "items": ["alpha-item", "alpha-other"], "event_id": "ev-9"},
    "feedback": {"event_id": "ev-1", "clicks": [1]},
    "warmstart": [{"query": "alpha-secret", "ranking": ["alpha-item"], "clicks": [1]}],
    "reward": {"value": 1.0},
}


class House(NamedTuple):
    """A server with two rankers, each with a key, and something learnt."""

    server: Running
    admin: str
    alpha: str
    beta: str


def lists(client: httpx.Client, ranker: str, key: str, word: str, event: str) -> None:
    for name, defer in ((event, False), (f"{event}-later", True)):
        body = {"query": f"{word}-secret", "items": [f"{word}-item", f"{word}-other"], "event_id": name, "defer": defer}
        answer = client.post(f"/v1/rankers/{ranker}/rank", json=body, headers=bearer(key))
        assert answer.status_code == 200


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    (admin, kept), (alpha, of_alpha), (beta, of_beta) = new_key(), new_key(), new_key()
    (tmp_path / "driftrank.toml").write_text(
        f'[server]\nadmin_key = "{kept}"\n'
        f'[rankers.alpha-shop]\npolicy = "CascadeUCB1"\nkeys = ["{of_alpha}"]\n'
        f'[rankers.beta-shop]\npolicy = "CascadeUCB1"\nkeys = ["{of_beta}"]\n'
        '[rankers.default]\npolicy = "CascadeUCB1"\n'
    )
    with Running(tmp_path, "--config", "driftrank.toml") as server:
        with httpx.Client(base_url=server.url) as client:
            lists(client, "alpha-shop", alpha, "alpha", "ev-1")
            lists(client, "beta-shop", beta, "beta", "ev-2")
        yield House(server, admin, alpha, beta)
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("driftrank.db*"))
        for key in (admin, alpha, beta):  # kept as hashes, and never told
            assert key not in server.log
            assert key.encode() not in stored
        assert "Traceback" not in server.log


@pytest.fixture
def client(house: House) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=house.server.url) as client:
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
    url = path.format(ranker=ranker, query="alpha-secret", event_id=event)
    body = BODIES.get(path.rpartition("/")[2])
    if method == "PUT":
        body = {"policy": "CascadeUCB1", "k": 3}
    if path.startswith("/personalizer") and path.endswith("rank"):
        body = {"actions": [{"id": "alpha-item"}]}
    return client.request(method, url, json=body, headers=bearer(key))


def everything(client: httpx.Client, admin: str) -> list[str]:
    """All that there is to know."""
    names = ("alpha-shop", "beta-shop", "default")
    exports = [client.get(f"/v1/rankers/{name}/export", headers=bearer(admin)).text for name in names]
    return [client.get("/v1/rankers", headers=bearer(admin)).text, *exports]


def told(answer: httpx.Response) -> tuple[int, dict[str, str], str]:
    """All of an answer but what differs between any two."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "x-request-id")}
    return answer.status_code, headers, answer.text


def test_nothing_without_a_key(house: House, client: httpx.Client) -> None:
    before = everything(client, house.admin)
    for route in routes(client, house.admin):
        for ranker in ("alpha-shop", "nobody"):
            answer = ask(client, route, ranker, None)
            if route in FREE:
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, route
            assert "www-authenticate" in answer.headers
            assert "alpha" not in answer.text
    for headers in ({"Authorization": "Basic eDp5"}, {"Authorization": ""}, {"X-Key": house.admin}):
        assert client.get("/v1/rankers", headers=headers).status_code == 401
    assert client.get(f"/v1/rankers?key={house.admin}").status_code == 401
    assert everything(client, house.admin) == before


def test_nothing_with_a_key_that_nobody_gave(house: House, client: httpx.Client) -> None:
    before = everything(client, house.admin)
    for key in (new_key()[0], "x", "x" * 5000, house.alpha[:-1], house.alpha + "x", house.alpha.lower()):
        for route in routes(client, house.admin):
            answer = ask(client, route, "alpha-shop", key)
            assert answer.status_code == (200 if route in FREE else 403), (route, key)
            assert "alpha" not in answer.text
    assert everything(client, house.admin) == before


def test_nothing_of_one_ranker_with_the_key_of_another(house: House, client: httpx.Client) -> None:
    before = everything(client, house.admin)
    for route in routes(client, house.admin):
        answer = ask(client, route, "alpha-shop", house.beta)
        assert "alpha" not in answer.text or route[1].startswith("/docs/"), route  # a library's files
        if "{ranker}" in route[1]:
            # refused, and in the same words as if there were no such ranker
            assert answer.status_code == 403, route
            assert told(answer) == told(ask(client, route, "nobody", house.beta))
        elif route not in FREE | OWN:
            assert answer.status_code == 403, route
        if "{event_id}" in route[1]:  # a list of another ranker looks as one that never was
            unknown = ask(client, route, "alpha-shop", house.beta, "ev-8-later")
            status, headers, text = told(unknown)
            assert told(answer) == (status, headers, text.replace("ev-8-later", "ev-1-later"))
    listed = client.get("/v1/rankers", headers=bearer(house.beta)).json()
    assert [info["name"] for info in listed] == ["beta-shop"]
    assert everything(client, house.admin) == before


def test_event_ids_belong_to_their_ranker(house: House, client: httpx.Client) -> None:
    """The same id in another ranker is another list: nobody can tell which ids others use."""
    body = {"query": "beta-secret", "items": ["beta-item", "beta-other"]}
    path = "/v1/rankers/beta-shop"
    answer = client.post(f"{path}/rank", json=body | {"event_id": "ev-1"}, headers=bearer(house.beta))
    assert answer.status_code == 200
    assert {item["id"] for item in answer.json()["items"]} == {"beta-item", "beta-other"}
    orphan = client.post(f"{path}/feedback", json={"event_id": "ev-1-later"}, headers=bearer(house.beta))
    assert orphan.json()["outcome"] == "orphan"
    activated = client.post("/v1/events/ev-1-later/activate", headers=bearer(house.alpha))
    assert activated.json()["outcome"] == "activated"
    # one id in two rankers: the key says which is meant
    client.post(f"{path}/rank", json=body | {"event_id": "ev-1-later", "defer": True}, headers=bearer(house.beta))
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(house.beta)).json()["outcome"] == "activated"
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(house.alpha)).json()["outcome"] == "duplicate"
    assert client.post("/v1/events/ev-1-later/activate", headers=bearer(house.admin)).status_code == 409


def test_a_key_opens_its_own_ranker_and_no_more(house: House, client: httpx.Client) -> None:
    all_routes = routes(client, house.admin)
    assert {*all_routes} >= OWN
    for route in all_routes:
        answer = ask(client, route, "alpha-shop", house.alpha)
        if route in FREE | OWN:
            assert answer.status_code == 200, (route, answer.text)
        else:
            assert answer.status_code == 403, (route, answer.text)
    for header in ("X-API-Key", "Ocp-Apim-Subscription-Key"):
        assert client.get("/v1/rankers/alpha-shop", headers={header: house.alpha}).status_code == 200


def test_the_admin_key_opens_everything(house: House, client: httpx.Client) -> None:
    # what deletes comes last
    for route in sorted(routes(client, house.admin), key=lambda route: (route[0] == "DELETE", route[1].count("{") < 2)):
        answer = ask(client, route, "alpha-shop", house.admin)
        assert answer.status_code not in (401, 403), route
        assert answer.status_code < 500, (route, answer.text)
    assert client.get("/v1/rankers/alpha-shop", headers=bearer(house.admin)).status_code == 404
    # with its ranker a key is gone
    assert client.get("/v1/rankers/alpha-shop", headers=bearer(house.alpha)).status_code == 403
    assert client.get("/v1/rankers", headers=bearer(house.alpha)).status_code == 403


def test_no_keys_of_rankers_without_an_admin_key(tmp_path: Path) -> None:
    """Or nobody could change them again."""
    with Running(tmp_path, DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:
        answer = httpx.put(f"{server.url}/v1/rankers/shop", json={"keys": [new_key()[1]]})
        assert answer.status_code == 422
        assert "admin key" in answer.json()["detail"]
        assert httpx.get(f"{server.url}/v1/rankers").status_code == 200


#: paths that servers have been led astray with
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


def test_no_path_leads_around(house: House, client: httpx.Client) -> None:
    before = everything(client, house.admin)
    for path in AROUND:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            connection = http.client.HTTPConnection("127.0.0.1", house.server.port)
            connection.request(method, path, body=b"{}", headers=bearer(house.beta))
            answer = connection.getresponse()
            said = answer.read().decode()
            connection.close()
            assert answer.status in (307, 400, 403, 404, 405), (method, path, said)
            assert "alpha-item" not in said
            assert "CascadeUCB1" not in said
            if answer.status == 307:  # where that leads needs the key as well
                assert "alpha" in (answer.getheader("location") or "")
    assert everything(client, house.admin) == before
