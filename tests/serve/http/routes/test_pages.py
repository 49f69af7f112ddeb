"""The page that shows the API. It loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from driftrank.serve.keys import new_key
from tests.serve.running import Running

CHEAP = {"DRIFTRANK_RANKERS__DEFAULT__POLICY": "CascadeUCB1"}


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url) as http:
        page = http.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert page.headers["content-security-policy"].startswith("default-src 'none'; connect-src 'self';")
        assert "//" not in re.sub(r"^\s*//.*", "", page.text, flags=re.MULTILINE), "no address of another host"
        loaded = re.findall(r"(?:src|href)=\"([^\"]+)\"|fetch\(\"([^\"]+)\"\)", page.text)
        assert loaded == [("data:,", ""), ("", "openapi.json")]
        assert len(http.get("/openapi.json").content) > 1000
        assert http.get("/docs/other.js").status_code == 404


def test_with_keys_the_browser_asks_for_one(tmp_path: Path) -> None:
    admin, hashed = new_key()
    with Running(tmp_path, DRIFTRANK_ADMIN_KEY=hashed, **CHEAP) as server, httpx.Client(base_url=server.url) as http:
        for path in ("/docs", "/openapi.json"):
            refused = http.get(path)
            assert (refused.status_code, refused.headers["www-authenticate"][:5]) == (401, "Basic")
            assert http.get(path, auth=("", admin)).status_code == 200


def test_every_example_can_be_sent_as_it_is(tmp_path: Path) -> None:
    """From top to bottom of the page, except that deletions come last."""
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url, timeout=120) as http:
        paths = http.get("/openapi.json").json()["paths"]
        operations = [(method, path, described) for path, of in paths.items() for method, described in of.items()]
        for method, path, described in sorted(operations, key=lambda operation: operation[0] == "delete"):
            assert described["summary"]
            assert described["description"]
            for parameter in described.get("parameters", []):
                assert parameter["description"]
                if parameter["in"] == "path":
                    path = path.replace("{" + parameter["name"] + "}", parameter["example"])
            body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if path.endswith("/import"):  # its body is the answer of export
                body = http.get(path.replace("/import", "/export")).json()
            if path.endswith("/undo"):  # it needs the number of an operation
                http.patch("/v1/rankers/default", json={"holdout": 0.1}).raise_for_status()
                path = path.replace("/1/", f"/{http.get('/v1/rankers/default/operations').json()[0]['number']}/")
            answer = http.request(method, path, json=body)
            assert str(answer.status_code) in described["responses"], path
            assert answer.is_success, (path, answer.text)
            if path.endswith("/feedback"):
                assert answer.json()["outcome"] == "counted"


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs the browser chromium")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server:
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}",
            "--virtual-time-budget=20000", "--dump-dom", f"{server.url}/docs",
        ]  # fmt: skip
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        for text in ("/v1/rankers/", "Choose an action, as Azure Personalizer does", "Authorize"):
            assert text in shown
        api = httpx.get(f"{server.url}/openapi.json").json()
        operations = sum(map(len, api["paths"].values()))
        assert shown.count("<details>") == operations + len(api["components"]["schemas"])
