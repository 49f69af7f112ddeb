"""The changes of users that were detected: the latest of a ranker, part of the state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec import Struct, msgpack

from driftrank.policies.alarms import REMEMBERED
from driftrank.wire import ItemId

if TYPE_CHECKING:
    from driftrank.serve.state.ranker import Ranker

#: the name of the snapshot
CHANGES = "changes"
#: changes of a ranker that are remembered
KEPT = 1_000


class FoundChange(NamedTuple):
    """A change that a learner detected."""

    step: int
    item: ItemId | None  #: None: no particular one
    everything: bool  #: all items begin again, not only this one
    before: float | None  #: the estimate of the item before it, if there was one
    after: float | None  #: the estimate after it; None if the policy has begun again


class Change(Struct, frozen=True, array_like=True):
    """A change in the state. The order of the fields is a promise."""

    number: int  #: ascending, of its record and its place in it
    time: float
    query: str
    step: int
    item: ItemId | None
    everything: bool
    before: float | None
    after: float | None


def numbered(seq: int, query: str, time: float, found: Sequence[FoundChange]) -> list[Change]:
    """The changes found by record ``seq``."""
    first = seq * REMEMBERED  # no record finds more
    return [
        Change(first + n, time, query, it.step, it.item, it.everything, it.before, it.after)
        for n, it in enumerate(found)
    ]


def noted(changes: list[Change], new: Sequence[Change]) -> list[Change]:
    """The latest changes of a ranker, with new ones."""
    return sorted([*changes, *new], key=lambda change: change.number)[-KEPT:]


class SavedChanges(NamedTuple):
    """The changes of all rankers after a record.

    A query that is ahead of the last checkpoint does not detect its changes again in a replay, so they are written with
    the snapshots of queries whenever there are new ones, and taken over when the replay has come to their record.
    """

    seq: int
    of: dict[str, list[Change]]

    @classmethod
    def from_bytes(cls, seq: int, body: bytes) -> Self:
        return cls(seq, msgpack.decode(body, type=dict[str, list[Change]]))

    def restore(self, rankers: Mapping[str, Ranker]) -> None:
        for name, ranker in rankers.items():
            ranker.changes = self.of.get(name, [])


def changes_of(rankers: Mapping[str, Ranker]) -> bytes:
    return msgpack.encode({name: ranker.changes for name, ranker in rankers.items() if ranker.changes})
