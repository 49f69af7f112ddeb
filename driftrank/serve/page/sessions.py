"""Sessions of the live page: a key is exchanged for a cookie that expires, and ends with its key."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from driftrank.serve.access.keys import Access, Keys, hashed

COOKIE = "driftrank_session"
#: seconds until a session ends
LIFETIME = 12 * 3600
#: cookies whose key is remembered
_KNOWN = 1_000
#: made when this is imported, before the processes of workers are made
_OWN = secrets.token_hex(32)


class Viewer(NamedTuple):
    """The access of whoever looks at a page."""

    rankers: frozenset[str] | None  #: that are visible; None: all
    changes: bool  #: may change settings
    token: str  #: that a change must bring, so that no other site can make one
    by: str  #: for the log of operations
    session: str | None = None  #: the cookie; None: the service has no keys

    def sees(self, ranker: str) -> bool:
        return self.rankers is None or ranker in self.rankers


class Sessions:
    """Cookies are signed with a secret and the hash of the key they were given for.

    A cookie contains neither: to check one, the signature is made again for every key that the service has. So a key
    that was removed ends its sessions, and there is nothing to store. ``secret`` returns the one of the settings; None:
    one of this process and of those that it starts as workers.
    """

    def __init__(
        self, keys: Keys, secret: Callable[[], str | None] = lambda: None, now: Callable[[], float] = time.time
    ) -> None:
        self._keys = keys
        self._secret = secret
        self._now = now
        self._known: dict[str, str] = {}

    def begin(self, key: str) -> str | None:
        """A new cookie for a key; None if it gives access to nothing."""
        if self._keys.allows(key, ranker=None, admin=False, reads=True) is not Access.GRANTED:
            return None
        begin = f"{int(self._now()) + LIFETIME:x}.{secrets.token_hex(16)}"
        return f"{begin}.{self._sign('session', begin, hashed(key))}"

    def viewer(self, cookie: str | None) -> Viewer | None:
        """The access of a cookie; None if it is not valid, or not any more. Without keys, everyone's."""
        if self._keys.open:
            return Viewer(None, True, self._sign("change"), "no key")
        begin, _, signature = (cookie or "").rpartition(".")
        end, _, nonce = begin.partition(".")
        if cookie is None or not nonce or not cookie.isascii() or not _later(end, self._now()):
            return None
        found = self._key_of(cookie, begin, signature)
        if found is None:
            return None
        rights = self._keys.rights(found)
        return Viewer(rights.rankers, rights.changes, self._sign("change", cookie), f"key {found[7:15]}", cookie)

    def _key_of(self, cookie: str, begin: str, signature: str) -> str | None:
        """The hash of the key that a cookie was given for, if the service still has it."""
        hashes = dict.fromkeys(self._keys.hashes())
        before = self._known.get(cookie)  # with many keys it takes long to find
        found = None
        for digest in [before] if before in hashes else hashes:
            if hmac.compare_digest(signature, self._sign("session", begin, digest)):
                found = digest
        if found is not None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[cookie] = found
        return found

    def _sign(self, *parts: str) -> str:
        secret = self._secret() or _OWN
        return hmac.digest(secret.encode(), "\n".join(parts).encode(), "sha256").hex()


def _later(end: str, now: float) -> bool:
    try:
        return len(end) < 16 and int(end, 16) > now
    except ValueError:
        return False
