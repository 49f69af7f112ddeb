"""Load the settings of a server: defaults, then a file, then the environment, then options."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import os
import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from driftrank.files import read_toml
from driftrank.serve.access.keys import as_hash
from driftrank.serve.settings import checks
from driftrank.serve.settings.ranker import CHECKS, check_name, check_ranker
from driftrank.serve.settings.server import ServerSettings
from driftrank.validation import check_known
from driftrank.wire import ArmSettings, RankerSettings

PREFIX = "DRIFTRANK_"
_RANKERS = f"{PREFIX}RANKERS__"
#: variables of the command line, the kernel cache and the client
_OTHERS = {f"{PREFIX}{name}" for name in ("DEBUG", "CACHE_DIR", "CACHE_SIZE", "URL", "KEY")}
#: variables that Kubernetes sets in every container if a service there is named driftrank
_KUBERNETES = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT.*)|PORT_\d+_.*)")


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
                hashes = [as_hash(name, key) for key in checks.several(value)]
                value = hashes[0] if len(hashes) == 1 else hashes or None
            checks.CHECKS[name](name, value)
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


_hints = typing.get_type_hints(ServerSettings)
_SERVER: dict[str, Any] = {f.name: _hints[f.name] for f in dataclasses.fields(ServerSettings) if f.name != "rankers"}
#: a setting that may be unset is not given as such
_RANKER: dict[str, Any] = {
    name: functools.reduce(operator.or_, (kind for kind in _kinds(hint) if kind is not msgspec.UnsetType))
    for name, hint in typing.get_type_hints(RankerSettings).items()
}
