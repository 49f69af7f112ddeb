"""The form for the settings of a ranker: a change is reviewed, with what it would discard, and then applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import UNSET

from driftrank.serve.problems import Refused
from driftrank.serve.service import Service
from driftrank.serve.settings.load import written_settings
from driftrank.serve.settings.ranker import check_ranker, notes
from driftrank.wire import RankerSettings


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
)


class Change(NamedTuple):
    """A setting that would change."""

    name: str
    before: str
    after: str


class Review(NamedTuple):
    """The consequences of a change."""

    changes: list[Change]
    notes: list[str]  #: consequences that are easily overlooked
    discards: str | None  #: what was learnt and would be lost, as text; None: nothing
    error: str | None  #: the reason why the settings are refused
    fields: Mapping[str, str]  #: as sent


def values(settings: RankerSettings) -> dict[str, str]:
    """The settings as the form shows them."""
    return {field.name: _text(getattr(settings, field.name)) for field in FIELDS}


def others(settings: RankerSettings) -> dict[str, str]:
    """Settings that the form does not change; not the hashes of keys."""
    names = [name for name in settings.__struct_fields__ if name not in {*(field.name for field in FIELDS), "keys"}]
    return {name: _text(value) for name in names if (value := getattr(settings, name)) not in (UNSET, None, [])}


def review(service: Service, name: str, form: Mapping[str, str]) -> Review:
    """The consequences of sending a form; nothing is changed."""
    before = values(service.ranker(name).settings)
    fields = {field.name: form[field.name].strip() for field in FIELDS if field.name in form}
    changed = [Change(field, before[field], text) for field, text in fields.items() if text != before[field]]
    try:
        after = service.patched(name, _typed(fields, before))
        check_ranker(name, after)
    except ValueError as error:
        return Review(changed, [], None, str(error), fields)
    return Review(changed, notes(after), service.would_discard(name, after), None, fields)


async def apply(service: Service, name: str, form: Mapping[str, str], by: str) -> None:
    """Change the settings; what would be lost only if the form says that it was read."""
    before = values(service.ranker(name).settings)
    try:
        changes = _typed({field.name: form[field.name] for field in FIELDS if field.name in form}, before)
    except ValueError as error:
        raise Refused(422, "Bad settings", str(error)) from None
    await service.patch_ranker(name, changes, discard=form.get("discard") == "yes", by=by)


def _typed(fields: Mapping[str, str], before: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a form that are others than before."""
    changed = {name: text for name, text in fields.items() if text.strip() != before[name]}
    settings = written_settings(changed)
    return {name: getattr(settings, name) for name in changed}


def _text(value: Any) -> str:
    if value is UNSET:
        return "0"
    return f"{value:g}" if isinstance(value, float) else str(value)
