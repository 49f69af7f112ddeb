"""Sessions: a cookie for a key, which expires, and ends with its key."""

from __future__ import annotations

import base64
import dataclasses
import urllib.parse

import pytest

from driftrank.serve.access.keys import Keys, hashed, new_key
from driftrank.serve.page.sessions import LIFETIME, Sessions, Viewer
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import RankerSettings

ADMIN, READ, SHOP, OTHER = (new_key()[0] for _ in range(4))


class Site:
    """Keys that can be changed, and a clock."""

    def __init__(self, secret: str | None = None) -> None:
        self.settings = ServerSettings(admin_key=hashed(ADMIN), read_key=hashed(READ))
        self.rankers = {"shop": RankerSettings(keys=[hashed(SHOP)]), "default": RankerSettings()}
        self.time = 1_000_000.0
        self.sessions = Sessions(Keys(lambda: self.settings, lambda: self.rankers), lambda: secret, lambda: self.time)

    def seen(self, key: str) -> Viewer:
        cookie = self.sessions.begin(key)
        found = self.sessions.viewer(cookie)
        assert found is not None
        assert found.session == cookie
        return found


def test_a_session_has_the_access_of_its_key() -> None:
    site = Site()
    assert (site.seen(ADMIN).rankers, site.seen(ADMIN).changes) == (None, True)
    assert (site.seen(READ).rankers, site.seen(READ).changes) == (None, False)
    assert (site.seen(SHOP).rankers, site.seen(SHOP).changes) == (frozenset({"shop"}), False)
    assert site.seen(SHOP).sees("shop")
    assert not site.seen(SHOP).sees("default")
    assert site.seen(ADMIN).by == f"key {hashed(ADMIN)[7:15]}"


@pytest.mark.parametrize(
    "key", [OTHER, "", "x" * 10_000, hashed(ADMIN), "\x00é"], ids=["another", "none", "long", "its hash", "odd"]
)
def test_a_wrong_key_gets_none(key: str) -> None:
    assert Site().sessions.begin(key) is None


def test_a_cookie_contains_neither_the_key_nor_its_hash() -> None:
    cookie = Site().sessions.begin(ADMIN)
    assert cookie is not None
    parts = [cookie, urllib.parse.unquote(cookie)]
    parts += [base64.b64decode(part + "=" * (-len(part) % 4)).hex() for part in cookie.split(".")[1:]]
    for part in parts:
        assert ADMIN not in part
        assert hashed(ADMIN)[7:] not in part
        assert hashed(ADMIN)[7:23] not in part
    assert cookie != Site().sessions.begin(ADMIN), "every session is another one"


def test_a_session_expires() -> None:
    site = Site()
    cookie = site.sessions.begin(SHOP)
    site.time += LIFETIME - 1
    assert site.sessions.viewer(cookie) is not None
    site.time += 1
    assert site.sessions.viewer(cookie) is None


def test_a_session_ends_with_its_key() -> None:
    site = Site()
    shop, admin = site.sessions.begin(SHOP), site.sessions.begin(ADMIN)
    for cookie in (shop, admin):
        assert site.sessions.viewer(cookie) is not None
    site.rankers["shop"] = RankerSettings(keys=[hashed(OTHER)])
    assert site.sessions.viewer(shop) is None
    assert site.sessions.viewer(admin) is not None
    site.settings = dataclasses.replace(site.settings, admin_key=hashed(OTHER))
    assert site.sessions.viewer(admin) is None


def test_another_process_knows_a_session_only_with_the_same_secret() -> None:
    cookie = Site("s" * 32).sessions.begin(ADMIN)
    assert Site("s" * 32).sessions.viewer(cookie) is not None
    assert Site("t" * 32).sessions.viewer(cookie) is None
    assert Site().sessions.viewer(cookie) is None


def test_a_changed_cookie_is_refused() -> None:
    site = Site()
    cookie = site.sessions.begin(SHOP)
    assert cookie is not None
    end, nonce, signature = cookie.split(".")
    longer = f"{int(end, 16) + 1:x}"
    for wrong in (
        f"{longer}.{nonce}.{signature}", f"{end}.{nonce}a.{signature}", f"{end}.{nonce}.{signature[:-1]}0x",
        f"{end}.{nonce}.", "", ".", "..", "zz.a.b", f"{end}.{nonce}.é", "f" * 500, f"-1.{nonce}.{signature}",
    ):  # fmt: skip
        assert site.sessions.viewer(wrong) is None, wrong
    assert site.sessions.viewer(None) is None


def test_every_session_has_its_own_token() -> None:
    site = Site()
    tokens = {site.seen(SHOP).token, site.seen(SHOP).token, site.seen(ADMIN).token}
    assert len(tokens) == 3


def test_without_keys_everyone_may_look() -> None:
    site = Site()
    site.settings, site.rankers = ServerSettings(), {"default": RankerSettings()}
    found = site.sessions.viewer(None)
    assert found is not None
    assert (found.rankers, found.changes, found.session) == (None, True, None)
