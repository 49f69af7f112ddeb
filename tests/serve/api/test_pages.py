"""The page that shows the API: all that it loads comes from the service itself."""

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


def test_what_the_page_loads_is_here(tmp_path: Path) -> None:
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url) as http:
        page = http.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        addresses = re.findall(r"(?:src|href)=\"([^\"]+)\"|url: '([^']+)'", page.text)
        loaded = [a or b for a, b in addresses]
        assert "http" not in page.text.replace("https://swagger.io", "")
        assert {"docs/swagger-ui-bundle.js", "docs/swagger-ui.css", "openapi.json"} <= set(loaded)
        for address in loaded:
            if not address.startswith("data:"):
                found = http.get(f"/{address}")
                assert found.status_code == 200
                assert len(found.content) > 1000
        assert http.get("/docs/other.js").status_code == 404
        style = http.get("/docs/swagger-ui.css").content
        for argument in ("name", "path", "type_", "file"):  # no other file of the machine
            assert http.get("/docs/swagger-ui.css", params={argument: __file__}).content == style


def test_where_there_are_keys_the_browser_asks_for_one(tmp_path: Path) -> None:
    admin, hashed = new_key()
    with Running(tmp_path, DRIFTRANK_ADMIN_KEY=hashed, **CHEAP) as server, httpx.Client(base_url=server.url) as http:
        for path in ("/docs", "/docs/swagger-ui.css", "/openapi.json"):
            refused = http.get(path)
            assert (refused.status_code, refused.headers["www-authenticate"][:5]) == (401, "Basic")
            assert http.get(path, auth=("", admin)).status_code == 200


def test_every_example_can_be_sent_as_it_is(tmp_path: Path) -> None:
    """Whoever tries the page from top to bottom gets what it says; what deletes comes last."""
    with Running(tmp_path, **CHEAP) as server, httpx.Client(base_url=server.url, timeout=120) as http:
        paths = http.get("/openapi.json").json()["paths"]
        operations = [(method, path, said) for path, of in paths.items() for method, said in of.items()]
        for method, path, said in sorted(operations, key=lambda operation: operation[0] == "delete"):
            assert said["summary"]
            assert said["description"]
            for parameter in said.get("parameters", []):
                assert parameter["description"]
                if parameter["in"] == "path":
                    path = path.replace("{" + parameter["name"] + "}", parameter["example"])
            body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
            if path.endswith("/import"):  # what it takes is what export gives
                body = http.get(path.replace("/import", "/export")).json()
            answer = http.request(method, path, json=body)
            assert str(answer.status_code) in said["responses"], path
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
        for text in ("driftrank", "/v1/rankers/", "Choose an action, as Azure Personalizer does", "Authorize"):
            assert text in shown
        assert "Failed to load" not in shown
        assert "Unable to render" not in shown
