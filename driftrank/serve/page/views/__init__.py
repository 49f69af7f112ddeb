"""The pages: a file for each, with a function that returns what its template shows.

What it returns must not depend on who looks, beyond the rankers that are visible: it is sent to all who look.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from driftrank.serve.page.views.event import event
from driftrank.serve.page.views.looking import Looking
from driftrank.serve.page.views.overview import overview
from driftrank.serve.page.views.query import query
from driftrank.serve.page.views.ranker import ranker
from driftrank.serve.page.views.try_it import try_it

__all__ = ["VIEWS", "Looking"]

VIEWS: dict[str, Callable[[Looking], Awaitable[dict[str, Any]]]] = {
    "overview": overview,
    "ranker": ranker,
    "query": query,
    "event": event,
    "try": try_it,
}
