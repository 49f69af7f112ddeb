"""Clients of the ranking service: ``Client``, and ``AsyncClient`` for programs that run on asyncio.

A page never fails because of the service. Where nothing listens, as here, the items come as they were given:

>>> from driftrank.client import Client
>>> with Client("http://127.0.0.1:1") as client:
...     ranking = client.rank("shoes", ["red", "blue", "green"], fallback=True)
...     client.feedback(ranking.event_id, clicks=["blue"])
>>> [item.id for item in ranking.items]
['red', 'blue', 'green']
"""

try:
    from driftrank.client.asynchronous import AsyncClient
    from driftrank.client.blocking import Client
    from driftrank.client.errors import InvalidRequest, NotFound, ServiceError, ServiceUnreachable, Unauthorized
except ModuleNotFoundError as error:
    if error.name not in ("httpx", "msgspec"):
        raise
    raise ImportError(f"{error.name} is not installed: pip install 'driftrank[client]'") from None

__all__ = ["AsyncClient", "Client", "InvalidRequest", "NotFound", "ServiceError", "ServiceUnreachable", "Unauthorized"]
