"""Clients of the ranking service: ``Client``, and ``AsyncClient`` for asyncio.

A page never fails because of the service. If nothing listens, as here, the items come back in the order given:

>>> from driftrank.client import Client
>>> with Client("http://127.0.0.1:1") as client:
...     ranking = client.rank("shoes", ["red", "blue", "green"], k=2, fallback=True)
...     client.feedback(ranking.event_id, clicks=["blue"])
>>> [item.id for item in ranking.items]
['red', 'blue']

The distribution ``driftrank-client`` (the folder ``client/``) ships the same files as the package ``driftrank_client``.
Imports of other parts of driftrank are therefore relative, and limited to ``extras``, ``validation`` and ``wire``.
"""

from ..extras import CLIENT, need

need("client", *CLIENT)

from .asynchronous import AsyncClient  # noqa: E402
from .blocking import Client  # noqa: E402
from .errors import InvalidRequest, NotFound, ServiceError, ServiceUnreachable, Unauthorized  # noqa: E402

__all__ = ["AsyncClient", "Client", "InvalidRequest", "NotFound", "ServiceError", "ServiceUnreachable", "Unauthorized"]
