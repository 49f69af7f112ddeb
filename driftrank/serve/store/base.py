"""What a store is: a log of entries, and snapshots that shorten its replay.

Nothing else of the service knows where the log lives. A backend is a public subclass of :class:`Store` in a file of
this package; its ``scheme`` is how addresses of such stores begin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, NamedTuple, Self

from driftrank.reflection import Registry
from driftrank.validation import check_choice, check_known

#: ``full``: what was appended survives a power cut. ``relaxed``: it survives the end of the process, however sudden;
#: a power cut may take the last moments.
DURABILITIES = ("full", "relaxed")


class Entry(NamedTuple):
    """One thing that happened."""

    seq: int
    id: str
    body: bytes  #: JSON text (UTF-8), one object


class Snapshot(NamedTuple):
    """A part of the state as it was after the entry ``seq``."""

    name: str
    seq: int
    body: bytes


class Damage(NamedTuple):
    """What a store could not give back.

    >>> print(Damage(17, 3, "its checksum is wrong", kept="the table damaged"))
    the log is cut before entry 17: its checksum is wrong. 3 entries are cut off, kept in the table damaged
    """

    seq: int  #: the first entry that is cut off; of a snapshot, the entry up to which it was (0: cannot be told)
    entries: int | None  #: how many are cut off; None: cannot be told
    reason: str
    snapshot: str | None = None  #: the name of the snapshot that is damaged, if it is one
    kept: str = ""  #: where people can look at what was cut off

    def __str__(self) -> str:
        kept = f", kept in {self.kept}" if self.kept else ""
        if self.snapshot is not None:
            return f"the snapshot {self.snapshot!r} is not used: {self.reason}{kept}"
        if self.entries == 0:
            return f"the log was repaired: {self.reason}. No entry is lost{kept}"
        number = "An unknown number of" if self.entries is None else self.entries
        noun = "entry is" if self.entries == 1 else "entries are"
        return f"the log is cut before entry {self.seq}: {self.reason}. {number} {noun} cut off{kept}"


class StoreError(OSError):
    """A store cannot do what it should; the message is one line that says why. Nothing was changed."""


class StoreFull(StoreError):
    """No room is left. Works again once there is."""


class StoreLocked(StoreError):
    """Another program is writing to it. Works again once that has finished."""


class StoreReadOnly(StoreError):
    """It cannot be written to."""


class StoreTooNew(StoreError):
    """A newer driftrank wrote it."""


class StoreInUse(StoreError):
    """Another service has it open."""


class StoreDamaged(StoreError):
    """What it holds cannot be read."""


class Store(ABC):
    """A log of entries with ascending numbers, and snapshots by name.

    One thread writes (``append``, ``put_snapshots``, ``forget``), another may read meanwhile. What a store is asked to
    write is durable when the call returns, and there as a whole or not at all. Failures are raised as
    :class:`StoreError`.
    """

    scheme: ClassVar[str]  #: of addresses: ``scheme://...``

    last: int  #: the highest sequence number ever given; no number is given twice
    damage: list[Damage]  #: all that was found damaged since the store was opened

    @classmethod
    @abstractmethod
    def from_url(cls, url: str, *, durability: str) -> Self:
        """Open the store at an address; one that does not exist is made."""

    @abstractmethod
    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        """Append pairs of id and body; for each its number and whether it is new.

        An id that is in the log already, or twice in ``entries``, is not appended again: the number is the first one's.
        """

    @abstractmethod
    def read(self, after: int, limit: int = 10_000) -> list[Entry]:
        """The entries with numbers above ``after``, ascending; none when there are no more.

        Stops before a damaged entry; raises :class:`StoreDamaged` when that would be the first. No reader passes it.
        """

    @abstractmethod
    def find(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Those of ``ids`` that are in the log."""

    @abstractmethod
    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = ()) -> None:
        """Drop the snapshots named in ``gone``, then put these, in the place of those of the same names."""

    @abstractmethod
    def get_snapshot(self, name: str) -> Snapshot | None:
        """A snapshot; None if there is none, or it is damaged (then ``damage`` says so)."""

    @abstractmethod
    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """The first ``limit`` names that begin with ``prefix`` and come after ``after``, sorted by code points."""

    @abstractmethod
    def forget(self, before: int, limit: int = 10_000) -> int:
        """Drop entries with numbers below ``before``, the oldest first and at most ``limit``; how many were dropped."""

    @abstractmethod
    def verify(self, after: int) -> Damage | None:
        """Check the entries after a number; cut the log at the last good one, and say what was cut off."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk."""

    @abstractmethod
    def close(self) -> None:
        """Give the store back; another may open it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Store is abstract, as a registry's base always is; mypy wants a class that can be made
registry: Registry[Store] = Registry("store", Store, "driftrank.serve.store")  # type: ignore[type-abstract]


def stores() -> dict[str, type[Store]]:
    """Every known kind of store, by the scheme of its addresses.

    >>> stores()["sqlite"].__name__
    'SQLiteStore'
    """
    return {cls.scheme: cls for cls in registry.all().values()}


def store_at(url: str) -> type[Store]:
    """The kind of store that an address is one of; ValueError if there is none."""
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
