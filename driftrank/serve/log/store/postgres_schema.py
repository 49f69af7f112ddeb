"""The schema of the PostgreSQL store: one schema of a database is one store."""

from __future__ import annotations

#: the version of the layout, to be incremented when an older driftrank could not use it
FORMAT = 1

#: seconds by which a record may be ahead of the clock of the database
AHEAD = 5

_TABLES = """
CREATE TABLE {schema}.meta(name text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE {schema}.log(
    seq        bigint NOT NULL PRIMARY KEY,
    key        bigint NOT NULL,  -- of the query that it is about; 0: of none
    arm        bigint NOT NULL,  -- of the query in the arm that it is about; 0: of none, or of all
    impression bigint NOT NULL,  -- the entry of the impression that it is about; 0: of none
    crc        int NOT NULL,     -- of id and body: the number is not known to the sender
    id         bytea NOT NULL,   -- UTF-8: a text could not have NUL, and would be sorted by the locale
    body       bytea NOT NULL);
ALTER TABLE {schema}.log ALTER body SET STORAGE EXTERNAL;  -- no time for compression
CREATE UNIQUE INDEX log_id ON {schema}.log(id);
CREATE INDEX log_key ON {schema}.log(key, seq);
CREATE TABLE {schema}.snapshots(
    name bytea PRIMARY KEY, key bigint NOT NULL, arm bigint NOT NULL, seq bigint NOT NULL, crc int NOT NULL,
    body bytea NOT NULL);
ALTER TABLE {schema}.snapshots ALTER body SET STORAGE EXTERNAL;
CREATE INDEX snapshots_key ON {schema}.snapshots(key, arm, seq);
CREATE TABLE {schema}.damaged(
    time timestamptz NOT NULL DEFAULT now(), reason text NOT NULL, seq bigint, key bigint, arm bigint,
    impression bigint, crc int, id bytea, body bytea);
-- a node is its name, # and a number of the process
CREATE TABLE {schema}.leases(name text PRIMARY KEY, node text NOT NULL, until timestamptz NOT NULL);
CREATE TABLE {schema}.nodes(node text PRIMARY KEY, url text NOT NULL, seq bigint NOT NULL, seen timestamptz NOT NULL);
INSERT INTO {schema}.meta VALUES ('format', {format}), ('last', 0), ('forgotten', 0), ('covered', 0);
"""

# The lock is given back when the commit is visible, so numbers are in the order of commits: no reader misses one.
# The commit does not wait for the disk; the caller sends an empty one behind it that does, and holds no lock.
_APPEND = """
CREATE FUNCTION {schema}.append(
    ids bytea[], bodies bytea[], keys bigint[], arms bigint[], impressions bigint[], crcs int[], latest float8,
    again bigint,
    OUT base bigint, OUT fresh int, OUT seqs bigint[], OUT mine bool[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    forgotten bigint;
    clock float8 := extract(epoch FROM clock_timestamp());
BEGIN
    IF latest > clock + {ahead} THEN
        RAISE EXCEPTION 'the clock of this machine is % s ahead of the database', round((latest - clock)::numeric, 1)
            USING ERRCODE = 'datetime_field_overflow';
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM pg_advisory_xact_lock({lock});
    SELECT greatest(m.value, coalesce((SELECT l.seq FROM {schema}.log l ORDER BY l.seq DESC LIMIT 1), 0)) INTO base
        FROM {schema}.meta m WHERE m.name = 'last';
    SELECT m.value INTO forgotten FROM {schema}.meta m WHERE m.name = 'forgotten';
    INSERT INTO {schema}.log(seq, key, arm, impression, crc, id, body)
        SELECT base + u.i, u.key, u.arm, u.impression, u.crc, u.id, u.body
        FROM unnest(ids, bodies, keys, arms, impressions, crcs) WITH ORDINALITY
            u(id, body, key, arm, impression, crc, i)
        WHERE u.impression = 0 OR u.impression > forgotten
        ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS fresh = ROW_COUNT;
    IF fresh < cardinality(ids) THEN
        SELECT array_agg(coalesce(l.seq, 0) ORDER BY u.i),
            array_agg(coalesce(l.seq = base + u.i OR (l.seq > again AND l.body = u.body), false) ORDER BY u.i)
            INTO seqs, mine
            FROM unnest(ids, bodies) WITH ORDINALITY u(id, body, i) LEFT JOIN {schema}.log l ON l.id = u.id;
    END IF;
END $$;
"""

SELECT_LAST = (
    "SELECT greatest((SELECT coalesce(max(seq), 0) FROM {schema}.log),"
    " (SELECT value FROM {schema}.meta WHERE name = 'last'))"
)
SELECT_AFTER = (
    "SELECT seq, id, crc, body FROM {schema}.log WHERE seq > %(after)s AND seq <= %(until)s"
    " ORDER BY seq LIMIT %(limit)s"
)

#: snapshots, entries after them, and older entries of the impressions that these are about; in one statement, or
#: retention could come in between
SELECT_QUERIES = """
WITH wanted AS (
    SELECT w.n, w.key, s.seq, s.crc, s.body, greatest(w.since, coalesce(s.seq, 0)) AS after
    FROM unnest(%(names)b::bytea[], %(keys)b::bigint[], %(since)b::bigint[]) WITH ORDINALITY w(name, key, since, n)
    LEFT JOIN {schema}.snapshots s ON s.name = w.name AND s.seq >= w.since),
tail AS (
    SELECT w.n, l.seq, l.id, l.crc, l.body, l.impression
    FROM wanted w JOIN {schema}.log l ON l.key = w.key AND l.seq > w.after AND l.seq <= %(until)s),
older AS (
    SELECT w.n, l.seq, l.id, l.crc, l.body
    FROM wanted w
    JOIN (SELECT n, array_agg(impression) AS those, min(impression) AS first FROM tail WHERE impression > 0 GROUP BY 1)
        t ON t.n = w.n
    JOIN {schema}.log l ON l.key = w.key AND l.seq >= t.first AND l.seq <= w.after
        AND (l.seq = ANY(t.those) OR l.impression = ANY(t.those)))
SELECT n, true, seq, NULL, crc, body FROM wanted WHERE seq IS NOT NULL
UNION ALL SELECT n, false, seq, id, crc, body FROM tail
UNION ALL SELECT n, false, seq, id, crc, body FROM older
ORDER BY 1, 2 DESC, 3
"""

#: the entries after those that are covered: how many, the last, and the keys that no snapshot covers, each with the
#: first entry about one of its impressions, which names the query
SELECT_UNCOVERED = """
WITH next AS (
    SELECT seq, key, arm, impression FROM {schema}.log
    WHERE seq > (SELECT value FROM {schema}.meta WHERE name = 'covered') AND seq <= %(until)s
    ORDER BY seq LIMIT %(limit)s),
bare AS (
    SELECT CASE WHEN arm = 0 THEN key ELSE arm END AS key, max(CASE WHEN impression > 0 THEN impression ELSE seq END)
        AS names FROM next
    WHERE key <> 0 AND CASE WHEN arm = 0
        THEN EXISTS (SELECT FROM {schema}.snapshots s WHERE s.key = next.key AND s.seq < next.seq)
        ELSE NOT EXISTS (SELECT FROM {schema}.snapshots s
            WHERE s.key = next.key AND s.arm = next.arm AND s.seq >= next.seq) END
    GROUP BY 1)
SELECT b.key, l.seq, l.id, l.crc, l.body, (SELECT max(seq) FROM next)
FROM (SELECT 1) one LEFT JOIN bare b ON true LEFT JOIN {schema}.log l ON l.seq = b.names
"""
SELECT_COVERED = """
SELECT least(m.value, (SELECT min(impression) - 1 FROM {schema}.log WHERE seq > m.value AND impression > 0))
FROM {schema}.meta m WHERE m.name = 'covered'
"""


def tables(schema: str, lock: int) -> str:
    """The statements that create a store in a schema. ``schema`` is quoted."""
    return (_TABLES + _APPEND).format(schema=schema, lock=lock, format=FORMAT, ahead=AHEAD)
