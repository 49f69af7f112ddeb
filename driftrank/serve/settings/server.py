"""The settings of a server, and what they mean together."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from driftrank.policies.parameters import seconds
from driftrank.serve.settings.checks import CHECKS, drain_seconds, several, size_in_bytes
from driftrank.serve.settings.ranker import check_ranker
from driftrank.wire import RankerSettings


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings of a server. Sizes: bytes, or strings such as "512MB"; durations: seconds, or such as "30d"."""

    host: str = "127.0.0.1"
    port: int = 8080  #: 0: any free port
    socket: str | None = None  #: the path of a Unix socket, instead of host and port
    tls_cert: str | None = None  #: a file with a certificate and its chain: HTTPS instead of HTTP
    tls_key: str | None = None  #: the file of its private key
    allowed_hosts: list[str] = field(default_factory=list)  #: besides local ones, if there are no keys; "*": any
    store: str = "sqlite:///driftrank.db"
    #: full: acknowledged requests survive a power cut; relaxed: they survive a crash of the process
    durability: Literal["full", "relaxed"] = "full"
    admin_key: str | list[str] | None = None  #: the hash of the key with access to everything, or several
    read_key: str | list[str] | None = None  #: the same for keys that can read everything and change nothing
    #: signs the sessions of the live page, the same on all nodes; None: a new one at every start, which ends sessions
    session_secret: str | None = None
    rate: float | None = None  #: requests per second of a key, each of an array counted; beyond that, 429
    rankers: Mapping[str, RankerSettings] = field(default_factory=lambda: {"default": RankerSettings()})
    personalizer: str = "default"  #: the ranker behind the routes of Azure Personalizer
    max_body: int | str = "1MB"  #: of a request
    max_header: int | str = "32KB"  #: of a request, with its first line
    header_time: float | str = "10s"  #: for the headers of a request to arrive
    body_time: float | str = "30s"  #: for its body
    send_time: float | str = "30s"  #: for a client to take 64 KB of its answers, if so many wait
    idle_time: float | str = "75s"  #: of a connection without a request; longer than that of a proxy before it
    max_connections: int = 1000  #: beyond that, the oldest that owe a request are closed
    max_pages: int = 100  #: live pages that are open at once; more are shown, and not updated
    max_requests: int = 500  #: in progress at once; beyond that, requests are answered 503
    drain: float | str = 0.0  #: how long /readyz is 503 at a stop before connections are refused
    max_items: int = 1000  #: candidates of a ranking
    max_query_items: int = 10_000  #: items that a query may have learnt of, with a policy that keeps a state of all
    max_features: int = 256  #: features of an item; the memory of a query grows with their square
    max_id: int = 256  #: characters of the id of an item or an event
    max_query: int = 512  #: characters of a query
    max_batch: int = 1000  #: requests in one call
    queue: int = 10_000  #: records that may wait to be stored; beyond that, requests are answered 429
    memory: int | str = "512MB"  #: of learners; beyond that, the least recently used are written to the store
    retention: float | str = "30d"  #: how long records are kept after snapshots cover them; or "forever"
    checkpoint_every: int = 30_000  #: records between snapshots
    checkpoint_seconds: float = 60.0  #: seconds between snapshots, if there are new records
    workers: int = 1  #: processes that answer requests, if the store allows several
    discard: list[str] = field(default_factory=list)  #: rankers that may begin again if their settings require it
    node: str | None = None  #: the name of this service among those that share a store; None: its machine and port
    #: how often to look for records of other services, if there are none of its own; ten times as seldom if there were
    #: none for a second
    follow: float | str = 0.005
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False  #: log every request; failed ones are always logged

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            check(name, getattr(self, name))
        if self.read_keys and not self.admin_keys:
            raise ValueError("admin_key: must be set if there is a read_key")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert, tls_key: must be given together")
        for name, settings in self.rankers.items():
            check_ranker(name, settings)
            if settings.keys and not self.admin_keys:
                raise ValueError(f"admin_key: must be set if rankers have keys, as {name} has")
            if self.retention_seconds < seconds("wait", settings.wait):
                raise ValueError(
                    f"retention={self.retention!r}: must be no shorter than the feedback window, "
                    f"wait={settings.wait!r} in the ranker {name}"
                )
            if settings.stable and self.retention_seconds < seconds("stable", settings.stable):
                raise ValueError(
                    f"retention={self.retention!r}: must be no shorter than stable={settings.stable!r} "
                    f"in the ranker {name}"
                )

    @cached_property
    def admin_keys(self) -> tuple[str, ...]:
        """The hashes of the admin keys."""
        return several(self.admin_key)

    @cached_property
    def read_keys(self) -> tuple[str, ...]:
        return several(self.read_key)

    @cached_property
    def max_body_bytes(self) -> int:
        return size_in_bytes("max_body", self.max_body)

    @cached_property
    def max_header_bytes(self) -> int:
        return size_in_bytes("max_header", self.max_header)

    @cached_property
    def follow_seconds(self) -> float:
        return seconds("follow", self.follow)

    @cached_property
    def header_seconds(self) -> float:
        return seconds("header_time", self.header_time)

    @cached_property
    def body_seconds(self) -> float:
        return seconds("body_time", self.body_time)

    @cached_property
    def send_seconds(self) -> float:
        return seconds("send_time", self.send_time)

    @cached_property
    def idle_seconds(self) -> float:
        return seconds("idle_time", self.idle_time)

    @property
    def drain_seconds(self) -> float:
        return drain_seconds("drain", self.drain)

    @property
    def memory_bytes(self) -> int:
        return size_in_bytes("memory", self.memory)

    @property
    def retention_seconds(self) -> float:
        """Infinity if records are kept forever."""
        return math.inf if self.retention == "forever" else seconds("retention", self.retention)

    @property
    def public(self) -> bool:
        """True if other machines can reach it."""
        if self.host == "localhost" or self.socket is not None:
            return False
        try:
            return not ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:  # a host name, which may resolve to anything
            return True


def check_reachable(settings: ServerSettings) -> None:
    """Raise if other machines can reach a service without a key."""
    if settings.public and not settings.admin_keys:
        raise ValueError(
            f"host={settings.host!r}: must be an address of this machine only, unless DRIFTRANK_ADMIN_KEY is set; "
            "driftrank key makes a key"
        )


#: settings that only a restart can change
_FIXED = ("host", "port", "socket", "store", "durability", "queue", "memory", "workers", "node", "follow")


def reloaded(before: ServerSettings, settings: ServerSettings) -> tuple[ServerSettings, list[str], list[str]]:
    """The settings of a running service after loading them again, the names of those that changed, and of those that
    only a restart can change.
    """
    names = [field.name for field in dataclasses.fields(settings)]
    changed = [name for name in names if getattr(before, name) != getattr(settings, name)]
    kept = _FIXED if (before.tls_cert is None) == (settings.tls_cert is None) else (*_FIXED, "tls_cert", "tls_key")
    fixed = [name for name in changed if name in kept]
    settings = dataclasses.replace(settings, **{name: getattr(before, name) for name in fixed})
    return settings, [name for name in changed if name not in fixed], fixed
