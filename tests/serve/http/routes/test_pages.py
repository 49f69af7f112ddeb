"""The page that shows the API. It loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from driftrank.serve.access.keys import new_key
from tests.serve.http.examples import FILE, answers
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


def test_every_example_is_an_answer_of_the_service(tmp_path: Path) -> None:
    with Running(tmp_path) as server, httpx.Client(base_url=server.url, timeout=120) as http:
        found = answers(http)
        assert found == json.loads(FILE.read_text("utf-8")), "see tests/serve/http/examples.py"
        assert found["feedback"]["outcome"] == "counted"
        assert found["changes"]


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
