"""Evaluation in a data warehouse: SQL that adds up a target's rows by bucket of users, and estimates from its output.

The statement reads the log once, fits hazards by the labels of the other half of the users, and returns one row per
bucket. Changes are not looked for, and of the checks those of the weights are made: overlap, and enough lists.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from driftrank.evaluation.base import Floats, added, known_estimators
from driftrank.evaluation.cells import Cells
from driftrank.evaluation.checks import LogChecks
from driftrank.evaluation.estimate import Estimate, How, Model, estimate
from driftrank.evaluation.labels import PRIOR
from driftrank.evaluation.sequences import BUCKETS
from driftrank.evaluation.sums import Sums
from driftrank.logs.count.aggregation_sql import check_table
from driftrank.logs.log import duckdb_connection
from driftrank.logs.schema import LONGEST, literal
from driftrank.validation import check_integer, check_known


class _Dialect(NamedTuple):
    """The parts that are specific to a database."""

    hash: str  #: of users, or of queries and times, as an integer
    bucket: str  #: from 0, of such an integer
    element: str  #: of an array, at position k from 1 (k0 from 0)
    length: str  #: of an array
    first: str  #: the smallest of clicks, NULL for none
    text: str = "{}"  #: an item as a value that can be compared
    number: str = "{}"  #: a propensity


_DIALECTS: Mapping[str, _Dialect] = {
    "duckdb": _Dialect(
        "HASH({0})", "CAST({hash} % {n} AS INTEGER)", "{array}[{k}]", "LEN({array})", "LIST_MIN(clicks)"
    ),
    "spark": _Dialect(
        "XXHASH64({0})", "PMOD({hash}, {n})", "TRY_ELEMENT_AT({array}, {k})", "SIZE({array})", "ARRAY_MIN(clicks)"
    ),
    "bigquery": _Dialect(
        "FARM_FINGERPRINT(TO_JSON_STRING(STRUCT({0})))", "MOD(MOD({hash}, {n}) + {n}, {n})",
        "{array}[SAFE_OFFSET({k0})]", "ARRAY_LENGTH({array})", "(SELECT MIN(c) FROM UNNEST(clicks) AS c)",
    ),
    "snowflake": _Dialect(
        "HASH({0})", "MOD(MOD({hash}, {n}) + {n}, {n})", "{array}[{k0}]", "ARRAY_SIZE({array})",
        "ARRAY_MIN(clicks)::INT", "{}::VARCHAR", "{}::DOUBLE",
    ),
    "clickhouse": _Dialect(
        "cityHash64({0})", "{hash} % {n}", "{array}[{k}]", "LENGTH({array})",
        "IF(EMPTY(clicks), NULL, arrayMin(clicks))",
    ),
}  # fmt: skip

DIALECTS = tuple(_DIALECTS)

#: sums that the statement returns besides those by position
_SUMS = ("lists", "reward", "gains", "gain_squares", "losses", "loss_squares", "full_reward", "full", "full_squares")

#: the largest weights
_LARGEST = ("largest", "largest_full")


def print_sql(k: int, dialect: str = "duckdb", table: str = "log", target: str = "target") -> str:
    """The statement for a database with the log and the target's lists as tables; :func:`read_sums` reads its output.

    Parameters
    ----------
    k
        Positions to evaluate.
    dialect
        ``"duckdb"``, ``"spark"``, ``"bigquery"``, ``"snowflake"`` or ``"clickhouse"``.
    table
        The log: columns query, time, ranking, clicks, propensities (arrays) and user, which may be NULL.
    target
        The lists: columns query and ranking, one row per query.

    >>> print(print_sql(1).splitlines()[0])
    WITH shown AS (
    """
    check_integer("k", k, 1, LONGEST)
    check_known("dialect", dialect, DIALECTS)
    check_table("table", table, dialect)
    check_table("target", target, dialect)
    parts = _DIALECTS[dialect]
    steps = {
        "shown": _shown(parts, k, table),
        "wanted": _wanted(parts, k, target),
        "labels": _labels(k),
        "folds": "SELECT 0 AS fold UNION ALL SELECT 1 AS fold",
        "hazards": _hazards(k),
        "steps": _steps(k),
        "weighted": _weighted(k),
    }
    text = ",\n".join(f"{name} AS (\n{_indented(body)}\n)" for name, body in steps.items())
    return f"WITH {text}\n{_totals(k)}"


def _element(parts: _Dialect, array: str, k: int, kind: str) -> str:
    return kind.format(parts.element.format(array=array, k=k, k0=k - 1))


def _shown(parts: _Dialect, k: int, table: str) -> str:
    items = [f"{_element(parts, 'ranking', j, parts.text)} AS a{j}" for j in range(1, k + 1)]
    chances = [f"{_element(parts, 'propensities', j, parts.number)} AS p{j}" for j in range(1, k + 1)]
    columns = [
        "query", f"{_bucket(parts)} AS bucket", f"{parts.length.format(array='ranking')} AS length",
        f"{parts.first} AS click", *items, *chances,
    ]  # fmt: skip
    return f"SELECT{_listed(columns)}\nFROM {table} AS log\nWHERE {parts.length.format(array='ranking')} > 0"


def _bucket(parts: _Dialect) -> str:
    """Of the user; lists without one are taken as independent. It must not depend on the clicks."""
    user, place = parts.hash.format("log.user"), parts.hash.format("log.query, log.time")
    return parts.bucket.format(hash=f"CASE WHEN log.user IS NULL THEN {place} ELSE {user} END", n=BUCKETS)


def _wanted(parts: _Dialect, k: int, target: str) -> str:
    items = [f"{_element(parts, 'ranking', j, parts.text)} AS t{j}" for j in range(1, k + 1)]
    columns = ["query", f"LEAST({parts.length.format(array='ranking')}, {k}) AS size", *items]
    return f"SELECT{_listed(columns)}\nFROM {target}"


def _labels(k: int) -> str:
    """Looks and clicks down to the first click, by half of the users."""
    parts = [
        f"SELECT query, MOD(bucket, 2) AS fold, a{j} AS item, CASE WHEN click = {j} THEN 1 ELSE 0 END AS c\nFROM shown"
        f" WHERE length >= {j} AND (click IS NULL OR click >= {j})"
        for j in range(1, k + 1)
    ]
    inner = _indented("\nUNION ALL\n".join(parts))
    sums = "SELECT query, fold, item, COUNT(*) AS looks, SUM(c) AS clicks"
    return f"{sums}\nFROM (\n{inner}\n) AS labelled\nGROUP BY query, fold, item"


def _hazards(k: int) -> str:
    """Of the target's items, for each half by the labels of the other."""
    a, b = PRIOR  # printed with an exponent, which makes them floating point in every database
    columns = ["wanted.query AS query", "folds.fold AS fold", "size", *(f"t{j}" for j in range(1, k + 1))]
    columns += [
        f"(COALESCE(l{j}.clicks, 0) + {a:e}) / (COALESCE(l{j}.looks, 0) + {b:e}) AS h{j}" for j in range(1, k + 1)
    ]
    joins = [
        f"LEFT JOIN labels AS l{j} ON l{j}.query = wanted.query AND l{j}.fold = 1 - folds.fold AND l{j}.item = t{j}"
        for j in range(1, k + 1)
    ]
    return "\n".join([f"SELECT{_listed(columns)}", "FROM wanted CROSS JOIN folds", *joins])


def _steps(k: int) -> str:
    """By position: the ratio of probabilities, and the hazard; 1 and 0 below the end of a list."""
    there = {j: f"LEAST(length, size) >= {j}" for j in range(1, k + 1)}
    columns = ["bucket", f"CASE WHEN click <= LEAST(length, size) THEN click ELSE {k + 1} END AS f"]
    for j in range(1, k + 1):
        ratio = f"CASE WHEN a{j} = t{j} THEN 1.0 / p{j} ELSE 0.0 END"
        columns += [f"CASE WHEN {there[j]} THEN {ratio} ELSE 1.0 END AS g{j}"]
        columns += [f"CASE WHEN {there[j]} THEN h{j} ELSE 0.0 END AS h{j}"]
    valid = [f"(LEAST(length, size) < {j} OR (p{j} > 0 AND p{j} <= 1.000000001))" for j in range(1, k + 1)]
    joined = "FROM shown JOIN hazards ON shown.query = hazards.query AND MOD(shown.bucket, 2) = hazards.fold"
    return f"SELECT{_listed(columns)}\n{joined}\nWHERE {_anded(valid)}"


def _weighted(k: int) -> str:
    """Prefix weights, and the number of each list in the doubly robust estimator."""
    weights = {j: " * ".join(f"g{i}" for i in range(1, j + 1)) for j in range(1, k + 1)}
    stopped = " ".join(f"WHEN f = {j} THEN {weights[j]}" for j in range(1, k))
    stop = f"CASE {stopped} ELSE {weights[k]} END" if stopped else weights[k]
    keep = [f"(1 - h{j})" for j in range(1, k + 1)]
    psi = [f"1 - {' * '.join(keep)}"]
    for j in range(1, k + 1):
        rest = "".join(f" * {part}" for part in keep[j:])
        click = f"CASE WHEN f = {j} THEN 1.0 ELSE 0.0 END"
        psi.append(f"CASE WHEN f >= {j} THEN {weights[j]} * ({click} - h{j}){rest} ELSE 0.0 END")
    columns = ["bucket", "f", f"CASE WHEN f <= {k} THEN 1.0 ELSE 0.0 END AS r", f"{stop} AS s"]
    columns += [f"{weights[j]} AS w{j}" for j in range(1, k + 1)]
    plus = "\n    + ".join(psi)
    return f"SELECT{_listed([*columns, f'{plus} AS psi'])}\nFROM steps"


def _totals(k: int) -> str:
    sums = {
        "lists": "COUNT(*)", "reward": "SUM(r)", "gains": "SUM(s * r)", "gain_squares": "SUM(s * s * r)",
        "losses": "SUM(s * (1 - r))", "loss_squares": "SUM(s * s * (1 - r))", "full_reward": f"SUM(w{k} * r)",
        "full": f"SUM(w{k})", "full_squares": f"SUM(w{k} * w{k})", "largest": "MAX(s)", "largest_full": f"MAX(w{k})",
        "dr": "SUM(psi)",
    }  # fmt: skip
    for j in range(1, k + 1):
        sums[f"at_risk{j}"] = f"SUM(CASE WHEN f >= {j} THEN w{j} ELSE 0.0 END)"
        sums[f"clicked{j}"] = f"SUM(CASE WHEN f = {j} THEN w{j} ELSE 0.0 END)"
    columns = ["bucket", *(f"{text} AS {name}" for name, text in sums.items())]
    return f"SELECT{_listed(columns)}\nFROM weighted\nGROUP BY bucket"


def _listed(columns: list[str]) -> str:
    return ",\n  ".join(["\n  " + columns[0], *columns[1:]])


def _anded(conditions: list[str]) -> str:
    return "\n  AND ".join(conditions)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


# -- the output ----------------------------------------------------------------------------------------------------


def read_sums(path: str | os.PathLike[str]) -> Sums:
    """The sums that the statement returned, from a Parquet or CSV file; several rows of a bucket are added up."""
    import duckdb

    name = os.fspath(path)
    if not os.path.exists(name):
        raise ValueError(f"{name}: no such file")
    with duckdb_connection() as connection:
        try:
            got = connection.execute(f"SELECT * FROM {literal(name)}").fetchnumpy()
        except duckdb.Error as error:
            raise ValueError(f"{name}: cannot be read ({str(error).strip().splitlines()[0]})") from None
    k = sum(column.startswith("clicked") for column in got)
    by_position = [f"{kind}{j}" for j in range(1, k + 1) for kind in ("at_risk", "clicked")]
    missing = [column for column in ("bucket", *_SUMS, *_LARGEST, "dr", *by_position) if column not in got]
    if missing or not k:
        raise ValueError(f"{name}: must be the output of the printed SQL; it has no column {missing[0]}")
    bucket = np.asarray(got["bucket"], np.int64)
    if len(bucket) == 0 or bucket.min() < 0 or bucket.max() >= BUCKETS:
        raise ValueError(f"{name}: buckets must be from 0 to {BUCKETS - 1}")

    def column(key: str) -> Floats:
        return added(bucket, np.asarray(got[key], np.float64), BUCKETS)

    cells = Cells(1)

    def shaped(*columns: Floats) -> Floats:
        out = np.zeros((*cells.shape, len(columns)))
        out[1, 0] = np.stack(columns, axis=1)
        return out

    columns = {
        "prefix": shaped(column("gains")), "list": shaped(column("full_reward")), "dr": shaped(column("dr")),
        "self-normalised": shaped(column("full_reward"), column("full")),
        "product-limit": shaped(
            *(column(f"at_risk{j}") for j in range(1, k + 1)), *(column(f"clicked{j}") for j in range(1, k + 1))
        ),
    }  # fmt: skip
    common = {key: shaped(column(key))[..., 0] for key in _SUMS if key != "full_reward"}
    common["stopped"] = common["gains"] + common["losses"]
    largest = np.zeros((2, cells.windows, 2))
    largest[1] = [np.max(np.asarray(got[name], np.float64)) for name in _LARGEST]
    return Sums(cells, columns, common, largest, np.zeros((2, 0)))


def estimates(sums: Sums, how: How | None = None) -> dict[str, Estimate]:
    """The estimates by estimator, refused as elsewhere by the checks of the weights; they have no grade, since other
    checks were not made.
    """
    scope, unknown = sums.scope(False), Model(0.0, 1.0, (0.0, 1.0))
    return {
        key: dataclasses.replace(
            estimate(scope, known_estimators()[key], LogChecks(()), how or How(), unknown), grade=None
        )
        for key in sums.columns
    }
