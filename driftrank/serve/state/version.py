"""The version of records and saved states. Services that share a store compare theirs: see ``SharedStore.join``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import json

from driftrank.serve.log.records import Record
from driftrank.serve.state.checkpoint import SavedCheckpoint
from driftrank.serve.state.query import SavedQueryState

#: to be incremented when a policy gets another version, or anything else another meaning, without a new field
_MEANING = 1
#: more than all fields ever
_FIELDS = 100_000


def fields_of(types: Sequence[Any]) -> int:
    """The number of fields of types, and of all that they contain. Fields are only ever added."""
    _, components = json.schema_components(types)
    parts = (schema.get("properties") or schema.get("prefixItems") or () for schema in components.values())
    return len(components) + sum(map(len, parts))


#: higher than that of all earlier versions of driftrank that know fewer fields
VERSION = _MEANING * _FIELDS + fields_of([Record, SavedCheckpoint, SavedQueryState])
