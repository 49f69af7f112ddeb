"""The interface of stores: a log of entries, and snapshots that shorten its replay.

The rest of the service does not depend on the backend. A backend is a public subclass of :class:`Store` in a file of
this package, found by reflection; the addresses of its stores begin with its ``scheme``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, NamedTuple, Protocol, Self

import msgspec

from driftrank.reflection import Registry
from driftrank.validation import check_choice, check_known

#: ``full``: appended entries survive a power cut. ``relaxed``: they survive the end of the process, however sudden; a
#: power cut may lose the last ones.
DURABILITIES = ("full", "relaxed")


#: above every number of an entry
LAST = 2**63 - 1


class LogEntry(NamedTuple):
    """An entry of the log."""

    seq: int
    id: str
    body: bytes  #: JSON text (UTF-8), one object


class Snapshot(NamedTuple):
    """A part of the state as it was after the entry ``seq``."""

    name: str
    seq: int
    body: bytes


class Damage(NamedTuple):
    """A loss of data.

    >>> print(Damage(17, 3, "its checksum is wrong", kept="the table damaged"))
    the log is cut before entry 17: its checksum is wrong. 3 entries are cut off, kept in the table damaged
    """

    seq: int  #: the first entry cut off; of a snapshot, its last entry (0: unknown)
    entries: int | None  #: the number of entries cut off; None: unknown
    reason: str
    snapshot: str | None = None  #: the name, if a snapshot is damaged
    kept: str = ""  #: the place to which the data was moved

    def __str__(self) -> str:
        kept = f", kept in {self.kept}" if self.kept else ""
        if self.snapshot is not None:
            return f"the snapshot {self.snapshot!r} is not used: {self.reason}{kept}"
        if self.entries == 0:
            return f"the log was repaired: {self.reason}. No entry is lost{kept}"
        number = "An unknown number of" if self.entries is None else self.entries
        noun = "entry is" if self.entries == 1 else "entries are"
        return f"the log is cut before entry {self.seq}: {self.reason}. {number} {noun} cut off{kept}"


_object = msgspec.json.Decoder(dict)


def fault_of_entry(body: bytes, *, intact: bool) -> str | None:
    """The fault of an entry, if it has one; ``intact``: its checksum is right."""
    if not intact:
        return "its checksum is wrong"
    try:
        _object.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return "it is not a JSON object"
    return None


class StoreError(OSError):
    """An operation that failed and changed nothing; the message is the reason, in one line."""


class StoreUnknown(StoreError):
    """The connection was lost, and with it the outcome: it may have been done. The same ids settle it later."""


class LogCut(StoreError):
    """Entries that were read are not in the log any more: whoever has read them must begin again."""


class StoreFull(StoreError):
    """The disk is full. Works again once there is space."""


class StoreLocked(StoreError):
    """Another program is writing to the store. Works again once that has finished."""


class StoreReadOnly(StoreError):
    """The store cannot be written to."""


class StoreTooNew(StoreError):
    """The store was written by a newer driftrank."""


class StoreInUse(StoreError):
    """The store is open in another service."""


class StoreDamaged(StoreError):
    """Data of the store cannot be read."""


class LogReader(ABC):
    """A log that is only read. Holds up no service that writes to it."""

    last: int  #: the highest sequence number ever assigned when it was opened

    @abstractmethod
    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        """As that of a store."""

    @abstractmethod
    def next_id(self, after: str) -> str | None:
        """The first id of the log after a text, by code points; None if there is none."""

    @abstractmethod
    def get_snapshot(self, name: str) -> Snapshot | None:
        """A snapshot; None if it does not exist, or is damaged."""

    @abstractmethod
    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """As that of a store."""

    @abstractmethod
    def close(self) -> None: ...


class Store(ABC):
    """A log of entries with ascending numbers, and snapshots by name.

    One thread writes (``append``, ``put_snapshots``, ``forget``), another may read meanwhile. Each call is durable when
    it returns, and atomic. Failures are raised as :class:`StoreError`.
    """

    scheme: ClassVar[str]  #: of addresses: ``scheme://...``

    last: int  #: the highest sequence number ever assigned; none is assigned twice
    damage: list[Damage]  #: found since the store was opened

    @classmethod
    @abstractmethod
    def from_url(cls, url: str, *, durability: str) -> Self:
        """Open the store at an address; create it if it does not exist."""

    @classmethod
    @abstractmethod
    def reader(cls, url: str) -> LogReader:
        """Open the log at an address to read it only, even while a service has it open; it must exist."""

    @abstractmethod
    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        """Append pairs of id and body; return the number of each, and True if it is new.

        An id that is in the log already, or twice in ``entries``, is not appended again: its number is the first one's.
        """

    @abstractmethod
    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        """The entries with numbers above ``after``, ascending; empty at the end.

        Stops before a damaged entry; raises :class:`StoreDamaged` when that would be the first. No reader passes it.
        """

    @abstractmethod
    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]:
        """Those of ``ids`` that are in the log."""

    @abstractmethod
    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]:
        """The entries with these numbers, ascending, without those that are gone or damaged."""

    @abstractmethod
    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), *, before: int = LAST) -> None:
        """Delete the snapshots named in ``gone`` with numbers below ``before``, then write these.

        A snapshot replaces one of the same name, unless that has a higher number.
        """

    @abstractmethod
    def get_snapshot(self, name: str) -> Snapshot | None:
        """A snapshot; None if it does not exist, or is damaged (which is added to ``damage``)."""

    @abstractmethod
    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """The first ``limit`` names that begin with ``prefix`` and come after ``after``, sorted by code points."""

    @abstractmethod
    def forget(self, before: int, limit: int = 10_000) -> int:
        """Delete entries below number ``before``, oldest first, at most ``limit``; return how many were deleted."""

    @abstractmethod
    def verify(self, after: int) -> Damage | None:
        """Check the entries after a number; cut the log after the last good one, and return what was cut off."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def close(self) -> None:
        """Close the store, so that another service may open it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Readable(Protocol):
    """The part of a store that a state is made from."""

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]: ...

    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]: ...

    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]: ...

    def get_snapshot(self, name: str) -> Snapshot | None: ...


class LogOnly:
    """A store without its snapshots: what the log alone gives."""

    def __init__(self, store: Store) -> None:
        self.read = store.read
        self.find = store.find
        self.numbered = store.numbered

    def get_snapshot(self, name: str) -> Snapshot | None:
        return None


# Store is abstract, as the base of a registry always is; mypy wants a concrete class
registry: Registry[Store] = Registry("store", Store, "driftrank.serve.log.store")  # type: ignore[type-abstract]


def stores() -> dict[str, type[Store]]:
    """All kinds of stores, by the scheme of their addresses.

    >>> stores()["sqlite"].__name__
    'SQLiteStore'
    """
    return {cls.scheme: cls for cls in registry.all().values()}


def store_at(url: str) -> type[Store]:
    """The kind of the store at an address; ValueError if it is unknown."""
    scheme, found, _ = url.partition("://")
    if not found:
        raise ValueError(f"store={url!r}: must be an address such as sqlite:///driftrank.db")
    known = stores()
    check_known("kind of store", scheme, known)
    return known[scheme]


def open_store(url: str, *, durability: str = "full") -> Store:
    """Open the store at an address: ``sqlite:///relative/path`` or ``sqlite:////absolute/path``."""
    check_choice("durability", durability, DURABILITIES)
    return store_at(url).from_url(url, durability=durability)


def open_reader(url: str) -> LogReader:
    """Open the log of the store at an address, to read it only."""
    return store_at(url).reader(url)
