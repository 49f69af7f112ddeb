"""Clients of the ranking service: ``Client``, and ``AsyncClient`` for programs that run on asyncio.

>>> from driftrank.client import Client
>>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
...     ranking = client.rank("shoes", ["red", "blue", "green"], fallback=True)
...     client.feedback(ranking.event_id, clicks=["blue"])
"""

from driftrank.client.asynchronous import AsyncClient
from driftrank.client.blocking import Client
from driftrank.client.errors import InvalidRequest, NotFound, ServiceError, ServiceUnreachable, Unauthorized

__all__ = ["AsyncClient", "Client", "InvalidRequest", "NotFound", "ServiceError", "ServiceUnreachable", "Unauthorized"]
