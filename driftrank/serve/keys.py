"""Keys: who may ask for what."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # ``driftrank key`` works without what a server needs
    from driftrank.wire import RankerSettings

_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_KEY = re.compile(r"dr_[A-Za-z0-9_-]{32}")


class Access(Enum):
    """What a key opens."""

    GRANTED = "granted"
    MISSING = "missing"  #: there is no key, and one is needed
    DENIED = "denied"  #: there is one, and it is not for this


_GRANTED, _MISSING = Access.GRANTED, Access.MISSING  # looking into an enumeration takes its time


def new_key() -> tuple[str, str]:
    """A new key, to be given to whoever asks, and its hash, to be kept by the server.

    >>> key, kept = new_key()
    >>> len(key), kept == hashed(key)
    (35, True)
    """
    key = f"dr_{secrets.token_urlsafe(24)}"
    return key, hashed(key)


def hashed(key: str) -> str:
    """How a key is kept.

    >>> hashed("dr_example")
    'sha256:4fc2a397041aeb7c408f434c6bea7b348aee1c45ee9ac797938b9c8b06bb241a'
    """
    # Slow hashes and salts are for passwords, which people choose and can be guessed. Our keys are 192 random bits:
    # there is nothing to guess, and a slow hash would be paid for with every request.
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def is_hash(text: str) -> bool:
    """Whether it is the hash of a key."""
    return _HASH.fullmatch(text) is not None


def as_hash(name: str, text: str) -> str:
    """The hash of a key that is given as a key or as its hash."""
    if is_hash(text):
        return text
    if _KEY.fullmatch(text):
        return hashed(text)
    # the value is a secret, though not a usable one: it does not go into the message
    raise ValueError(f"{name}: must be a key or the hash of one, as driftrank key makes them")


class Keys:
    """The keys of a server: one for everything, and those of its rankers.

    ``rankers`` tells the rankers as they are now, since their keys may change while the server runs. A server without
    any key is open. As soon as there is one, nothing is done without: the admin key opens everything, a key of a ranker
    what has to do with this ranker and is not administration, and a ranker without keys is for the admin key only.
    """

    def __init__(self, admin: str | None, rankers: Callable[[], Mapping[str, RankerSettings]]) -> None:
        self._admin = admin
        self._rankers = rankers

    @property
    def open(self) -> bool:
        """Whether there is no key at all."""
        if self._admin is not None:
            return False
        for settings in self._rankers().values():
            if settings.keys:
                return False
        return True

    def allows(self, presented: str | None, *, ranker: str | None, admin: bool) -> Access:
        """Whether this key opens something of a ranker, or, where that is None, something of no ranker in particular.

        The answer and the time that it takes do not tell whether there is such a ranker.
        """
        if presented is None:
            return _GRANTED if self.open else _MISSING
        is_admin, owned, any_key = self._look_up(presented)
        if is_admin or not any_key:
            return _GRANTED
        good = not admin and (bool(owned) if ranker is None else ranker in owned)
        return _GRANTED if good else Access.DENIED

    def visible(self, presented: str | None) -> frozenset[str] | None:
        """The rankers that a key opens; None: all there are."""
        if presented is None:
            return None if self.open else frozenset()
        is_admin, owned, any_key = self._look_up(presented)
        return None if is_admin or not any_key else frozenset(owned)

    def _look_up(self, presented: str) -> tuple[bool, list[str], bool]:
        """Whether it is the admin key, the rankers that it opens, whether there is any key.

        It is compared with all the hashes, each in constant time: how long it takes does not tell which one was met.
        """
        mine = hashed(presented)
        same = hmac.compare_digest
        is_admin = same(mine, self._admin) if self._admin is not None else False
        any_key = self._admin is not None
        owned = []
        for name, settings in self._rankers().items():
            for kept in settings.keys:
                any_key = True
                if same(mine, kept):
                    owned.append(name)
        return is_admin, owned, any_key
