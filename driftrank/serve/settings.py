"""The settings of a server: defaults, then a file, then the environment, then options."""

from __future__ import annotations

import dataclasses
import functools
import ipaddress
import json
import math
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import msgspec

from driftrank.files import read_toml
from driftrank.policies.parameters import seconds
from driftrank.serve.keys import as_hash, is_hash
from driftrank.serve.ranker_settings import CHECKS, check_name, check_ranker, policy_of
from driftrank.validation import check_choice, check_integer, check_known, check_number
from driftrank.wire import ArmSettings, RankerSettings

__all__ = [
    "ServerSettings",
    "check_name",
    "check_ranker",
    "check_reachable",
    "load_settings",
    "policy_of",
    "ranker_settings",
    "reloaded",
    "size_in_bytes",
    "written_settings",
]

PREFIX = "DRIFTRANK_"
LOG_LEVELS = ("debug", "info", "warning", "error")
_RANKERS = f"{PREFIX}RANKERS__"
#: variables of the command line, the kernel cache and the client
_OTHERS = {f"{PREFIX}{name}" for name in ("DEBUG", "CACHE_DIR", "CACHE_SIZE", "URL", "KEY")}
#: variables that Kubernetes sets in every container if a service there is named driftrank
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT.*)|PORT_\d+_.*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B", re.IGNORECASE)


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
    node: str | None = None  #: the name of this service among those that share a store; None: its host and port
    #: how often to look for records of other services, if there are none of its own; ten times as seldom if there were
    #: none for a second
    follow: float | str = 0.005
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = False  #: log every request; failed ones are always logged

    def __post_init__(self) -> None:
        for name, check in _CHECKS.items():
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
        return _several(self.admin_key)

    @cached_property
    def read_keys(self) -> tuple[str, ...]:
        return _several(self.read_key)

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
    def idle_seconds(self) -> float:
        return seconds("idle_time", self.idle_time)

    @property
    def drain_seconds(self) -> float:
        return _drain("drain", self.drain)

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
    fixed = [name for name in changed if name in _FIXED]
    settings = dataclasses.replace(settings, **{name: getattr(before, name) for name in fixed})
    return settings, [name for name in changed if name not in fixed], fixed


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


def load_settings(
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
) -> ServerSettings:
    """The settings of a server from a TOML file, the environment and options; later sources win.

    The file has a table ``[server]`` and tables ``[rankers.NAME]``. In the environment a setting of the server is
    ``DRIFTRANK_PORT``, one of a ranker ``DRIFTRANK_RANKERS__SHOP__POLICY``, and ``DRIFTRANK_CONFIG`` names the file if
    ``path`` is None. Options that are None are ignored.
    """
    environ = {} if environ is None else environ
    path = path or environ.get(f"{PREFIX}CONFIG") or None
    loading = _Loading()
    if path is not None:
        loading.file(os.fspath(path))
    loading.environment(environ)
    for name, value in (options or {}).items():
        if value is not None:
            check_known("option", name, _SERVER)
            value = _from_text(value, _SERVER[name]) if isinstance(value, str) else value
            loading.server(name, value, f"option --{name.replace('_', '-')}")
    return loading.settings()


def ranker_settings(given: Mapping[str, Any]) -> RankerSettings:
    """The settings of a ranker; ValueError names a wrong setting and its allowed values.

    >>> ranker_settings({"k": 3, "mode": "shadow"}).mode
    'shadow'
    """
    for name in given:
        check_known("setting", name, _RANKER)
    return RankerSettings(**{name: _typed(name, value, _RANKER[name], "") for name, value in given.items()})


def written_settings(given: Mapping[str, str]) -> RankerSettings:
    """The settings of a ranker as people write them, in a form for example.

    >>> written_settings({"k": "3", "holdout": "0.1"}).k
    3
    """
    for name in given:
        check_known("setting", name, _RANKER)
    return ranker_settings({name: _from_text(text, _RANKER[name]) for name, text in given.items()})


class _Loading:
    """Collects settings from their sources."""

    def __init__(self) -> None:
        self._server: dict[str, Any] = {}
        self._rankers: dict[str, dict[str, Any]] = {"default": {}}
        self._places: dict[str, list[str]] = {}  # the sources of a ranker's settings

    def file(self, path: str) -> None:
        tables = read_toml(path)
        for name, table in tables.items():
            check_known(f"table in {path}", name, ("server", "rankers"))
            if not isinstance(table, dict):
                raise ValueError(f"{path}: {name}={table!r}: must be a table, [{name}]")
        for name, value in tables.get("server", {}).items():
            check_known(f"setting in {path}, [server]", name, _SERVER)
            self.server(name, value, f"{path}, [server]")
        for ranker, table in tables.get("rankers", {}).items():
            place = f"{path}, [rankers.{ranker}]"
            if not isinstance(table, dict):
                raise ValueError(f"{path}, [rankers]: {ranker}={table!r}: must be a table, [rankers.{ranker}]")
            self._of_ranker(ranker, {}, place)
            for name, value in table.items():
                check_known(f"setting in {place}", name, _RANKER)
                self._of_ranker(ranker, {name: value}, place)

    def environment(self, environ: Mapping[str, str]) -> None:
        known = {PREFIX + name.upper(): name for name in _SERVER}
        for variable in sorted(name for name in environ if name.startswith(PREFIX)):
            text, place = environ[variable], f"environment variable {variable}"
            if variable.startswith(_RANKERS):
                ranker, _, name = variable.removeprefix(_RANKERS).rpartition("__")
                check_known(f"setting in {variable}:", name.lower(), _RANKER)
                value = _from_text(text, _RANKER[name.lower()])
                self._of_ranker(self._named_in_capitals(ranker), {name.lower(): value}, place)
            elif variable in known and not (known[variable] == "port" and text.startswith(("tcp://", "udp://"))):
                self.server(known[variable], _from_text(text, _SERVER[known[variable]]), place)
            elif variable not in {*known, *_OTHERS, f"{PREFIX}CONFIG"} and not _KUBERNETES.fullmatch(variable):
                check_known("environment variable", variable, [*known, f"{PREFIX}CONFIG", f"{_RANKERS}NAME__POLICY"])

    def server(self, name: str, value: Any, place: str) -> None:
        value = _typed(name, value, _SERVER[name], place)
        try:
            if name in ("admin_key", "read_key"):
                hashes = [as_hash(name, key) for key in _several(value)]
                value = hashes[0] if len(hashes) == 1 else hashes or None
            _CHECKS[name](name, value)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        self._server[name] = value

    def settings(self) -> ServerSettings:
        rankers = {}
        for ranker, given in self._rankers.items():
            rankers[ranker] = RankerSettings(**given)
            try:
                check_ranker(ranker, rankers[ranker])
            except ValueError as error:
                raise ValueError(f"{' and '.join(self._places.get(ranker, [ranker]))}: {error}") from None
        return ServerSettings(**self._server, rankers=rankers)

    def _of_ranker(self, ranker: str, given: Mapping[str, Any], place: str) -> None:
        try:
            check_name(ranker)
            values = {name: _typed(name, value, _RANKER[name], "") for name, value in given.items()}
            for name, value in values.items():
                CHECKS[name](name, value)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        self._rankers.setdefault(ranker, {}).update(values)
        places = self._places.setdefault(ranker, [])
        if place not in places:
            places.append(place)

    def _named_in_capitals(self, written: str) -> str:
        """The ranker that a variable names: SHOP_NEWS is shop-news if it exists, else shop_news."""
        if written in self._rankers:
            return written
        alike = [name for name in self._rankers if re.sub("[.-]", "_", name).lower() == written.lower()]
        if len(alike) > 1:
            raise ValueError(f"environment variable {_RANKERS}{written}__...: could be {' or '.join(alike)}")
        return alike[0] if alike else written.lower()


def _typed(name: str, value: Any, hint: Any, place: str) -> Any:
    """The value, converted to the type of its setting."""
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        shown = "" if name in ("admin_key", "read_key", "keys", "session_secret") else f"={value!r}"
        before = f"{place}: " if place else ""
        raise ValueError(f"{before}{name}{shown}: must be {_type_name(hint)}") from None


def _from_text(text: str, hint: Any) -> Any:
    """The value of a string from the environment or an option; a string unless its setting has another type."""
    kinds = _kinds(hint)
    stripped = text.strip()
    if type(None) in kinds and stripped.lower() in ("", "none"):
        return None
    if bool in kinds and stripped.lower() in ("true", "false", "1", "0", "yes", "no", "on", "off"):
        return stripped.lower() in ("true", "1", "yes", "on")
    if any(typing.get_origin(kind) is list for kind in kinds):
        if stripped.startswith("["):
            try:
                return json.loads(stripped)
            except ValueError:
                return text
        return [part.strip() for part in stripped.split(",") if part.strip()]
    if stripped.startswith("{") and any(typing.get_origin(kind) is dict for kind in kinds):
        try:
            return json.loads(stripped)
        except ValueError:
            return text
    for number in (int, float):
        if number in kinds:
            try:
                return number(stripped)
            except ValueError:
                continue
    return text


def _type_name(hint: Any) -> str:
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    out = []
    for kind in _kinds(hint):
        if typing.get_origin(kind) is Literal:
            out.append(f"one of {', '.join(map(repr, typing.get_args(kind)))}")
        elif typing.get_origin(kind) is list:
            out.append("a list of strings")
        elif typing.get_origin(kind) is dict:
            out.append(_TABLES[typing.get_args(kind)[1]])
        elif kind is not type(None):
            out.append(names[kind])
    return " or ".join(out)


#: settings that are tables, by what they hold
_TABLES = {
    float: "a table of numbers by name",
    ArmSettings: "a table of arms by name, each with a share, and policy, mode, seed or horizon if they are its own",
}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


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
    if not all(is_hash(key) for key in _several(value)):
        raise ValueError(f"{name}: must be the hash of a key, 'sha256:...', as printed by driftrank key, or several")


def _several(value: str | list[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def _optional(check: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    return lambda name, value: None if value is None else check(name, value)


def _drain(name: str, value: Any) -> float:
    return 0.0 if value == 0 else seconds(name, value)


def _hosts(name: str, value: Any) -> None:
    for host in value:
        if not host or "/" in host:
            raise ValueError(f"{name}={value!r}: must be names of hosts, such as 'ranking.example.org', or '*'")


def _retention(name: str, value: Any) -> None:
    if value != "forever":
        seconds(f"{name} ('forever', or a duration)" if isinstance(value, str) else name, value)


def _at_least(low: int, high: int | None = None) -> Callable[[str, Any], None]:
    return lambda name, value: check_integer(name, value, low, high)


#: the check of each setting by itself
_CHECKS: dict[str, Callable[[str, Any], object]] = {
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
    "idle_time": seconds,
    "max_connections": _at_least(1),
    "max_pages": _at_least(0),
    "max_requests": _at_least(1),
    "drain": _drain,
    "max_items": _at_least(1),
    "max_query_items": _at_least(1),
    "max_features": _at_least(1),
    "max_id": _at_least(1),
    "max_query": _at_least(1),
    "max_batch": _at_least(1),
    "queue": _at_least(1),
    "memory": size_in_bytes,
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
_hints = typing.get_type_hints(ServerSettings)
_SERVER: dict[str, Any] = {f.name: _hints[f.name] for f in dataclasses.fields(ServerSettings) if f.name != "rankers"}
#: a setting that may be unset is not given as such
_RANKER: dict[str, Any] = {
    name: functools.reduce(operator.or_, (kind for kind in _kinds(hint) if kind is not msgspec.UnsetType))
    for name, hint in typing.get_type_hints(RankerSettings).items()
}
