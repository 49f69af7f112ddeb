"""The paper's pipeline before its simulations: from a raw click log to queries in the cascade model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from driftrank.clickmodels import CM
from driftrank.files import usable_folder, written_text
from driftrank.logs import open_log
from driftrank.logs.log import Log

#: items of a query in the paper
ITEMS = 10
#: fewer views say too little of an item: with the usual prior it would look attractive
VIEWS = 100


def queries_from_log(log: Log, top: int, items: int = ITEMS, views: int = VIEWS) -> dict[str, Any]:
    """The most frequent queries and their most attractive items, as a file of models has them.

    Parameters
    ----------
    top
        How many queries at most; those that have too few items are left out.
    items
        How many items of each.
    views
        How often an item must have been shown to count.
    """
    chosen = CM.fit(log).queries(top, items, views)
    found = {
        name: {"items": query["items"], "CM": {"attraction": query["attraction"].tolist()}}
        for name, query in chosen.items()
    }
    if not found:
        raise ValueError(f"{log.source}: no query has {items} items that were shown {views} times")
    return found


def prepare_queries(source: str, folder: str | Path, top: int) -> tuple[Path, int]:
    """Choose and fit the queries of a log; writes ``models.json`` to the folder and says how many there are."""
    found = queries_from_log(open_log(source), top)
    path = usable_folder(folder) / "models.json"
    written_text(path, json.dumps({"queries": found}))
    return path, len(found)
