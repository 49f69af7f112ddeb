"""A store in a schema of a PostgreSQL database, which several services may use at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Self

from driftrank.serve.log.store.base import (
    DURABILITIES,
    LAST,
    Damage,
    LogCut,
    LogEntry,
    LogReader,
    Snapshot,
    StoreDamaged,
    StoreTooNew,
    fault_of_entry,
)
from driftrank.serve.log.store.postgres_connection import Address, Link
from driftrank.serve.log.store.postgres_reader import PostgresReader
from driftrank.serve.log.store.postgres_rows import (
    checksum,
    end_of_prefix,
    intact_entries,
    stored_id,
    stored_names,
)
from driftrank.serve.log.store.postgres_schema import (
    FORMAT,
    SELECT_AFTER,
    SELECT_COVERED,
    SELECT_LAST,
    SELECT_QUERIES,
    SELECT_UNCOVERED,
    tables,
)
from driftrank.serve.log.store.shared import (
    LATELY,
    Appended,
    Loaded,
    NewEntry,
    Node,
    SharedStore,
    Wanted,
    arm_key,
    node_of,
    query_key,
)
from driftrank.validation import check_choice

if TYPE_CHECKING:
    from psycopg import Connection

#: rows read at once when checking the log
_CHUNK = 10_000
#: an empty commit that waits for disk and standbys; there is one order of commits, so it waits for all before it
_FLUSH = "SELECT pg_logical_emit_message(true, 'driftrank', '')"
#: seconds after which a service that says nothing is not listed any more
_GONE = 3600


class PostgresStore(SharedStore):
    """A log in PostgreSQL. Numbers are in the order of commits, for every reader.

    Parameters
    ----------
    url
        ``postgresql://user@host,host/database?schema=driftrank``: a libpq address, and the schema. Tables are created
        if they do not exist; the role needs the right to create the schema then, and no special right afterwards.
    durability
        ``full``: an append waits for the disk, and for the standbys that ``synchronous_standby_names`` asks for.
        ``relaxed``: it does not.
    patience
        Seconds for which a call is repeated after the connection was lost.
    """

    scheme: ClassVar[str] = "postgresql"

    def __init__(self, url: str, *, durability: str = "full", patience: float = 10.0) -> None:
        check_choice("durability", durability, DURABILITIES)
        self.address = Address(url)
        self.damage: list[Damage] = []
        self.last = 0
        self.patience = patience
        self.doubts = 0  #: appends whose outcome was unknown at first
        self._full = durability == "full"
        self._version: int | None = None  # of what this service writes, once it has joined
        self._mark: tuple[int, bytes] | None = None  # the last entry that was appended or followed, and its id
        self._lock = int.from_bytes(blake2b(self.address.schema.encode(), digest_size=7).digest(), "little")
        self._writer = Link(self.address, patience, self._check)
        # the event loop may wait for it
        self._reader = Link(self.address, min(patience, 0.5))
        try:
            self.last = self._writer.run(lambda connection: self._value(connection, SELECT_LAST))
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, *, durability: str) -> Self:
        return cls(url, durability=durability)

    @classmethod
    def reader(cls, url: str) -> LogReader:
        return PostgresReader(url)

    # -- writing -------------------------------------------------------------------------------------------------------

    def append_entries(self, entries: Sequence[NewEntry]) -> Appended:
        if not entries:
            return Appended(self.last, [])
        for entry in entries:
            entry.body.decode()  # ValueError unless it is UTF-8
        ids, bodies = [stored_id(entry.id) for entry in entries], [entry.body for entry in entries]
        crcs = [checksum(id, body) for id, body in zip(ids, bodies, strict=True)]
        keys, arms = [entry.key for entry in entries], [entry.arm for entry in entries]
        impressions = [entry.impression for entry in entries]
        latest = max(entry.time for entry in entries)
        before, attempts = self.last, 0
        statement = self._sql(
            "SELECT base, fresh, seqs, mine FROM {schema}.append("
            "%b, %b, %b::bigint[], %b::bigint[], %b::bigint[], %b::int[], %s, %s)"
        )

        def append(connection: Connection[Any]) -> Any:
            nonlocal attempts
            attempts += 1
            again = LAST
            if attempts > 1:  # those that are there now, with our bodies, are ours
                again, self.doubts = before, self.doubts + 1
            values = ids, bodies, keys, arms, impressions, crcs, latest, again
            with connection.pipeline() as pipeline:
                cursor = connection.execute(statement, values, binary=True)
                pipeline.sync()  # ends the transaction; the next one waits for disk and standbys
                if self._full:
                    connection.execute(_FLUSH)
            return cursor.fetchone()

        base, fresh, seqs, mine = self._writer.run(append)
        if fresh == len(entries):
            settled = [(seq, True) for seq in range(base + 1, base + fresh + 1)]
        else:
            taken: set[int] = set()
            settled = []
            for seq, ours in zip(seqs, mine, strict=True):
                settled.append((seq, ours and seq not in taken))
                taken.add(seq)
        self.last = max([self.last, base, *(seq for seq, _ in settled)])
        for id, (seq, new) in zip(ids, settled, strict=True):
            if new:
                self._passed(seq, id)
        return Appended(base, settled)

    def flush(self) -> None:
        if self._full:
            self._writer.run(lambda connection: connection.execute(_FLUSH))

    def restore(self, entries: Sequence[tuple[int, NewEntry]], after: int = 0) -> None:
        ids = [stored_id(entry.id) for _, entry in entries]
        rows = (
            [seq for seq, _ in entries], [entry.key for _, entry in entries], [entry.arm for _, entry in entries],
            [entry.impression for _, entry in entries],
            [checksum(id, entry.body) for id, (_, entry) in zip(ids, entries, strict=True)], ids,
            [entry.body for _, entry in entries],
        )  # fmt: skip
        insert = self._sql(
            "INSERT INTO {schema}.log(seq, key, arm, impression, crc, id, body) SELECT * FROM"
            " unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::int[], %b::bytea[], %b::bytea[])"
            " ON CONFLICT DO NOTHING"
        )
        # FULL: also what is here and not there
        other = self._sql(
            "SELECT min(coalesce(l.seq, u.seq)) FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[]) u(seq, id, body)"
            " FULL JOIN (SELECT * FROM {schema}.log WHERE seq > %s AND seq <= %s) l USING (seq)"
            " WHERE (l.id = u.id AND l.body = u.body) IS NOT TRUE"
        )
        last = entries[-1][0]

        def put(connection: Connection[Any]) -> None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
                connection.execute(insert, rows)
                seq = self._value(connection, other, rows[0], rows[5], rows[6], after, last)
                if seq is not None:
                    raise ValueError(f"{self.address}: entry {seq} is another one here: this is not the same log")

        self._writer.run(put)
        self.last = max(self.last, last)

    def skip(self, seq: int) -> None:
        remember = self._sql("UPDATE {schema}.meta SET value = greatest(value, %s) WHERE name = 'last'")
        self._writer.run(lambda connection: connection.execute(remember, (seq,)))
        self.last = max(self.last, seq)

    def put_snapshots(self, snapshots: Sequence[Snapshot], gone: Sequence[str] = (), *, before: int = LAST) -> None:
        # in one order everywhere: services that write the same rows in different ones would wait for each other
        latest: dict[bytes, Snapshot] = {}
        for snapshot in sorted(snapshots, key=lambda it: (it.name.encode(), it.seq)):
            latest[snapshot.name.encode()] = snapshot
        rows = (
            [*latest], [query_key(s.name) for s in latest.values()],
            [arm_key(s.name) for s in latest.values()], [s.seq for s in latest.values()],
            [checksum(name, s.body) for name, s in latest.items()], [s.body for s in latest.values()],
        )  # fmt: skip
        insert = self._sql(
            "INSERT INTO {schema}.snapshots(name, key, arm, seq, crc, body) SELECT * FROM"
            " unnest(%b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::int[], %b::bytea[])"
            " ON CONFLICT (name) DO UPDATE SET seq = excluded.seq, crc = excluded.crc, body = excluded.body"
            " WHERE snapshots.seq <= excluded.seq"
        )
        delete = self._sql(
            "DELETE FROM {schema}.snapshots WHERE name IN (SELECT name FROM {schema}.snapshots"
            " WHERE name = ANY(%b::bytea[]) AND seq < %s ORDER BY name FOR UPDATE)"
        )

        def put(connection: Connection[Any]) -> None:
            with connection.transaction():
                if self._version is not None:
                    newest = "SELECT value FROM {schema}.meta WHERE name = 'version' FOR SHARE"
                    if self._value(connection, newest) > self._version:  # ours would lack what newer ones know
                        return
                if gone:
                    connection.execute(delete, ([name.encode() for name in gone], before))
                if latest:
                    connection.execute(insert, rows)

        self._writer.run(put)

    def forget(self, before: int, limit: int = 10_000) -> int:
        # the lock keeps those out that would append something about an impression that is being forgotten
        oldest = "SELECT max(seq) FROM (SELECT seq FROM {schema}.log WHERE seq < %s ORDER BY seq LIMIT %s) o"
        needed = "SELECT coalesce(min(impression), %s) FROM {schema}.log WHERE seq > %s AND impression > 0"
        remember = (
            "UPDATE {schema}.meta SET value = greatest(value, CASE name WHEN 'last' THEN (" + SELECT_LAST + ")"
            " ELSE %s END) WHERE name IN ('last', 'forgotten')"
        )

        def mark(connection: Connection[Any]) -> int:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
                bound = min(before, self._value(connection, needed, before, self.last))
                highest: int | None = self._value(connection, oldest, bound, limit)
                if highest is not None:
                    connection.execute(self._sql(remember), (highest,))
                return highest or 0

        highest = self._writer.run(mark)
        if not highest:
            return 0
        delete = self._sql("DELETE FROM {schema}.log WHERE seq <= %s")
        return self._writer.run(lambda connection: connection.execute(delete, (highest,)).rowcount)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, after: int, limit: int = 10_000) -> list[LogEntry]:
        return intact_entries(
            self._rows(self._reader, SELECT_AFTER, after=after, until=LAST, limit=limit), self.address
        )

    def follow(self, after: int, until: int | None = None, limit: int = 5_000) -> list[LogEntry]:
        rows = self._rows(self._writer, SELECT_AFTER, after=after, until=LAST if until is None else until, limit=limit)
        entries = intact_entries(rows, self.address)
        if entries:
            if entries[0].seq > after + 1:  # ids that were in the log already leave gaps, too
                forgotten = "SELECT value FROM {schema}.meta WHERE name = 'forgotten'"
                if self._writer.run(lambda connection: self._value(connection, forgotten)) > after:
                    raise LogCut(f"{self.address}: entries after {after} are forgotten already")
            self._passed(entries[-1].seq, rows[len(entries) - 1][1])
            self.last = max(self.last, entries[-1].seq)
        return entries

    def numbered(self, seqs: Sequence[int]) -> list[LogEntry]:
        query = "SELECT seq, id, crc, body FROM {schema}.log WHERE seq = ANY(%(seqs)b::bigint[]) ORDER BY seq"
        rows = self._rows(self._writer, query, seqs=list(seqs))
        return [LogEntry(seq, id.decode(), body) for seq, id, crc, body in rows if crc == checksum(id, body)]

    def find(self, ids: Sequence[str]) -> dict[str, LogEntry]:
        given = {stored_id(id): id for id in ids}
        query = "SELECT seq, id, crc, body FROM {schema}.log WHERE id = ANY(%(ids)b::bytea[])"
        rows = self._rows(self._reader, query, ids=list(given))
        return {given[row[1]]: entry for row in rows for entry in intact_entries([row], self.address)}

    def load(self, wanted: Sequence[Wanted], until: int) -> list[Loaded]:
        names, keys = [one.name.encode() for one in wanted], [one.key for one in wanted]
        since = [one.since for one in wanted]
        rows = self._rows(self._writer, SELECT_QUERIES, names=names, keys=keys, since=since, until=until)
        snapshots: dict[int, Snapshot] = {}
        entries: dict[int, list[Any]] = {}
        for n, is_snapshot, seq, id, crc, body in rows:
            if not is_snapshot:
                entries.setdefault(n, []).append((seq, id, crc, body))
            elif crc == checksum(names[n - 1], body):
                snapshots[n] = Snapshot(wanted[n - 1].name, seq, body)
            else:
                raise StoreDamaged(f"{self.address}: the snapshot {wanted[n - 1].name!r} is damaged")
        out = []
        for n in range(1, len(wanted) + 1):
            its = entries.get(n, [])
            intact = intact_entries(its, self.address)
            if len(intact) < len(its):
                raise StoreDamaged(f"{self.address}: entry {its[len(intact)][0]} of the log is damaged")
            out.append(Loaded(snapshots.get(n), intact))
        return out

    def get_snapshot(self, name: str) -> Snapshot | None:
        query = "SELECT seq, crc, body FROM {schema}.snapshots WHERE name = %(name)b"
        rows = self._rows(self._reader, query, name=name.encode())
        if not rows:
            return None
        ((seq, crc, body),) = rows
        if crc == checksum(name.encode(), body):
            return Snapshot(name, seq, body)
        if all(damage.snapshot != name for damage in self.damage):
            self.damage.append(Damage(seq, 0, "its checksum is wrong", snapshot=name))
        return None

    def snapshot_names(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        return stored_names(partial(self._rows, self._reader), prefix, after, limit)

    def size(self) -> int:
        query = (
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE relnamespace = %(schema)s::regnamespace"
        )
        rows = self._rows(self._reader, query + " AND relkind = 'r'", schema=self.address.quoted.replace("%%", "%"))
        return int(rows[0][0] or 0)

    # -- several services ----------------------------------------------------------------------------------------------

    def cover(self, until: int, limit: int = 10_000) -> Mapping[int, LogEntry] | None:
        rows = self._rows(self._writer, SELECT_UNCOVERED, until=until, limit=limit)
        last = rows[0][5]
        if last is None:
            return None
        found = {row[0]: intact_entries([row[1:5]], self.address)[0] for row in rows if row[1] is not None}
        if not found:
            advance = self._sql("UPDATE {schema}.meta SET value = greatest(value, %s) WHERE name = 'covered'")
            self._writer.run(lambda connection: connection.execute(advance, (last,)))
        return found

    def covered(self) -> int:
        return int(self._writer.run(lambda connection: self._value(connection, SELECT_COVERED)))

    def count(self, prefix: str) -> int:
        query = (
            "SELECT count(*) FROM {schema}.snapshots WHERE name >= %(first)b AND name < %(end)b"
            " AND octet_length(body) > 0"
        )
        first = prefix.encode()
        return int(self._rows(self._writer, query, first=first, end=end_of_prefix(first))[0][0])

    def clock(self) -> float:
        now = "SELECT extract(epoch FROM clock_timestamp())::float8"
        return float(self._writer.run(lambda connection: self._value(connection, now)))

    def join(self, version: int) -> None:
        say = (
            "INSERT INTO {schema}.meta VALUES ('version', %s) ON CONFLICT (name) DO UPDATE"
            " SET value = greatest(meta.value, excluded.value) RETURNING value"
        )
        newest = self._writer.run(lambda connection: self._value(connection, say, version))
        if newest > version:
            raise StoreTooNew(
                f"{self.address}: is used by a newer driftrank (version {newest} of records; this one writes "
                f"{version}); update driftrank"
            )
        self._version = version

    def check_uncut(self) -> None:
        self._writer.run(self._check_mark)

    def lease(self, name: str, process: str, seconds: float) -> bool:
        take = self._sql(
            "INSERT INTO {schema}.leases SELECT %s, %s, clock_timestamp() + make_interval(secs => %s)"
            " WHERE NOT EXISTS (SELECT FROM {schema}.meta WHERE name = 'version' AND value > %s)"
            " ON CONFLICT (name) DO UPDATE SET node = excluded.node, until = excluded.until"
            " WHERE leases.node = excluded.node OR leases.until < clock_timestamp()"
        )
        values = name, process, seconds, LAST if self._version is None else self._version
        return self._writer.run(lambda connection: connection.execute(take, values).rowcount) == 1

    def held(self, name: str) -> bool:
        query = "SELECT EXISTS (SELECT FROM {schema}.leases WHERE name = %s AND until > clock_timestamp())"
        return bool(self._writer.run(lambda connection: self._value(connection, query, name)))

    def announce(self, process: str, url: str, seq: int) -> None:
        say = self._sql(
            "INSERT INTO {schema}.nodes VALUES (%s, %s, %s, clock_timestamp()) ON CONFLICT (node)"
            " DO UPDATE SET url = excluded.url, seq = excluded.seq, seen = excluded.seen"
        )
        self._writer.run(lambda connection: connection.execute(say, (process, url, seq)))

    def leave(self, process: str) -> None:
        def go(connection: Connection[Any]) -> None:
            connection.execute(self._sql("DELETE FROM {schema}.leases WHERE node = %s"), (process,))
            connection.execute(self._sql("DELETE FROM {schema}.nodes WHERE node = %s"), (process,))

        self._writer.run(go)

    def nodes(self) -> list[Node]:
        query = (
            "SELECT n.node, n.url, n.seq, extract(epoch FROM clock_timestamp() - n.seen)::float8, EXISTS (SELECT FROM"
            " {schema}.leases l WHERE l.name = 'keeper' AND l.node = n.node AND l.until > clock_timestamp())"
            " FROM {schema}.nodes n WHERE n.seen > clock_timestamp() - make_interval(secs => %(gone)s) ORDER BY n.node"
        )
        found = [Node(node_of(row[0]), *row[1:]) for row in self._rows(self._reader, query, gone=_GONE)]
        running = {node.name for node in found if node.seconds < LATELY}
        return [node for node in found if node.seconds < LATELY or node.name not in running]

    def _passed(self, seq: int, id: bytes) -> None:
        if self._mark is None or seq > self._mark[0]:
            self._mark = seq, id

    # -- damage --------------------------------------------------------------------------------------------------------

    def verify(self, after: int) -> Damage | None:
        while rows := self._rows(self._writer, SELECT_AFTER, after=after, until=LAST, limit=_CHUNK):
            for seq, id, crc, body in rows:
                if reason := fault_of_entry(body, intact=crc == checksum(id, body)):
                    self.damage.append(self._cut(seq, reason))
                    return self.damage[-1]
            after = rows[-1][0]
        return None

    def _cut(self, seq: int, reason: str) -> Damage:
        remember = "UPDATE {schema}.meta SET value = (" + SELECT_LAST + ") WHERE name = 'last'"
        keep = (
            "INSERT INTO {schema}.damaged(reason, seq, key, arm, impression, crc, id, body)"
            " SELECT %s, seq, key, arm, impression, crc, id, body FROM {schema}.log WHERE seq >= %s"
        )

        def cut(connection: Connection[Any]) -> int:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
                connection.execute(self._sql(remember))
                connection.execute(self._sql(keep), (reason, seq))
                return connection.execute(self._sql("DELETE FROM {schema}.log WHERE seq >= %s"), (seq,)).rowcount

        entries = self._writer.run(cut)
        self._mark = None
        return Damage(seq, entries, reason, kept=f"the table damaged of {self.address}")

    # -- connections ---------------------------------------------------------------------------------------------------

    def _check(self, connection: Connection[Any]) -> None:
        """Create the tables if they do not exist; see that what was read is in them."""
        there = "SELECT to_regclass(%s) IS NOT NULL"
        table = self.address.quoted.replace("%%", "%") + ".meta"
        if not connection.execute(there, (table,)).fetchone()[0]:  # type: ignore[index]
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._lock,))
                if not connection.execute(there, (table,)).fetchone()[0]:  # type: ignore[index]
                    schema = self.address.quoted.replace("%%", "%")
                    exists = connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (self.address.schema,))
                    if exists.fetchone() is None:  # else the right to create schemas is not needed
                        connection.execute(f"CREATE SCHEMA {schema}")
                    connection.execute(tables(schema, self._lock))
        found = self._value(connection, "SELECT value FROM {schema}.meta WHERE name = 'format'")
        if found > FORMAT:
            raise StoreTooNew(
                f"{self.address}: was written by a newer driftrank (format {found}; this one reads {FORMAT}); "
                "update driftrank"
            )
        self._check_mark(connection)

    def _check_mark(self, connection: Connection[Any]) -> None:
        """See that what was read is still there."""
        if self._mark is not None:
            seq, id = self._mark
            query = (
                "SELECT EXISTS (SELECT FROM {schema}.log WHERE seq = %s AND id = %s)"
                " OR %s <= (SELECT value FROM {schema}.meta WHERE name = 'forgotten')"
            )
            if not self._value(connection, query, seq, id, seq):
                self._mark, self.last = None, self._value(connection, SELECT_LAST)
                raise LogCut(f"{self.address}: the log was cut: entry {seq}, read before, is gone")

    def hurry(self, seconds: float) -> None:
        for link in (self._writer, self._reader):
            link.hurry(seconds)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _sql(self, statement: str) -> Any:
        return statement.replace("{schema}", self.address.quoted)

    def _value(self, connection: Connection[Any], query: str, *parameters: Any) -> Any:
        """The single value of a query's result."""
        row = connection.execute(self._sql(query), parameters).fetchone()
        assert row is not None
        return row[0]

    def _rows(self, link: Link, query: str, **parameters: Any) -> list[Any]:
        statement = self._sql(query)
        return link.run(lambda connection: connection.execute(statement, parameters, binary=True).fetchall())
