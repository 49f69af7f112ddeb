"""The check of each setting of a server by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from driftrank.policies.parameters import seconds
from driftrank.serve.access.keys import is_hash
from driftrank.serve.settings.ranker import check_name
from driftrank.validation import check_choice, check_integer, check_number

LOG_LEVELS = ("debug", "info", "warning", "error")
#: a size below this, in bytes, has probably lost its unit
_LEAST_MEMORY = 100_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


def size_in_bytes(name: str, value: int | str) -> int:
    """A size in bytes: a number, or a string with a unit such as MB or MiB.

    >>> size_in_bytes("memory", "512MB"), size_in_bytes("memory", "1.5 KiB"), size_in_bytes("memory", 100)
    (512000000, 1536, 100)
    """
    if isinstance(value, str):
        written = _SIZE.fullmatch(value.strip())
        if written is None:
            raise ValueError(f"{name}={value!r}: must be bytes, or a number and a unit, as in '512MB' or '2GiB'")
        number, unit, binary = written.groups()
        value = int(float(number) * (1024 if binary else 1000) ** " KMGT".index(unit.upper() or " "))
    check_integer(f"{name} (a size such as '512MB', or bytes)", value, 1)
    return value


def _memory(name: str, value: Any) -> None:
    size = size_in_bytes(name, value)
    if size < _LEAST_MEMORY:
        raise ValueError(f"{name}={value!r}: is {size} bytes; must be at least 100 kB, as in '512MB'")


def drain_seconds(name: str, value: Any) -> float:
    return 0.0 if value == 0 else seconds(name, value)


def several(value: str | list[str] | None) -> tuple[str, ...]:
    """None, one or several hashes of keys as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _text(name: str, value: Any) -> None:
    if not (isinstance(value, str) and value.strip()):
        raise ValueError(f"{name}={value!r}: must not be empty")


def _secret(name: str, value: Any) -> None:
    if not (isinstance(value, str) and len(value) >= 32):  # not in the message: it is a secret
        raise ValueError(f"{name}: must have at least 32 random characters, as printed by openssl rand -hex 32")


def _store(name: str, value: Any) -> None:
    if "://" not in str(value):
        raise ValueError(f"{name}={value!r}: must be of the form 'sqlite:///driftrank.db'")


def _hashes(name: str, value: Any) -> None:
    if not all(is_hash(key) for key in several(value)):
        raise ValueError(f"{name}: must be the hash of a key, 'sha256:...', as printed by driftrank key, or several")


def _hosts(name: str, value: Any) -> None:
    for host in value:
        if not host or "/" in host:
            raise ValueError(f"{name}={value!r}: must be names of hosts, such as 'ranking.example.org', or '*'")


def _retention(name: str, value: Any) -> None:
    if value != "forever":
        seconds(f"{name} ('forever', or a duration)" if isinstance(value, str) else name, value)


def _optional(check: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    return lambda name, value: None if value is None else check(name, value)


def _at_least(low: int, high: int | None = None) -> Callable[[str, Any], None]:
    return lambda name, value: check_integer(name, value, low, high)


CHECKS: dict[str, Callable[[str, Any], object]] = {
    "host": _text,
    "port": _at_least(0, 65_535),
    "socket": _optional(_text),
    "tls_cert": _optional(_text),
    "tls_key": _optional(_text),
    "allowed_hosts": _hosts,
    "store": _store,
    "durability": lambda name, value: check_choice(name, value, ("full", "relaxed")),
    "admin_key": _hashes,
    "read_key": _hashes,
    "session_secret": _optional(_secret),
    "rate": _optional(lambda name, value: check_number(name, value, 0, open_low=True)),
    "personalizer": lambda name, value: check_name(value),
    "max_body": size_in_bytes,
    "max_header": size_in_bytes,
    "header_time": seconds,
    "body_time": seconds,
    "send_time": seconds,
    "idle_time": seconds,
    "max_connections": _at_least(1),
    "max_pages": _at_least(0),
    "max_requests": _at_least(1),
    "drain": drain_seconds,
    "max_items": _at_least(1),
    "max_query_items": _at_least(1),
    "max_features": _at_least(1),
    "max_id": _at_least(1),
    "max_query": _at_least(1),
    "max_batch": _at_least(1),
    "queue": _at_least(1),
    "memory": _memory,
    "retention": _retention,
    "checkpoint_every": _at_least(1),
    "checkpoint_seconds": seconds,
    "workers": _at_least(1, 1024),
    "discard": lambda name, value: list(map(check_name, value)),
    "node": _optional(_text),
    "follow": seconds,
    "log_level": lambda name, value: check_choice(name, value, LOG_LEVELS),
    "access_log": lambda name, value: check_choice(name, value, (False, True)),
}
