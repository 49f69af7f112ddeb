"""Settings and requests for httpx."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

import httpx

from .. import __version__
from .calls import Call

#: idle connections are closed before the server does it, so that no request meets one that is just being closed
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=4.0)

#: errors of an attempt without an answer; UnicodeError: of a redirect to a host name that cannot be encoded
NO_ANSWER = (httpx.RequestError, TimeoutError, UnicodeError)

#: those of an attempt that never reached the service
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def http_options(url: str, key: str | None) -> dict[str, Any]:
    """The arguments of an httpx client for a service; with several addresses, one of them."""
    try:
        base = httpx.URL(url)
        base.host.encode("idna")  # as sockets do, at every call and in the background
    except (httpx.InvalidURL, TypeError, UnicodeError) as error:
        raise ValueError(f"url={url!r}: {error}") from None
    if base.scheme not in ("http", "https") or not base.host or base.query or base.fragment:
        raise ValueError(f"url={url!r}: must be like http://127.0.0.1:8080")
    if base.port is not None and not 0 <= base.port <= 65535:
        raise ValueError(f"url={url!r}: the port must be from 0 to 65535")
    headers = {"User-Agent": f"driftrank/{__version__}", "Content-Type": "application/json"}
    headers["Prefer"] = "handling=strict"  # no baseline instead of a ranking: the client repeats calls, or falls back
    if key is not None:
        if not key or not key.isascii() or not key.isprintable() or key != key.strip():
            raise ValueError("key: must be a key printed by driftrank key")  # not repeated here: it is a secret
        headers["Authorization"] = f"Bearer {key}"
    return {"base_url": base, "headers": headers, "limits": LIMITS}


def request_of(
    http: httpx.Client | httpx.AsyncClient, call: Call[Any], timeout: float, node: str, headers: Mapping[str, str]
) -> httpx.Request:
    """The request to a node."""
    limits = {"timeout": _Remaining(timeout)}
    return http.build_request(call.method, node + call.path, content=call.body, extensions=limits, headers=headers)


class _Remaining(Mapping[str, float]):
    """Seconds left for the next phase. By itself httpx restarts its timeout for connection, request and answer."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def __getitem__(self, phase: str) -> float:
        return max(0.001, self._end - monotonic())

    def __iter__(self) -> Iterator[str]:
        return iter(("connect", "read", "write", "pool"))

    def __len__(self) -> int:
        return 4
