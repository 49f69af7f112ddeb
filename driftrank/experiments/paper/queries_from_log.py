"""The paper's pipeline before its simulations: from a raw click log to queries in the cascade model."""

from __future__ import annotations

from pathlib import Path

from driftrank.clickmodels import CM, models_file
from driftrank.clickmodels.models_file import Entry
from driftrank.files import usable_folder
from driftrank.logs import open_log
from driftrank.logs.log import Log
from driftrank.logs.replay import fitted_queries

#: items of a query in the paper
ITEMS = 10
#: an item with fewer views would look attractive, with the usual prior
VIEWS = 100


def queries_from_log(log: Log, top: int, items: int = ITEMS, views: int = VIEWS) -> dict[str, Entry]:
    """The most frequent queries and their most attractive items, as entries of a models file.

    Parameters
    ----------
    top
        The most queries to take; those that have too few items are left out.
    items
        Items of each.
    views
        The fewest views of an item.
    """
    fit = CM.fit(log)
    found = fitted_queries({"CM": fit}, fit.most_attractive(top, items, views))
    if not found:
        raise ValueError(f"{log.source}: no query has {items} items that were shown {views} times")
    return found


def prepare_queries(source: str, folder: str | Path, top: int) -> tuple[Path, int]:
    """Choose and fit the queries of a log; writes ``models.json`` to the folder; returns its path and their number."""
    found = queries_from_log(open_log(source), top)
    path = usable_folder(folder) / "models.json"
    models_file.write(path, found)
    return path, len(found)
