"""The form for the settings of a ranker: a change is reviewed, with what it would discard, and then applied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.settings.load import written_settings
from driftrank.serve.settings.ranker import PLANNED, check_ranker, notes
from driftrank.serve.state.ranker import Ranker
from driftrank.wire import ArmSettings, RankerSettings


class Field(NamedTuple):
    """A setting in the form."""

    name: str
    text: str  #: what it is
    choices: tuple[str, ...] = ()


FIELDS = (
    Field("policy", "Policy, as on the command line"),
    Field("mode", "live ranks, shadow shows your order and learns, safe stays near it", ("live", "shadow", "safe")),
    Field("k", "Positions of a list"),
    Field("holdout", "Share of lists in your own order, to compare with"),
    Field("wait", "Feedback window: how long clicks of a list are accepted"),
    Field("silence", "Meaning of no feedback within it", ("no_click", "drop")),
    Field("second_click", "Further clicks on a list", ("refuse", "update")),
    Field("forget_items", "Items that were not offered for this long are forgotten"),
    Field("stable", "How long a subject gets the same list again; 0: not at all"),
    Field("explore", "Temperature of exploration with known probabilities; 0: lists as they are ranked"),
    Field("planned", "Lists of an experiment after which its intervals are narrowest"),
)
_NAMES = [field.name for field in FIELDS]
#: the hidden field with the settings that the form was made from
MADE_FROM = "made_from"
#: values that are left out of the settings
_DEFAULTS = {"stable": "0", "explore": "0", "planned": str(PLANNED)}


class Change(NamedTuple):
    """A setting that would change, or has."""

    name: str
    before: str
    after: str


class Review(NamedTuple):
    """The consequences of a change."""

    changes: list[Change]
    meanwhile: list[Change]  #: what others have changed since the form was made
    notes: list[str]  #: consequences that are easily overlooked
    discards: str | None  #: what was learnt and would be lost, as text; None: nothing
    error: str | None  #: the reason why the settings are refused
    fields: Mapping[str, str]  #: the form of the review: what would change, and what it was made from


def values(settings: RankerSettings) -> dict[str, str]:
    """The settings as the form shows them."""
    return {name: _text(name, getattr(settings, name)) for name in _NAMES}


def others(settings: RankerSettings) -> dict[str, str]:
    """Settings that the form does not change; not the hashes of keys."""
    names = [name for name in settings.__struct_fields__ if name not in {*_NAMES, "keys"}]
    return {name: _text(name, value) for name in names if (value := getattr(settings, name)) not in (UNSET, None, [])}


def made_from(ranker: Ranker) -> str:
    """All that a change of settings is based on."""
    settings = ranker.settings
    keys = {"keys": hashlib.sha256("".join(settings.keys).encode()).hexdigest()[:8]} if settings.keys else {}
    since = {"beginning": f"record {ranker.created}"}  # another one: it was deleted and made again
    return json.dumps({**values(settings), **others(settings), **keys, **since})


def review(service: Service, name: str, form: Mapping[str, str]) -> Review:
    """The consequences of sending a form; nothing is changed. A field that is as the form had it is not a change, even
    if somebody else has changed the setting meanwhile.
    """
    ranker = service.ranker(name)
    now = made_from(ranker)
    before, current = _based_on(form), _based_on({MADE_FROM: now})
    meanwhile = [
        Change(key, before.get(key, "–"), current.get(key, "–"))
        for key in {**before, **current}
        if before.get(key) != current.get(key)
    ]
    sent = {key: form[key].strip() for key in _NAMES if key in form}
    changed = {key: text for key, text in sent.items() if text != before.get(key)}
    changes = [Change(key, current[key], text) for key, text in changed.items() if text != current[key]]
    fields = {**{it.name: it.after for it in changes}, MADE_FROM: now}
    try:
        after = service.patched(name, _typed(changes))
        check_ranker(name, after)
    except ValueError as error:
        return Review(changes, meanwhile, [], None, str(error), fields)
    return Review(changes, meanwhile, notes(after), service.would_discard(name, after), None, fields)


async def apply(service: Service, name: str, form: Mapping[str, str], by: str) -> Review | None:
    """Change the settings, and return None; or another review, if the one that was read does not hold any more: others
    have changed settings, or something would be lost and the form does not say that this was read.
    """
    found = review(service, name, form)
    if found.meanwhile or found.error:
        return found
    try:
        await service.patch_ranker(name, _typed(found.changes), discard=form.get("discard") == "yes", by=by)
    except Refused as problem:
        if problem.status != 409:
            raise
        return review(service, name, form)
    return None


def _based_on(form: Mapping[str, str]) -> dict[str, str]:
    try:
        return msgspec.json.decode(form.get(MADE_FROM, ""), type=dict[str, str])
    except msgspec.DecodeError:
        raise Refused(422, "Bad value", f"{MADE_FROM}: must be that of the page; load it again") from None


def _typed(changes: Sequence[Change]) -> dict[str, Any]:
    """The settings after some changes, by name."""
    settings = written_settings({it.name: it.after for it in changes})
    return {it.name: getattr(settings, it.name) for it in changes}


def _text(name: str, value: Any) -> str:
    if value is UNSET:
        return _DEFAULTS.get(name, "–")
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_part(its)}" for key, its in value.items())
    return _plain(value)


def _part(value: Any) -> str:
    """An arm, or the value of a kind of event."""
    if not isinstance(value, ArmSettings):
        return _plain(value)
    its = ((key, getattr(value, key)) for key in value.__struct_fields__)
    return ", ".join(f"{key} {_plain(its)}" for key, its in its if its is not None)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
