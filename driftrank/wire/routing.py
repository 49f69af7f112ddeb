"""Requests that belong together, for services that share a store."""

from __future__ import annotations

from hashlib import blake2b

#: headers for services that share a store: of requests that belong together, for load balancers; of an answer, the last
#: record that it was made after; of a request, the record that it is to be answered after
ROUTE_HEADER, SEQ_HEADER, AFTER_HEADER = "X-Driftrank-Route", "X-Driftrank-Seq", "X-Driftrank-After"


def route_of(ranker: str, query: str) -> str:
    """A text that is the same for the same query: load balancers and clients send its calls to the same node.

    >>> route_of("default", "shoes")
    'f00e'
    """
    return blake2b(f"{ranker}/{query}".encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()


def route_in(event_id: str) -> str:
    """The route at the end of an event id that driftrank made; "" of any other.

    >>> route_in("0f3a@9b1c"), route_in("mine@home")
    ('9b1c', '')
    """
    route = event_id.rpartition("@")[2] if event_id[-5:-4] == "@" else ""
    return route if all(c in "0123456789abcdef" for c in route) else ""
