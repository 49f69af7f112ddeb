"""The pages without a browser: access, forms, and what each of them shows."""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from driftrank.serve.access.keys import hashed, new_key
from driftrank.serve.app import build
from driftrank.serve.page import render
from driftrank.serve.page.sessions import COOKIE
from driftrank.wire import ArmSettings
from tests.serve.harness import CHEAP, Harness

ADMIN, READ, SHOP = (new_key()[0] for _ in range(3))
ITEMS = ["red", "blue", "<b>bold</b>", "green"]
NASTY = '<script>alert(1)</script> shoes/"x"\'&'


class Browser:
    """Requests to the pages of a service, with a cookie and tokens as a browser has them."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._app = build(harness.service)
        self.cookie: str | None = None

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
                all_ = {name.replace("_", "-"): value for name, value in headers.items()}
                if self.cookie is not None:
                    all_["cookie"] = f"other=1; {COOKIE}={self.cookie}"
                return await http.request(method, path, data=form, headers=all_)

        answer = self._harness.run(send())
        if "set-cookie" in answer.headers:
            self.cookie = answer.cookies.get(COOKIE)  # None if it has expired
        return answer

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.ask("GET", path, **headers)

    def post(self, path: str, **form: str) -> httpx.Response:
        return self.ask("POST", path, form)

    def sign_in(self, key: str) -> httpx.Response:
        self.cookie = None
        return self.post("/sign-in", key=key)

    def form(self, path: str) -> dict[str, str]:
        """The fields of the form of the settings on a page, as a browser would send them."""
        return fields_of(self.get(path).text)

    def token(self, path: str) -> str:
        found = re.search(r'name="token" value="([0-9a-f]{64})"', self.get(path).text)
        assert found is not None
        return found[1]


def fields_of(page: str) -> dict[str, str]:
    """The fields of the form of the settings."""
    form = re.search(r"<form[^>]*/settings.*?</form>", page, re.DOTALL)
    assert form is not None
    found = re.findall(r'<input(?: type="hidden")? name="(\w+)" value="(.*?)"', form[0])
    for name, options in re.findall(r'<select name="(\w+)">(.*?)</select>', form[0]):
        found += [(name, value) for value in re.findall(r"<option selected>(.*?)<", options)]
    return {name: html.unescape(value) for name, value in found}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A service with keys, two rankers, and some traffic."""
    settings: dict[str, Any] = {"admin_key": hashed(ADMIN), "read_key": hashed(READ)}
    with Harness(tmp_path_factory.mktemp("locked"), ranker={"holdout": 0.3}, **settings) as harness:
        harness.put("shop", policy=CHEAP, k=2, keys=[hashed(SHOP)])
        for n in range(60):
            ranking = harness.rank(NASTY, ITEMS, f"event {n}")
            harness.clock.now += 1.5
            harness.feedback(ranking.event_id, [1] if n % 2 else [])
            harness.rank("hats", ["top", "straw"], f"shop {n}", ranker="shop")
        yield harness


@pytest.fixture
def browser(locked: Harness) -> Browser:
    return Browser(locked)


PAGES = ["/", "/ranker/default", "/ranker/default/query?query=hats", "/event?id=x", "/find?id=x"]


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_there_is_nothing_but_the_sign_in(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?next=%2F")
    assert "default" not in answer.text
    form = browser.get(answer.headers["location"])
    assert form.status_code == 200
    assert 'type="password"' in form.text
    assert browser.get("/page/stream?view=overview").status_code == 401
    assert browser.post("/ranker/default/settings", k="5").status_code == 401
    assert browser.post("/sign-out").status_code == 401


@pytest.mark.parametrize("key", ["", "wrong", hashed(ADMIN), SHOP[:-1]], ids=["none", "wrong", "its hash", "cut off"])
def test_a_wrong_key_is_refused(browser: Browser, key: str) -> None:
    answer = browser.sign_in(key)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert 'role="alert"' in answer.text
    assert hashed(ADMIN) not in answer.text


def test_the_cookie_is_out_of_reach(browser: Browser) -> None:
    answer = browser.post("/sign-in", key=ADMIN, next="/ranker/shop?window=day")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ranker/shop?window=day")
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/", "max-age=43200"):
        assert part in cookie
    assert "secure" not in cookie, "the browser would not send it back over HTTP"
    assert ADMIN.lower() not in cookie
    secure = browser.ask("POST", "/sign-in", {"key": ADMIN}, x_forwarded_proto="https")
    assert secure.status_code == 303


def test_behind_tls_the_cookie_is_secure(locked: Harness) -> None:
    answer = Browser(locked).ask("POST", "/sign-in", {"key": ADMIN}, x_forwarded_proto="https")
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\r\nb"])
def test_the_sign_in_leads_nowhere_else(browser: Browser, to: str) -> None:
    assert browser.post("/sign-in", key=ADMIN, next=to).headers["location"] == "/"


def test_every_answer_has_a_strict_policy(browser: Browser) -> None:
    answers = [browser.get("/sign-in"), browser.get("/")]
    browser.sign_in(ADMIN)
    answers += [browser.get(path) for path in (*PAGES, "/ranker/none")]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["referrer-policy"] == "same-origin"
        assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert not re.search(r"<script(?! type=\"module\" src=\"/page/)| style=| on\w+=|<style|https?://", answer.text)


def test_a_ranker_key_shows_nothing_of_others(browser: Browser) -> None:
    browser.sign_in(SHOP)
    overview = browser.get("/")
    assert "/ranker/shop" in overview.text
    for other in ("default", "Store", "Memory of the process", "Errors", CHEAP + ":"):
        assert other not in overview.text, other
    assert browser.get("/ranker/shop").status_code == 200
    unseen = [browser.get(f"/ranker/{name}") for name in ("default", "none")]
    assert [answer.status_code for answer in unseen] == [404, 404]
    assert unseen[0].text.replace("default", "none") == unseen[1].text, "as if it did not exist"
    assert browser.get("/ranker/default/query?query=x").status_code == 404
    assert browser.get("/page/stream?view=ranker&ranker=default").status_code == 404
    assert "No event with this id" in browser.get("/event?id=event 3").text
    assert browser.get("/event?id=event 3&ranker=default").status_code == 404
    assert "straw" in browser.get("/event?id=shop 3").text
    token = browser.token("/")
    assert browser.post("/ranker/default/settings", token=token, k="5").status_code == 404
    assert browser.post("/ranker/shop/settings", token=token, k="5").status_code == 403


def test_updates_are_of_pages_that_exist(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    for wrong in ("", "?view=none", "?view=ranker", "?view=query&query=x", "?view=../x"):
        assert browser.get(f"/page/stream{wrong}").status_code == 422, wrong


def test_a_read_key_changes_nothing(browser: Browser) -> None:
    browser.sign_in(READ)
    page = browser.get("/ranker/default").text
    assert "Review the change" not in page
    answer = browser.post("/ranker/default/settings", token=browser.token("/"), k="5", step="apply")
    assert answer.status_code == 403


def test_a_change_needs_the_token_of_its_session(browser: Browser, locked: Harness) -> None:
    browser.sign_in(ADMIN)
    token, before = browser.token("/ranker/default"), locked.info().settings
    browser.sign_in(ADMIN)
    for form in ({}, {"token": ""}, {"token": token}, {"token": "0" * 64}, {"token": "é"}):
        answer = browser.post("/ranker/default/settings", step="apply", holdout="0.5", **form)
        assert answer.status_code == 403, form
    good = browser.token("/ranker/default")
    for headers in ({"sec_fetch_site": "cross-site"}, {"origin": "http://evil.example"}):
        form = {"step": "apply", "holdout": "0.5", "token": good}
        assert browser.ask("POST", "/ranker/default/settings", form, **headers).status_code == 403
    assert browser.ask("POST", "/sign-in", {"key": ADMIN}, origin="null").status_code == 303, "signed in already"
    assert locked.info().settings == before


def test_signing_out_ends_the_session_of_the_browser(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    answer = browser.post("/sign-out", token=browser.token("/"))
    assert answer.status_code == 303
    assert "max-age=0" in answer.headers["set-cookie"].lower()
    assert browser.cookie is None
    assert browser.get("/").status_code == 303


def test_names_from_outside_are_escaped(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    ranker = browser.get("/ranker/default").text
    link = re.search(r'href="(/ranker/default/query\?query=[^"]+)"', ranker)
    assert link is not None
    query = browser.get(link[1].replace("&amp;", "&"))
    assert query.status_code == 200
    for page in (ranker, query.text, browser.get("/event?id=event 3").text):
        assert "<script>alert" not in page
        assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in query.text


def test_the_query_page_shows_items_lists_and_reasons(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    page = browser.get("/ranker/default/query").text
    assert "No such query" in page
    page = browser.ask("GET", str(httpx.URL("/ranker/default/query", params={"query": NASTY}))).text
    for text in ("Why is it here?", "1st of 4 by its", "95% interval", "The latest lists", "event 59", "(clicked)"):
        assert text in page, text


def test_the_event_page_says_what_became_of_it(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    page = browser.get("/event?id=event 3").text
    for text in ("What was sent", "What came back", "at position 1", "1.5 s after the list", "Candidates"):
        assert text in page, text
    assert "a click: it attracts" in page or "Kept for comparison" in page
    assert "by its score" in page or "where your own order has it" in page
    assert "<dt>Subject</dt><dd>none</dd>" in page
    assert "The feedback window is open" in browser.get("/event?id=shop 3").text
    assert browser.get("/find?id= event 3 ").headers["location"] == "/event?id=event%203"


def test_settings_say_before_what_a_change_would_discard(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        browser = Browser(harness)
        harness.feedback(harness.rank("q", ["a", "b"]).event_id, [1])
        fields = browser.form("/ranker/default")
        assert (fields["policy"], fields["k"], fields["explore"], fields["planned"]) == (CHEAP, "3", "0", "20000")
        path = "/ranker/default/settings"
        assert "Nothing would change" in browser.post(path, **fields).text
        free = browser.post(path, **fields | {"holdout": "0.25"}).text
        assert "Nothing that was learnt would be lost" in free
        assert "Discard" not in free
        lossy = browser.post(path, **fields | {"policy": "CascadeTS"}).text
        assert "would discard what was learnt from 1 rankings" in lossy
        assert 'name="discard" value="yes"' in lossy
        wrong = browser.post(path, **fields | {"k": "many"}).text
        assert "k=&#39;many&#39;: must be" in wrong
        assert 'name="discard"' not in wrong
        assert harness.info().settings.policy == CHEAP, "nothing was changed by looking"
        # applied without having been read: refused
        refused = browser.post(path, **fields | {"policy": "CascadeTS", "step": "apply"})
        assert (refused.status_code, harness.info().steps) == (409, 1)
        applied = browser.post(path, **fields | {"holdout": "0.25", "step": "apply"})
        assert (applied.status_code, harness.info().settings.holdout, harness.info().steps) == (303, 0.25, 1)
        assert harness.info().settings.wait == "30m"
        fields = browser.form("/ranker/default")
        browser.post(path, **fields | {"policy": "CascadeTS", "step": "apply", "discard": "yes"})
        assert (harness.info().settings.policy, harness.info().steps) == ("CascadeTS", 0)
        last = harness.state.operations[-1]
        assert (last.by, last.discarded) == ("no key", 1)
        harness.put(policy=CHEAP, values={"dwell": 0.3}, second_click="update")
        note = "the first event of a ranking is its end"
        assert note not in browser.get("/ranker/default").text
        review = browser.post(path, **browser.form("/ranker/default") | {"second_click": "refuse"}).text
        assert note in review
        browser.post(path, **fields_of(review))
        assert note in browser.get("/ranker/default").text


def test_a_form_does_not_take_back_what_others_have_changed(tmp_path: Path) -> None:
    with Harness(tmp_path, ranker={"holdout": 0.1}) as harness:
        browser, path = Browser(harness), "/ranker/default/settings"
        page = browser.form("/ranker/default")
        harness.put(policy=CHEAP, k=5, holdout=0.1)  # by the API, while the page is open
        review = browser.post(path, **page | {"holdout": "0.2"})
        assert "were changed since" in review.text
        assert re.findall(r'<th scope="row">(\w+)</th><td>(.*?)</td><td><b>(.*?)</b>', review.text) == [
            ("k", "3", "5"), ("holdout", "0.1", "0.2"),
        ]  # fmt: skip
        stale = fields_of(review.text)
        assert "k" not in stale, "the review is of what was changed in the form, and nothing else"
        # again, between the review and the change; arms are not in the form, and would be discarded
        harness.put(policy=CHEAP, k=5, holdout=0.1, arms={"new": ArmSettings(share=0.5, policy="CascadeTS")})
        refused = browser.post(path, **stale)
        assert (refused.status_code, harness.info().settings.holdout) == (409, 0.1)
        assert '<th scope="row">arms</th><td>–</td><td><b>new: share 0.5, policy CascadeTS</b>' in refused.text
        done = browser.post(path, **fields_of(refused.text))
        settings = harness.info().settings
        assert (done.status_code, settings.k, settings.holdout, set(settings.arms)) == (303, 5, 0.2, {"new"})


def test_a_loss_that_was_not_reviewed_is_reviewed_first(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        browser, path = Browser(harness), "/ranker/default/settings"
        free = browser.post(path, **browser.form("/ranker/default") | {"policy": "CascadeTS"})
        assert "Nothing that was learnt would be lost" in free.text
        harness.feedback(harness.rank("q", ["a", "b"]).event_id, [1])
        refused = browser.post(path, **fields_of(free.text))
        assert (refused.status_code, harness.info().steps) == (409, 1)
        assert "would discard what was learnt from 1 rankings" in refused.text
        deleted = fields_of(refused.text)
        assert deleted["discard"] == "yes"
        harness.run(harness.service.delete_ranker("default"))
        harness.put(policy=CHEAP, k=3)
        harness.feedback(harness.rank("q", ["a", "b"]).event_id, [1])
        assert browser.post(path, **deleted).status_code == 409, "another ranker of the same name"
        assert browser.post(path, **deleted | {"made_from": "no"}).status_code == 422


def test_other_arms_are_looked_at_and_all_are_drawn(tmp_path: Path) -> None:
    arms = {f"arm{n}": ArmSettings(share=0.125, policy="CascadeTS") for n in range(7)}
    with Harness(tmp_path, ranker={"arms": arms}) as harness:
        browser = Browser(harness)
        for n in range(80):
            harness.feedback(harness.rank("q", ["a", "b"], f"e{n}", subject=f"user {n}").event_id, [1])
        ranker = browser.get("/ranker/default").text
        assert set(re.findall(r'<li class="c\d(?: dashed)?">(\w+)</li>', ranker)) == {"live", *arms}
        own = browser.get("/ranker/default/query?query=q").text
        other = browser.get("/ranker/default/query?query=q&arm=arm3").text
        assert 'href="?query=q&amp;arm=arm3">arm3</a>' in own
        assert '<span aria-current="true">arm3</span>' in other
        assert (CHEAP in own, "CascadeTS" in other) == (True, True)
        assert browser.get("/ranker/default/query?query=q&arm=none").status_code == 404


def test_the_value_of_a_shadow_is_shown(tmp_path: Path) -> None:
    with Harness(tmp_path, "CascadeTS", ranker={"mode": "shadow"}) as harness:
        browser = Browser(harness)
        assert "With the setting <code>explore</code>" in browser.get("/ranker/default").text
        harness.put(policy="CascadeTS", k=2, mode="shadow", explore=0.5)
        for n in range(400):
            harness.feedback(harness.rank("q", ["a", "b", "c"], f"e{n}").event_id, [1] if n % 3 else [])
            if n == 20:
                assert "too few yet" in browser.get("/ranker/default").text
        page = browser.get("/ranker/default").text
        assert re.search(r"Its own lists would have a click in [\d.]+% of cases, between", page)


def test_settings_that_the_form_does_not_change_are_written_for_people(tmp_path: Path) -> None:
    arms = {"new": ArmSettings(share=0.5, policy="CascadeTS"), "old": ArmSettings(share=0.25, seed=7)}
    with Harness(tmp_path, ranker={"arms": arms, "values": {"buy": 1.0, "add": 0.2}, "context": ["shop"]}) as harness:
        page = Browser(harness).get("/ranker/default").text
    found = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", page))
    assert found["arms"] == "new: share 0.5, policy CascadeTS; old: share 0.25, seed 7"
    assert found["values"] == "buy: 1; add: 0.2"
    assert found["context"] == "shop"
    assert "PATCH /v1/rankers/default" in page


def test_without_keys_only_this_machine_may_look(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        browser = Browser(harness)
        assert browser.get("/").status_code == 200
        assert browser.get("/sign-in").headers["location"] == "/"
        assert browser.get("/", host="evil.example").status_code == 403
        assert browser.get("/", origin="http://evil.example").status_code == 403
        assert browser.post("/ranker/default/settings", step="apply", holdout="0.5").status_code == 403
        assert browser.get("/try").status_code == 404, "the sandbox is a part of driftrank demo"
        assert browser.post("/try/change").status_code == 404


def test_while_it_starts_the_page_says_so(tmp_path: Path) -> None:
    with Harness(tmp_path) as harness:
        harness.service.ready = False
        answer = Browser(harness).get("/")
        assert (answer.status_code, answer.headers["refresh"]) == (503, "2")
        assert "Starting" in answer.text


def test_files_are_small_and_kept_by_the_browser(browser: Browser) -> None:
    browser.sign_in(ADMIN)
    page = browser.get("/ranker/default")
    total = len(gzip.compress(page.content))
    for path in re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text):
        file = browser.get(path)
        assert "immutable" in file.headers["cache-control"]
        total += len(gzip.compress(file.content))
    assert total < 150_000
    assert browser.get("/page/none.js").status_code == 404
    assert browser.get("/page/..%2frender.py").status_code == 401, "not one of its routes"
    folder = resources.files(render.__package__ or "") / "static"
    assert {file.name for file in folder.iterdir()} == set(render.STATIC)
    colours = (resources.files("driftrank.reporting") / "tokens.css").read_bytes()
    style = render.static("style.css")
    assert style.startswith(colours), "one look with reports and documentation"
    own = style.removeprefix(colours).decode()
    assert not re.search(r"#[0-9a-f]{3,8}\b(?![^{]*\{)", own), "no colour of its own"
    assert set(re.findall(r"var\(--([a-z0-9-]+)", own)) <= set(re.findall(r"--([a-z0-9-]+):", style.decode()))
