"""The interface of stores that several services write to at the same time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import ClassVar, NamedTuple

from driftrank.serve.log.store.base import LogEntry, Snapshot, Store


class NewEntry(NamedTuple):
    """An entry to be appended. What is not its id or body is for finding it; nothing else depends on it."""

    id: str
    body: bytes
    key: int = 0  #: of the query that it is about: 64 bits, signed; 0: of no query
    impression: int = 0  #: the entry of the impression that it is about; 0: of none, or that entry itself
    time: float = 0.0  #: of the record
    arm: int = 0  #: of the snapshot that it changes; 0: of none, or of all with this key


class Appended(NamedTuple):
    """The result of an append."""

    base: int  #: the last entry before these; all up to it can be read
    settled: list[tuple[int, bool]]  #: as of :meth:`Store.append`; number 0: about an impression that is forgotten


class Wanted(NamedTuple):
    """A query to be loaded."""

    name: str  #: of its snapshot
    key: int
    since: int  #: snapshots and entries from before do not count


class Loaded(NamedTuple):
    """A query as the store has it."""

    snapshot: Snapshot | None
    #: of its key, ascending: those after the snapshot and, of the impressions that these are about, the older ones, too
    entries: list[LogEntry]


#: seconds since its last sign of life in which a service counts as running; it gives one every three seconds
LATELY = 10.0


class Node(NamedTuple):
    """A service that uses the store."""

    name: str  #: as it is configured; two services with the same name are two nodes
    url: str  #: at which it listens
    seq: int  #: the last entry that it has taken in
    seconds: float  #: since it said so
    keeper: bool  #: it holds the lease of the keeper


class SharedStore(Store):
    """A store that several services have open. Entries can be read in the order of their numbers: none appears with a
    number below one that was read before.

    A snapshot is valid up to its number: it contains all entries of its key up to there.
    """

    abstract: ClassVar[bool] = True

    patience: float  #: seconds for which a call is repeated after the connection was lost
    doubts: int  #: appends whose connection was lost, so that ids had to settle their outcome

    def append(self, entries: Sequence[tuple[str, bytes]]) -> list[tuple[int, bool]]:
        return self.append_entries([NewEntry(*entry) for entry in entries]).settled

    @abstractmethod
    def append_entries(self, entries: Sequence[NewEntry]) -> Appended:
        """Append entries; as :meth:`append`, those of other services are in the log, too.

        If the connection is lost, the outcome is settled by the ids: entries that are found with the very same bodies
        are these. Raises :class:`StoreUnknown` if it could not be settled.
        """

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was read is durable, as far as the store promises that: entries of other services can be
        read before these have acknowledged them.
        """

    @abstractmethod
    def restore(self, entries: Sequence[tuple[int, NewEntry]], after: int = 0) -> None:
        """Write entries of another store, all that it has after a number, with the numbers that they have there.

        Those that are here stay. Raises ``ValueError``, and writes nothing, if one of them is another entry, or if
        there are more between them.
        """

    @abstractmethod
    def skip(self, seq: int) -> None:
        """Assign no number up to ``seq`` any more."""

    @abstractmethod
    def follow(self, after: int, until: int | None = None, limit: int = 5_000) -> list[LogEntry]:
        """As :meth:`read`, up to an entry. Raises :class:`LogCut` if entries that were read before are gone, or if
        entries after ``after`` are forgotten already.
        """

    @abstractmethod
    def load(self, wanted: Sequence[Wanted], until: int) -> list[Loaded]:
        """Queries as of entry ``until``, all read at one time. A snapshot may be ahead of it: then it is too early."""

    @abstractmethod
    def cover(self, until: int, limit: int = 10_000) -> Mapping[int, LogEntry] | None:
        """Look at the next ``limit`` entries up to ``until``: the arms that no snapshot covers, each with an entry that
        names its query. If all are covered, the next call goes on after these entries; None: there are no more.
        """

    @abstractmethod
    def covered(self) -> int:
        """All entries up to here are covered by snapshots, and so are those about older impressions."""

    @abstractmethod
    def count(self, prefix: str) -> int:
        """The number of snapshots with a body whose names begin with ``prefix``."""

    @abstractmethod
    def clock(self) -> float:
        """The time of the store, in seconds since 1970. Entries whose times are seconds ahead of it are refused."""

    @abstractmethod
    def join(self, version: int) -> None:
        """Say which version of records and snapshots this service writes.

        Raises :class:`StoreTooNew` if a service with a higher one has joined. If one does so later, snapshots of this
        one are not written any more, and it gets no lease.
        """

    @abstractmethod
    def check_uncut(self) -> None:
        """Raise :class:`LogCut` if the entry that was read or appended last is gone."""

    @abstractmethod
    def lease(self, name: str, process: str, seconds: float) -> bool:
        """Take a lease, or prolong it; False if another process has it. It ends after a time of the store's clock.

        ``process`` is that of :func:`process_of`, here and below.
        """

    @abstractmethod
    def held(self, name: str) -> bool:
        """True if a process has a lease."""

    @abstractmethod
    def announce(self, process: str, url: str, seq: int) -> None:
        """Say that a service is there."""

    @abstractmethod
    def leave(self, process: str) -> None:
        """Say that a service has gone; its leases end."""

    @abstractmethod
    def hurry(self, seconds: float) -> None:
        """Wait no longer than this for the store from now on: after the first call that does, all fail."""

    @abstractmethod
    def nodes(self) -> list[Node]:
        """The services that said so in the last hour; of a name, only those that run if there are any."""

    def check_unused(self) -> None:
        """Raise ``ValueError`` if a service uses the store, or did a moment ago."""
        for node in self.nodes():
            if node.seconds < LATELY:
                raise ValueError(
                    f"node {node.name} used the store {node.seconds:.0f} s ago: stop all nodes first; "
                    f"if it was killed, try again in {LATELY:.0f} s"
                )


def process_of(node: str, incarnation: str) -> str:
    """A process among all that ever used a store: two with the same name, or one before and after a restart, differ.

    >>> node_of(process_of("n1", "3fa2"))
    'n1'
    """
    return f"{node}#{incarnation}"


def node_of(process: str) -> str:
    """The name of the node that a process is."""
    return process.rpartition("#")[0]


def query_key(name: str) -> int:
    """The key of the query with a snapshot of this name, ``q/ranker/query`` or ``q/ranker@arm/query``, which is that of
    all arms; 0 of any other name.
    """
    kind, _, rest = name.partition("/")
    owner, _, query = rest.partition("/")
    return _hash(f"q/{owner.partition('@')[0]}/{query}") if kind == "q" else 0


def arm_key(name: str) -> int:
    """The key of the query of one arm with a snapshot of this name; 0 of any other name."""
    return _hash(name) if name.startswith("q/") else 0


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True) or 1
