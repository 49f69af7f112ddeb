"""The stream of queries of a click log, for simulations of Traffic."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import numpy as np

from driftrank.clickmodels import models_file
from driftrank.clickmodels.models_file import QueryModel
from driftrank.environments.traffic.stream import QueryStream
from driftrank.logs.log import Log, open_log

#: the weight of the top position; that of position k is 1/k of it, in whole numbers, whose sum has no rounding
_TOP = 720_720


def query_stream(
    source: Log | str | os.PathLike[str], models: str | os.PathLike[str] = "", model: str = ""
) -> QueryStream:
    """The queries of a click log or of a models file, for ``Traffic(stream=...)``.

    Parameters
    ----------
    source
        A log, in any form that :func:`open_log` takes: its lists in the order of time. The candidates of a query are
        all items that were shown for it. They are in the order of how often and how high: by the sum of 1/position.
        Or a models file (``models.json``): its queries without an order in time, with their attraction.
    models
        A models file whose attraction the queries of a log get, as far as it has them.
    model
        The click model to read there, if the file has it; otherwise the cascade model, or the only one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import driftrank as dr
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "log.parquet"
    >>> _ = dr.logs.generate(path, dr.environments.Stationary(dr.queries.yandex_like(3), k=4), 300)
    >>> stream = dr.logs.query_stream(path)
    >>> len(stream), len(stream.order), stream.sizes.tolist()
    (3, 300, [10, 10, 10])
    """
    if not isinstance(source, Log) and os.fspath(source).endswith(".json"):
        if models:
            raise ValueError(f"models={os.fspath(models)!r}: must be left out, the stream is a models file itself")
        return QueryStream.of_models(_read(source, model), os.fspath(source))
    log = source if isinstance(source, Log) else open_log(source)
    stream = _of_log(log)
    if not models:
        return stream
    found = stream.with_attraction(_read(models, model))
    if not found.known:
        raise ValueError(f"models={os.fspath(models)!r}: has no query and item of {log.source}")
    return found


def _read(path: str | os.PathLike[str], model: str) -> dict[str, QueryModel]:
    if model:
        with suppress(ValueError):
            return models_file.read(path, model)
    return models_file.read(path)


def _of_log(log: Log) -> QueryStream:
    lists = (
        f"(SELECT CAST(query AS VARCHAR) AS query, time, ranking, file, row FROM {log.numbered} WHERE len(ranking) > 0)"
    )
    with log.connect() as connection:
        connection.execute(
            f"CREATE TEMP TABLE asked AS SELECT query, row_number() OVER (ORDER BY count(*) DESC, query) - 1 AS number "
            f"FROM {lists} GROUP BY query"
        )
        names = [name for (name,) in connection.execute("SELECT query FROM asked ORDER BY number").fetchall()]
        if not names:
            raise ValueError(f"{log.source}: has no list with items")
        order = connection.execute(
            f"SELECT number FROM {lists} JOIN asked USING (query) ORDER BY time, file, row"
        ).fetchnumpy()["number"]
        shown = f"SELECT query, unnest(ranking) AS item, generate_subscripts(ranking, 1) AS position FROM {lists}"
        pairs = connection.execute(
            f"SELECT number, item FROM ({shown}) JOIN asked USING (query) GROUP BY number, item "
            f"ORDER BY number, sum({_TOP} // position) DESC, item"
        )
        candidates: list[list[Any]] = [[] for _ in names]
        while rows := pairs.fetchmany(100_000):
            for number, item in rows:
                candidates[number].append(item)
    return QueryStream.of(dict(zip(names, candidates, strict=True)), np.asarray(order, np.int32), log.source)
