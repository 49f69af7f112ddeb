"""The schema of a click log: one row per list that was shown.

============  =====================================  ==================================================================
column        SQL type                               meaning
============  =====================================  ==================================================================
query         VARCHAR or BIGINT                      the query
time          TIMESTAMP, BIGINT or DOUBLE            seconds, or a running number if the log has no clock
ranking       VARCHAR[] or BIGINT[]                  the items, top first; at most 62, all different
clicks        SMALLINT[] or INTEGER[]                clicked positions, from 1, in the order of clicking; [] for none
user          VARCHAR or BIGINT, may be missing      the user, or the session
device        VARCHAR, may be missing                the device
propensities  DOUBLE[], may be missing               probabilities of what was shown, of one of three kinds, see below
position      SMALLINT, may be missing               of a row without its list: the position of its item; else NULL
arm           VARCHAR, may be missing                of the service: live, shadow, safe, holdout, or the name of an arm
candidates    as ranking, may be missing             the items that could have been shown; NULL: all of the query
offset        INTEGER, may be missing                of the service: positions above the list, of earlier pages
pinned        SMALLINT[], may be missing             of the service: positions of items that the caller had put there
baseline      as ranking, may be missing             of the service: the list that the caller's order would have been
============  =====================================  ==================================================================

Propensities are of one kind, which a Parquet file is marked with (key ``driftrank.propensities``):

* ``conditional``: by position, the probability of the item given those above it. Their product is that of the list, and
  the product of the first ones that of a prefix. The service records these.
* ``marginal``: by position, the probability that the item stands there, whatever is above. Products mean nothing. The
  Open Bandit Dataset has these.
* ``list``: one number, the probability of the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

REQUIRED = ("query", "time", "ranking", "clicks")
#: columns that only logs of the service have, if any
SERVED = ("arm", "candidates", "offset", "pinned", "baseline")
OPTIONAL = ("user", "device", "propensities", "position", *SERVED)
COLUMNS = (*REQUIRED, *OPTIONAL)

#: the kinds of propensities
PROPENSITIES: Mapping[str, str] = {
    "conditional": "of the item given those above it",
    "marginal": "of the item at its position, whatever is above",
    "list": "of the whole list",
}
#: the key of a Parquet file's metadata that has the kind
MARK = b"driftrank.propensities"

#: maximum number of items of a list: its clicks are the bits of an integer
LONGEST = 62

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
_NUMBERS = (*_INTEGERS, "FLOAT", "DOUBLE", "DECIMAL")
_CLOCKS = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "DATE")

#: by column: a description for messages, and the accepted types with the type they are cast to
_NAMES = ("text or integers", {"VARCHAR": "VARCHAR", **dict.fromkeys(_INTEGERS, "BIGINT")})
_WANTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "query": _NAMES,
    "time": (
        "timestamps or numbers",
        dict.fromkeys(_NUMBERS, "DOUBLE") | dict.fromkeys(_INTEGERS, "BIGINT") | dict.fromkeys(_CLOCKS, "TIMESTAMP"),
    ),
    "ranking": ("lists of text or of integers", {f"{t}[]": f"{as_}[]" for t, as_ in _NAMES[1].items()}),
    "clicks": (
        "lists of integers (the clicked positions, from 1)",
        {**{f"{t}[]": "INTEGER[]" for t in _INTEGERS}, "SMALLINT[]": "SMALLINT[]", "NULL[]": "SMALLINT[]"},
    ),
    "user": _NAMES,
    "device": ("text", {"VARCHAR": "VARCHAR"}),
    "propensities": ("lists of numbers", {f"{t}[]": "DOUBLE[]" for t in _NUMBERS}),
    "arm": ("text", {"VARCHAR": "VARCHAR"}),
    "candidates": ("lists of text or of integers", {f"{t}[]": f"{as_}[]" for t, as_ in _NAMES[1].items()}),
    "offset": ("integers", dict.fromkeys(_INTEGERS, "INTEGER")),
    "pinned": ("lists of integers (positions, from 1)", dict.fromkeys([f"{t}[]" for t in _INTEGERS], "SMALLINT[]")),
    "baseline": ("lists of text or of integers", {f"{t}[]": f"{as_}[]" for t, as_ in _NAMES[1].items()}),
    "position": ("integers, from 1", dict.fromkeys(_INTEGERS, "SMALLINT")),
}  # fmt: skip


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str | int | float) -> str:
    """A value in SQL."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


def check_columns(columns: Mapping[str, str] | None) -> dict[str, str]:
    """A mapping from columns of the schema to columns of a source."""
    for name, theirs in (columns or {}).items():
        if name not in COLUMNS:
            raise ValueError(
                f"columns={dict(columns or {})!r}: a log has no column {name!r}, only {', '.join(COLUMNS)}"
            )
        if not isinstance(theirs, str) or not theirs:
            raise ValueError(f"columns={dict(columns or {})!r}: {name} must be the name of a column")
    return dict(columns or {})


def selected(
    source: str, available: Mapping[str, str], columns: Mapping[str, str], types: Mapping[str, str] | None = None
) -> tuple[dict[str, str], str]:
    """The schema's columns in a table: their types, and the SELECT list that makes them.

    Parameters
    ----------
    source
        The name of the table in error messages.
    available
        The table's columns and their SQL types.
    columns
        Columns of the schema that have another name in the table.
    types
        The columns to make and their types, if the table is part of a larger one; missing ones are NULL.

    Examples
    --------
    >>> available = {"q": "VARCHAR", "time": "INTEGER", "ranking": "BIGINT[]", "clicks": "SMALLINT[]"}
    >>> types, select = selected("log.parquet", available, {"query": "q"})
    >>> types
    {'query': 'VARCHAR', 'time': 'BIGINT', 'ranking': 'BIGINT[]', 'clicks': 'SMALLINT[]'}
    >>> print(select)
    "q" AS query, CAST("time" AS BIGINT) AS time, "ranking" AS ranking, "clicks" AS clicks
    """
    folded = {name.lower(): name for name in available}
    names = {c: folded.get(columns.get(c, c).lower()) for c in COLUMNS}
    missing = [
        columns.get(c, c) for c in COLUMNS if names[c] is None and (c in REQUIRED or (c in columns and not types))
    ]
    if missing:
        raise ValueError(
            f"{source}: no column {', '.join(missing)}; there are: {', '.join(available) or 'none'}. A log has the"
            f" columns {', '.join(REQUIRED)}; map other names with columns, as in"
            f" {missing[0]}={next(iter(available), 'q')}"
        )
    made, parts = {}, []
    for column, name in names.items():
        if name is not None:
            wanted, cast = _WANTED[column]
            kind = available[name]
            plain = re.sub(r"\[\d+\]$", "[]", re.sub(r"\(.*?\)", "", kind))
            if plain not in cast:
                raise ValueError(f"{source}: column {name} holds {kind}; {column} must be {wanted}")
            made[column] = (types or {}).get(column, cast[plain])
            parts.append(f"{_as(quoted(name), kind, made[column])} AS {_safe(column)}")
        elif column in (types or {}):
            made[column] = (types or {})[column]
            parts.append(f"CAST(NULL AS {made[column]}) AS {_safe(column)}")
    return made, ", ".join(parts)


def _safe(column: str) -> str:
    """The name of a column in SQL: one of them is a keyword."""
    return quoted(column) if column == "offset" else column


def _as(name: str, kind: str, wanted: str) -> str:
    if kind == "TIMESTAMP WITH TIME ZONE":  # an instant; the cast alone would give local time
        name, kind = f"({name} AT TIME ZONE 'UTC')", "TIMESTAMP"
    if kind == wanted:
        return name
    return f"CAST({name} AS {wanted})"
