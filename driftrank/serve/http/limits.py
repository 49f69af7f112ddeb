"""Limits of fields in the OpenAPI document, in the words of JSON Schema.

The service checks them by its own rules, whose messages name the field, the value and what is allowed.
What has no limit here is bounded by the size of a body (``max_body``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from driftrank.serve.access.keys import HASH
from driftrank.serve.settings.ranker import HOTTEST, LONGEST_LIST, NAME
from driftrank.serve.settings.server import ServerSettings

#: limits of a field: of its strings, numbers or arrays; "items" and "values": the same of what it contains
Limit = Mapping[str, Any]

_KEYWORDS = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems", "uniqueItems"),
}
_COUNT: Limit = {"minimum": 0}
_NUMBER: Limit = {"minimum": 1}
_SHARE: Limit = {"minimum": 0, "maximum": 1}
_POSITION: Limit = {"minimum": 1, "maximum": LONGEST_LIST}
_DURATION: Limit = {"pattern": r"^\s*[0-9.eE+-]+\s*[smhdw]\s*$", "exclusiveMinimum": 0}

#: of answers: counts, steps, positions, probabilities
_ANSWERS: dict[str, dict[str, Limit]] = {
    "Problem": {"status": {"minimum": 400, "maximum": 599}},
    "RankResponse": {"step": _COUNT, "items": {"maxItems": LONGEST_LIST}},
    "RankedItem": {"position": _POSITION, "propensity": _SHARE},
    "FeedbackResult": {"clicks": _COUNT},
    "EventState": {
        "number": _NUMBER, "step": _NUMBER, "items": {"maxItems": LONGEST_LIST}, "collected": {"items": _POSITION},
        "draw": {"pattern": "^[0-9a-f]{16}$"}, **dict.fromkeys(("context", "offset", "repeats"), _COUNT),
    },
    "GivenItem": {"place": _NUMBER, "named": _COUNT},
    "EventFeedback": {"clicks": {"items": _POSITION}, "shown": _COUNT},
    "QueryState": dict.fromkeys(("steps", "lists", "clicks", "last_change", "changes", "items_total"), _COUNT),
    "ItemState": {"samples": _COUNT, "last_change": _COUNT, "place": _COUNT, "prior": _SHARE, "strength": _COUNT},
    "QuerySummary": {**dict.fromkeys(("lists", "recent", "changes"), _COUNT), "loss_error": _COUNT},
    "EndedLists": {"lists": _COUNT, "clicks": _COUNT},
    "ArmCounts": {"lists": _COUNT, "clicks": _COUNT, "lost": _COUNT, "pending": _COUNT},
    "Comparison": {"lists": _COUNT, "needed": _COUNT},
    "Clickedness": {**dict.fromkeys(("lists", "clicked", "clicks"), _COUNT), "share": _SHARE},
    "RankerOverview": {
        **dict.fromkeys(("lists_hour", "lists_day", "changes_day", "pending"), _COUNT), "explored": _SHARE,
    },
    "NodeOverview": {"record": _COUNT},
    "RecentRequests": dict.fromkeys(("requests", "errors"), _COUNT),
    "ServiceOverview": dict.fromkeys(("requests", "errors", "store_bytes", "state_bytes", "memory_bytes"), _COUNT),
    "ShadowState": {"lists": _COUNT, "effective": _COUNT, **dict.fromkeys(("shown", "value", "low", "high"), _SHARE)},
    "AfterPrefix": {"differing": _SHARE, "needed": _COUNT},
    "Explored": {"first": _SHARE, "whole": _SHARE},
    "ChangeLogged": {"number": _NUMBER, "step": _COUNT},
    "OperationLogged": dict.fromkeys(("number", "discarded", "undoes", "created"), _COUNT),
    "RankerInfo": dict.fromkeys(("queries", "lists", "steps", "clicks", "pending"), _COUNT),
    "SharedState": {"strength": _COUNT, "going_on": _SHARE, "after_click": _SHARE, "bytes": _COUNT},
    "Counted": {"counted": _COUNT, "duplicates": _COUNT},
    "RankedAction": {"probability": _SHARE},
}  # fmt: skip


class Limits(NamedTuple):
    """The settings of a server that limit fields."""

    max_items: int
    max_query: int
    max_id: int

    @classmethod
    def of(cls, settings: ServerSettings) -> Self:
        return cls(settings.max_items, settings.max_query, settings.max_id)


def field_limits(settings: Limits) -> dict[str, dict[str, Limit]]:
    """The limits of fields, by the name of their type."""
    id_: Limit = {"minLength": 1, "maxLength": settings.max_id, "minimum": -(2**63), "maximum": 2**63 - 1}
    query: Limit = {"maxLength": settings.max_query}
    return _ANSWERS | {
        "RankRequest": {
            "query": query, "items": {"minItems": 1, "maxItems": settings.max_items, "items": id_},
            "k": _POSITION, "event_id": {"minLength": 1, "maxLength": settings.max_id}, "pinned": {"values": _POSITION},
            "draw": {"minimum": 0, "maximum": 2**64 - 1}, "subject": {"minLength": 1, "maxLength": settings.max_id},
            "offset": _COUNT,
        },
        "Item": {"id": id_},
        "Feedback": {
            "event_id": {"maxLength": settings.max_id}, "shown": _COUNT, "time": {"maxLength": settings.max_id},
            "value": _SHARE,
        },
        "Clicked": {"value": _SHARE},
        "RankerSettings": {
            "k": _POSITION, "holdout": {"minimum": 0, "exclusiveMaximum": 1}, "wait": _DURATION,
            "forget_items": _DURATION, "seed": {"minimum": 0, "maximum": 2**64 - 1},
            "horizon": {"minimum": 1, "maximum": 2**53}, "context": {"uniqueItems": True, "items": {"minLength": 1}},
            "keys": {"items": {"pattern": f"^{HASH.pattern}$"}}, "planned": {"minimum": 100, "maximum": 10**12},
            "explore": {"minimum": 0, "maximum": HOTTEST},
        },
        "ArmSettings": {
            "share": _SHARE, "seed": {"minimum": 0, "maximum": 2**64 - 1}, "horizon": {"minimum": 1, "maximum": 2**53},
        },
        "WarmRow": {"query": query, "ranking": {"minItems": 1, "items": id_}, "clicks": {"items": _NUMBER}},
        "SavedQuery": {"state": {"contentEncoding": "base64"}},
    }  # fmt: skip


def path_limits(settings: Limits) -> dict[str, Limit]:
    """The limits of the parameters of paths."""
    return {
        "ranker": {"pattern": f"^{NAME.pattern}$"},
        "event_id": {"minLength": 1, "maxLength": settings.max_id},
        "query": {"maxLength": settings.max_query},
        "number": {"minimum": 1},
    }


def restrict(schema: dict[str, Any], limit: Limit) -> None:
    """Add limits to a schema, or to those of its alternatives that they fit."""
    for part in (schema, *schema.get("anyOf", ())):
        kind = part.get("type")
        part |= {word: limit[word] for word in _KEYWORDS.get(kind, ()) if word in limit}
        if kind == "array" and "items" in limit:
            restrict(part["items"], limit["items"])
        if kind == "object" and "values" in limit:
            restrict(part["additionalProperties"], limit["values"])
