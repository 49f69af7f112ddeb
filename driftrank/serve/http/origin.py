"""Requests of web pages to a service without keys: any page that a browser shows can send some to this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from driftrank.serve.problems import Refused
from driftrank.serve.settings.server import ServerSettings


def check_origin(headers: Mapping[bytes, bytes], settings: ServerSettings) -> None:
    """Raise if a request comes from a page of another origin, or names a host that is not this machine.

    The latter is how a page reads answers, too: the name of its own host is made to resolve to 127.0.0.1.
    """
    host = headers.get(b"host", b"").decode("latin-1")
    if "*" not in settings.allowed_hosts and settings.socket is None and not _allowed(host, settings):
        detail = f"host={host!r}: must be of this machine while there is no key; see allowed_hosts"
        raise Refused(403, "Host refused", detail)
    origin = headers.get(b"origin")
    if origin is None:
        return
    from_ = origin.decode("latin-1")
    there = from_.partition("://")[2]
    if not there or (there != host and there not in settings.allowed_hosts):
        detail = f"origin={from_!r}: pages of other origins are refused while there is no key; see allowed_hosts"
        raise Refused(403, "Origin refused", detail)


def same_origin(headers: Mapping[bytes, bytes]) -> bool:
    """True if a browser says that a page of this service has sent a request, or nothing says otherwise.

    >>> same_origin({b"sec-fetch-site": b"cross-site"}), same_origin({b"origin": b"http://a", b"host": b"a"})
    (False, True)
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:  # a proxy may change the host
        return site in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == headers.get(b"host")


def _allowed(host: str, settings: ServerSettings) -> bool:
    """True if a Host header names this machine, or a host of the settings."""
    name, local = _name(host)
    return local or name == settings.host or name in settings.allowed_hosts or host in settings.allowed_hosts


@lru_cache(64)
def _name(host: str) -> tuple[str, bool]:
    """The name in a Host header without the port, and whether it is one of this machine; none at all is."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return "", False
    try:
        return name, name in ("", "localhost") or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name, False
