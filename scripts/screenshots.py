"""Make the pictures of the live page in docs/images: start the demo, send some traffic, look at it with Chromium.

Needs Chromium (``scripts/packages.sh``). Takes about a minute.
"""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
#: what users of a made-up shop like, by query
SHOP = {
    "running shoes": {"trail": 0.31, "road": 0.22, "track": 0.15, "sandal": 0.04, "boot": 0.06, "spike": 0.11},
    "rain jacket": {"shell": 0.27, "parka": 0.12, "poncho": 0.05, "cape": 0.03, "coat": 0.18, "anorak": 0.2},
    "hats": {"straw": 0.08, "felt": 0.16, "top": 0.02, "cap": 0.3, "beanie": 0.25, "beret": 0.1},
}
#: bytes of a picture
MOST = 120_000


def main() -> int:
    command = [sys.executable, "-m", "driftrank", "demo", "--port", "0", "--no-open", "--seed", "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            found = re.search(r"http://\S+:\d+", demo.stdout.readline())
            assert found is not None, "the demo did not start"
            event = send_traffic(found[0])
            take_pictures(found[0], event)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(30)
    return 0


def send_traffic(url: str) -> str:
    """Users of the shop; the id of an event with a click."""
    users = random.Random(1)
    clicked = ""
    with httpx.Client(base_url=f"{url}/v1/rankers", timeout=60) as http:
        http.put("shop", json={"k": 4, "holdout": 0.2, "wait": "10m"}).raise_for_status()
        for query in users.choices(list(SHOP), (5, 3, 2), k=1_500):
            items = list(reversed(SHOP[query]))
            ranking = http.post("shop/rank", json={"query": query, "items": items}).raise_for_status().json()
            clicks = [it["id"] for it in ranking["items"] if users.random() < SHOP[query][it["id"]]][:1]
            feedback = {"event_id": ranking["event_id"], "clicks": clicks}
            http.post("shop/feedback", json=feedback).raise_for_status()
            live = ranking["items"][0]["why"] != "baseline"
            if query == "running shoes" and live and clicks and clicks[0] != ranking["items"][0]["id"]:
                clicked = ranking["event_id"]
    return clicked


def take_pictures(url: str, event: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        still: Any = {"reduced_motion": "reduce"}
        wide = browser.new_page(viewport={"width": 1120, "height": 900}, **still)
        wide.goto(f"{url}/try")
        time.sleep(22)  # it learns
        wide.click("button:has-text('Change their minds')")
        wide.wait_for_selector("[data-said]:has-text('has recovered')", timeout=90_000)
        time.sleep(10)
        shoot(wide, "page-demo.png", 740)
        for name, path, height in (
            ("page-overview.png", "/", 780),
            ("page-query.png", "/ranker/shop/query?query=running shoes", 900),
            ("page-event.png", f"/event?id={event}", 760),
        ):
            wide.goto(url + path)
            wide.wait_for_selector("[data-state=live]")
            shoot(wide, name, height)
        phone = browser.new_page(
            viewport={"width": 390, "height": 844}, device_scale_factor=1.5, color_scheme="dark", **still
        )
        phone.goto(url)
        phone.wait_for_selector("[data-state=live]")
        shoot(phone, "page-phone.png", 844)
        browser.close()


def shoot(page: Any, name: str, height: int) -> None:
    """Write what the browser shows, in few colours."""
    size = page.viewport_size["width"]
    page.set_viewport_size({"width": size, "height": height})
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(IMAGES / name, optimize=True)
    written = (IMAGES / name).stat().st_size
    print(f"{name}: {written:,} bytes")
    assert written < MOST, name


if __name__ == "__main__":
    sys.exit(main())
