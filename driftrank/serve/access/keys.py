"""Keys and access."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # ``driftrank key`` works without the serve extra
    from driftrank.serve.settings.server import ServerSettings
    from driftrank.wire import RankerSettings

HASH = re.compile(r"sha256:[0-9a-f]{64}")
_KEY = re.compile(r"dr_[A-Za-z0-9_-]{32}")


class Access(Enum):
    """The result of a check of a key."""

    GRANTED = "granted"
    MISSING = "missing"  #: a key is required and was not sent
    DENIED = "denied"  #: the key has no access


class Rights(NamedTuple):
    """The access of a key."""

    rankers: frozenset[str] | None  #: that it can read; None: all
    changes: bool  #: it can change what it reads


_GRANTED, _MISSING = Access.GRANTED, Access.MISSING  # looking up enumeration members is slow


def new_key() -> tuple[str, str]:
    """A new key, for the client, and its hash, for the server.

    >>> key, digest = new_key()
    >>> len(key), digest == hashed(key)
    (35, True)
    """
    key = f"dr_{secrets.token_urlsafe(24)}"
    return key, hashed(key)


def hashed(key: str) -> str:
    """The hash of a key, which is all that the server stores.

    >>> hashed("dr_example")
    'sha256:4fc2a397041aeb7c408f434c6bea7b348aee1c45ee9ac797938b9c8b06bb241a'
    """
    # Slow hashes and salts protect passwords that can be guessed. Keys are 192 random bits, and a slow hash would
    # delay every request.
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def is_hash(text: str) -> bool:
    """True if the text is the hash of a key."""
    return HASH.fullmatch(text) is not None


def as_hash(name: str, text: str) -> str:
    """The hash, given a key or its hash."""
    if is_hash(text):
        return text
    if _KEY.fullmatch(text):
        return hashed(text)
    # the value may be a secret: not in the message
    raise ValueError(f"{name}: must be a key or the hash of one, as printed by driftrank key")


class Keys:
    """The keys of a server: admin keys, keys that only read, and those of its rankers.

    ``settings`` and ``rankers`` return the current ones, since keys may change while the server runs. A server without
    any key is open. Otherwise every request needs a key: an admin key has access to everything, a read key to all that
    changes nothing, a key of a ranker to this ranker except for administration; a ranker without keys needs an admin
    key.
    """

    def __init__(
        self, settings: Callable[[], ServerSettings], rankers: Callable[[], Mapping[str, RankerSettings]]
    ) -> None:
        self._settings = settings
        self._rankers = rankers

    @property
    def open(self) -> bool:
        """True if there are no keys."""
        if self._settings().admin_keys:
            return False
        for settings in self._rankers().values():
            if settings.keys:
                return False
        return True

    def allows(self, presented: str | None, *, ranker: str | None, admin: bool, reads: bool = False) -> Access:
        """Check the access of a key to a ranker; None: to a resource that belongs to no ranker.

        ``reads``: the request changes nothing. Neither the result nor its duration reveals whether the ranker exists.
        """
        if presented is None:
            return _GRANTED if self.open else _MISSING
        everything, owned, any_key = self._look_up(hashed(presented), reads)
        if everything or not any_key:
            return _GRANTED
        good = not admin and (bool(owned) if ranker is None else ranker in owned)
        return _GRANTED if good else Access.DENIED

    def visible(self, presented: str | None) -> frozenset[str] | None:
        """The rankers that a key has access to; None: all."""
        if presented is None:
            return None if self.open else frozenset()
        return self.rights(hashed(presented)).rankers

    def rights(self, digest: str) -> Rights:
        """The access of the key with this hash."""
        everything, owned, any_key = self._look_up(digest, True)
        if not any_key:
            return Rights(None, True)
        return Rights(None if everything else frozenset(owned), self._look_up(digest, False)[0])

    def hashes(self) -> Iterator[str]:
        """The hashes of all keys."""
        settings = self._settings()
        yield from settings.admin_keys
        yield from settings.read_keys
        for of_ranker in self._rankers().values():
            yield from of_ranker.keys

    def _look_up(self, digest: str, reads: bool) -> tuple[bool, list[str], bool]:
        """Return whether it has access to everything, the rankers it has access to, and whether there are keys at all.

        It is compared with all hashes, each in constant time: the duration does not reveal which one matched.
        """
        same = hmac.compare_digest
        settings = self._settings()
        everything = False
        for stored in settings.admin_keys:
            everything |= same(digest, stored)
        for stored in settings.read_keys:
            everything |= same(digest, stored) and reads
        any_key = bool(settings.admin_keys)
        owned = []
        for name, of_ranker in self._rankers().items():
            for stored in of_ranker.keys:
                any_key = True
                if same(digest, stored):
                    owned.append(name)
        return everything, owned, any_key
