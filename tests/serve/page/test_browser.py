"""The live page in Chromium, against a running service with simulated users. One service and one browser for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftrank.serve.access.keys import new_key
from tests.serve.harness import Harness
from tests.serve.page.browser import Noted, chromium, serious
from tests.serve.page.test_pages import Browser
from tests.serve.running import Running

KEY, HASH = new_key()
SHOP_KEY, SHOP_HASH = new_key()
QUERY = "/ranker/sandbox/query?query=breakfast"
PAGES = ["/", "/ranker/sandbox", QUERY, "/try", "/event?id=shown"]


class Demo(Running):
    """``driftrank demo`` instead of ``driftrank serve``."""

    command = "demo"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("demo")
    variables = {"DRIFTRANK_ADMIN_KEY": HASH, "DRIFTRANK_SESSION_SECRET": "s" * 32, "TMPDIR": str(folder)}
    with Demo(folder, "--no-open", **variables) as running:
        with api(running) as http:
            shop = {"policy": "CascadeUCB1", "k": 2, "keys": [SHOP_HASH]}
            http.put("/v1/rankers/shop", json=shop).raise_for_status()
            for n in range(3):
                http.post("/v1/rankers/shop/rank", json={"query": "hats", "items": ["a", "b"], "event_id": f"{n}"})
                http.post("/v1/rankers/shop/feedback", json={"event_id": f"{n}", "clicks": ["a"]})
            items = {"query": "hats", "items": ["felt", "straw", "top"], "event_id": "shown"}
            http.post("/v1/rankers/shop/rank", json=items).raise_for_status()
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


def api(server: Running) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=30)


@pytest.fixture(scope="module")
def session(server: Running, browser: Any) -> Any:
    """The cookie of a signed-in browser."""
    with httpx.Client() as http:
        answer = http.post(f"{server.url}/sign-in", data={"key": KEY})
        return [{"name": name, "value": value, "url": server.url} for name, value in answer.cookies.items()]


Open = Callable[..., Any]


@pytest.fixture
def look(server: Running, browser: Any, session: Any) -> Iterator[Open]:
    """Opens a page, signed in. At the end of the test: no error, no request to another host."""
    opened: list[tuple[Any, Noted, str]] = []

    def open_(
        path: str, *, signed_in: bool = True, width: int = 1280, scheme: str = "light", refused: str = "no status"
    ) -> Any:
        """``refused``: the status of answers that the browser may note as errors."""
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
        if signed_in:
            context.add_cookies(session)
        noted = Noted(context)
        opened.append((context, noted, refused))
        noted.page.goto(server.url + path)
        return noted.page

    yield open_
    for context, noted, refused in opened:
        context.close()
        assert [error for error in noted.errors if refused not in error] == []
        assert noted.hosts <= {server.url.partition("://")[2]}


def live(page: Any) -> None:
    """Wait for an update without loading the page."""
    before = page.evaluate("window.same = true, Number(document.body.dataset.updates || 0)")
    page.wait_for_function("n => Number(document.body.dataset.updates || 0) > n", arg=before, timeout=30_000)
    assert page.evaluate("window.same"), "the page was loaded again"


def test_sign_in_and_its_refusal(look: Open) -> None:
    page = look("/ranker/shop", signed_in=False)
    assert page.title() == "Sign in – driftrank"
    assert page.evaluate("document.activeElement.id") == "key"
    page.keyboard.type(SHOP_KEY)
    page.keyboard.press("Enter")
    page.wait_for_url("**/ranker/shop")
    assert page.inner_text("h1") == "shop"
    assert page.evaluate("document.cookie") == "", "scripts cannot read it"
    page.click("text=Overview")
    page.wait_for_selector("[data-state=live]")
    assert "sandbox" not in page.inner_text("main")
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in?**")


def test_a_wrong_key_is_refused(server: Running, browser: Any) -> None:
    context = browser.new_context()
    noted = Noted(context)
    page = noted.page
    page.goto(server.url)
    page.fill("#key", "dr_wrong")
    page.click("button:has-text('Sign in')")
    assert "gives access to nothing" in page.inner_text("[role=alert]")
    assert context.cookies() == []
    assert ["403" in error for error in noted.errors] == [True], "the browser notes the status, and nothing else"
    context.close()


def test_without_keys_forms_work_and_nobody_signs_in(tmp_path: Path, browser: Any) -> None:
    with Running(tmp_path, DRIFTRANK_RANKERS__DEFAULT__POLICY="CascadeUCB1") as server:
        noted = Noted(browser.new_context())
        page = noted.page
        page.goto(f"{server.url}/ranker/default")
        page.fill("input[name=k]", "4")
        page.click("text=Review the change")
        page.click("button:has-text('Change')")
        page.wait_for_url("**/ranker/default#settings")
        assert page.input_value("input[name=k]") == "4"
        assert page.goto(f"{server.url}/try").status == 404
        assert ["404" in error for error in noted.errors] == [True]
        page.context.close()
        assert server.stop() == 0


def test_from_the_overview_to_a_ranker_a_query_and_an_event(look: Open) -> None:
    page = look("/")
    page.click("a:has-text('sandbox')")
    page.wait_for_url("**/ranker/sandbox")
    for text in ("Clicks per list, by arm", "Exploration by position", "Time from list to click", "Feedback",
                 "Changes found", "Queries", "Settings"):  # fmt: skip
        assert page.locator(f"h2:has-text('{text}')").count() == 1, text
    page.click("a:has-text('92 days')")
    page.wait_for_url("**window=quarter**")
    page.click("a:has-text('breakfast') >> nth=0")
    page.wait_for_url("**/query?query=breakfast")
    assert page.locator("td.why").count() == 8
    assert " of 8 by its " in page.locator("td.why >> nth=0").inner_text()
    page.click("a:has(code) >> nth=0")
    page.wait_for_url("**/event?id=**")
    assert "What was shown, and why" in page.inner_text("main")
    assert page.locator("tbody tr").count() == 3


def test_it_is_live_without_loading_the_page(look: Open) -> None:
    page = look("/")
    lists = "document.querySelector('.tile dd').textContent"
    before = page.evaluate(lists)
    live(page)
    page.wait_for_function(f"before => {lists} !== before", arg=before, timeout=30_000)
    assert page.get_attribute("[data-status]", "data-state") == "live"


def test_a_change_of_minds_appears_soon_after_it_was_detected(look: Open, server: Running) -> None:
    page = look("/ranker/sandbox")
    page.wait_for_selector("[data-state=live]")
    with api(server) as http:

        def found() -> int:
            return len(http.get("/v1/rankers/sandbox/changes", params={"limit": 1000}).json())

        before = found()
        other = look("/try")
        other.wait_for_selector("[data-state=live]")
        live(other)  # it has learnt something by now
        other.click("button:has-text('Change their minds')")
        other.wait_for_selector(".marker.made", state="attached", timeout=30_000)
        until = time.monotonic() + 90
        while found() == before:
            assert time.monotonic() < until, "the policy has not noticed"
            time.sleep(0.1)
    shown = "Number(document.querySelector('h2:has(+ .small)') && [...document.querySelectorAll('h2')]" \
        ".find(h => h.textContent === 'Changes found').nextElementSibling.textContent.split(',')[0])"  # fmt: skip
    page.wait_for_function(f"before => {shown} > before", arg=before, timeout=5_000)
    other.wait_for_selector(".marker.found", state="attached", timeout=5_000)
    other.wait_for_selector("[data-said]:has-text('noticed')", timeout=5_000)


def test_the_pointer_shows_values_of_a_chart(look: Open) -> None:
    page = look("/try")
    page.wait_for_selector("path.c1[d^=M]", state="attached", timeout=30_000)
    page.hover("svg[data-top]")
    page.wait_for_selector(".tip")
    assert "best possible: 0.632" in page.inner_text(".tip")
    page.hover("h1")
    page.wait_for_selector(".tip", state="hidden")


def test_the_form_says_what_a_change_would_discard(look: Open, server: Running) -> None:
    page = look("/ranker/shop")
    page.fill("input[name=policy]", "CascadeTS")
    page.click("text=Review the change")
    assert "would discard what was learnt from 3 rankings" in page.inner_text("main")
    page.click("text=Back without a change")
    page.wait_for_url("**/ranker/shop#settings")
    page.fill("input[name=holdout]", "0.2")
    page.click("text=Review the change")
    assert "Nothing that was learnt would be lost" in page.inner_text("main")
    page.click("button:has-text('Change')")
    page.wait_for_url("**/ranker/shop#settings")
    with api(server) as http:
        shop = http.get("/v1/rankers/shop").json()
        assert (shop["settings"]["holdout"], shop["settings"]["policy"], shop["steps"]) == (0.2, "CascadeUCB1", 3)
        page.fill("input[name=policy]", "CascadeTS")
        page.click("text=Review the change")
        page.click("button:has-text('Discard it and change')")
        page.wait_for_url("**/ranker/shop#settings")
        shop = http.get("/v1/rankers/shop").json()
        assert (shop["settings"]["policy"], shop["steps"]) == ("CascadeTS", 0)


def test_a_page_of_what_is_gone_does_not_look_live(look: Open, server: Running) -> None:
    with api(server) as http:
        http.put("/v1/rankers/brief", json={"policy": "CascadeUCB1"}).raise_for_status()
        page = look("/ranker/brief")
        page.wait_for_selector("[data-state=live]")
        http.delete("/v1/rankers/brief").raise_for_status()
        page.wait_for_selector("[data-state=stale]:has-text(\"Not updated: ranker 'brief': no such ranker\")")
        http.put("/v1/rankers/brief", json={"policy": "CascadeUCB1"}).raise_for_status()
        page.wait_for_selector("[data-state=live]:has-text('Live')")
        http.delete("/v1/rankers/brief").raise_for_status()


def test_by_keyboard_alone(look: Open) -> None:
    page = look("/")
    page.wait_for_selector("[data-state=live]")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    seen = []
    for _ in range(20):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
        if seen[-1] == "sandbox":
            break
    assert seen[-1] == "sandbox", seen
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focus can be seen"
    live(page)
    live(page)
    assert page.evaluate("document.activeElement.textContent") == "sandbox", "an update keeps the focus"
    page.keyboard.press("Enter")
    page.wait_for_url("**/ranker/sandbox")
    page.focus("#find")
    page.keyboard.type("shown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/event?id=shown")
    assert "felt" in page.inner_text("main")


@pytest.fixture(scope="module")
def gain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a ranker with hours of a comparison, as a service that was started hours ago would send it."""
    folder = tmp_path_factory.mktemp("gain")

    def made() -> str:
        with Harness(folder, ranker={"holdout": 0.5, "planned": 200}) as harness:
            for n in range(260):
                harness.clock.now += 60
                harness.feedback(harness.rank("q", ["a", "b"], f"e{n}").event_id, [1] if n % 2 else [])
            return Browser(harness).get("/ranker/default?window=day").text

    with ThreadPoolExecutor(1) as thread:  # Playwright's loop is in this one
        page = thread.submit(made).result()
    assert "Gain of live over holdout" in page
    assert page.count('class="band') == 3, "of live, holdout and the gain"
    return page.replace("data-stream", "data-not")


def open_gain(page: Any, gain: str) -> None:
    page.route("**/gain", lambda route: route.fulfill(body=gain, content_type="text/html"))
    page.goto(page.url.split("/ranker")[0] + "/gain")
    page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")


def open_review(page: Any, gain: str) -> None:
    page.goto(page.url.split("/gain")[0] + "/ranker/shop")
    page.fill("input[name=k]", "7")
    page.fill("input[name=policy]", "CascadeUCB1:alpha=2")
    page.click("text=Review the change")


def open_sign_in(page: Any, gain: str) -> None:
    page.context.clear_cookies()
    page.goto(page.url.split("/ranker")[0] + "/sign-in")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1440])
def test_it_fits_and_axe_finds_nothing_serious(look: Open, gain: str, width: int, scheme: str) -> None:
    page = look(PAGES[0], width=width, scheme=scheme, refused="404")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == ("rgb(21, 23, 27)" if scheme == "dark" else "rgb(255, 255, 255)"), "as in tokens.css"
    base = page.url.rstrip("/")
    more = [open_gain, open_review, open_sign_in]
    for path in [*PAGES, "/ranker/none", *more]:
        if isinstance(path, str):
            page.goto(base + path)
        else:
            path(page, gain)
            page.wait_for_load_state()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if (width == 320) == (scheme == "dark"):  # each colour and each width once
            assert serious(page) == [], path


def test_it_ends_with_the_service_and_comes_back_by_itself(look: Open, server: Running, browser: Any) -> None:
    context = browser.new_context()
    with httpx.Client() as http:
        answer = http.post(f"{server.url}/sign-in", data={"key": KEY})
        context.add_cookies([{"name": n, "value": v, "url": server.url} for n, v in answer.cookies.items()])
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector("[data-state=live]")
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 9, "open pages do not hold it up"
    assert list(server.folder.iterdir()) == [], "nothing is left of the temporary store"
    page.wait_for_selector("[data-state=waiting]", timeout=30_000)
    server.restart()
    page.wait_for_selector("[data-state=live]", timeout=30_000)
    live(page)
    # without a secret of the settings a restart ends all sessions
    assert server.stop() == 0
    server._variables = {"DRIFTRANK_ADMIN_KEY": HASH, "DRIFTRANK_MAX_PAGES": "1"}
    server.restart()
    page.wait_for_url("**/sign-in?**", timeout=30_000)
    page.fill("#key", KEY)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-state=live]")
    second = context.new_page()
    second.goto(server.url)
    second.wait_for_selector("[data-state=stale]:has-text('Not updated: too many pages are open')")
    page.goto("about:blank")
    second.wait_for_selector("[data-state=live]", timeout=30_000)
    context.close()
