"""Clients of the driftrank ranking service: ``Client``, and ``AsyncClient`` for asyncio.

The types of requests and answers are in ``driftrank_client.wire``.
"""

from importlib.metadata import version

__version__ = version("driftrank-client")

from .client import (
    AsyncClient,
    Client,
    InvalidRequest,
    NotFound,
    ServiceError,
    ServiceUnreachable,
    Unauthorized,
)

__all__ = ["AsyncClient", "Client", "InvalidRequest", "NotFound", "ServiceError", "ServiceUnreachable", "Unauthorized"]
