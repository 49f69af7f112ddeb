"""Rows of old logs, and exported queries."""

from __future__ import annotations

from msgspec import Struct

from .common import ItemId, Named
from .ranking import Item


class WarmRow(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A row of an old click log."""

    query: str  #: as in a request
    ranking: list[ItemId | Item]  #: the items that were shown, from the top
    clicks: list[int] = []  #: clicked positions, from 1
    time: float | None = None  #: seconds since 1970; now by default
    context: Named | list[Named] | None = None  #: as in a request


class SavedQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of an export."""

    query: str  #: as in a request
    state: str  #: base64


class Counted(Struct, frozen=True):
    """The number of rows or queries imported."""

    counted: int  #: rows or queries that were new
    duplicates: int = 0  #: those of a batch that was sent before
