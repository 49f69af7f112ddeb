"""Chromium for tests of pages: what goes wrong in it is noted, and axe-core examines what it shows."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.serve.running import ROOT

CHROMIUM = shutil.which("chromium")
#: where axe-core is installed, once
_AXE = ROOT / "build" / "axe"
_NOTE = "addEventListener('securitypolicyviolation', e => console.error('CSP', e.violatedDirective, e.blockedURI))"


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of Playwright; skips the test if there is none."""
    if CHROMIUM is None:
        pytest.skip("needs the browser chromium (scripts/packages.sh installs it)")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (make test installs it)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Noted:
    """A page, with its errors and the hosts that it has asked."""

    def __init__(self, context: Any) -> None:
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page = context.new_page()
        self.page.add_init_script(_NOTE)
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))


def serious(page: Any) -> list[str]:
    """The findings of axe-core on a page that are serious or worse."""
    page.evaluate(_axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{it['id']}: {it['help']}: {[node['html'][:120] for node in it['nodes'][:3]]}"
        for it in found["violations"]
        if it["impact"] in ("serious", "critical")
    ]


def _axe() -> str:
    script = _AXE / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        if shutil.which("npm") is None:
            pytest.skip("needs npm, to install axe-core")
        _AXE.mkdir(parents=True, exist_ok=True)
        (_AXE / "package.json").write_text(json.dumps({"private": True}))
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "axe-core@4"]
        done = subprocess.run(command, cwd=_AXE, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return Path(script).read_text("utf-8")
