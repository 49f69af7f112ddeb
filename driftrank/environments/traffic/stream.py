"""QueryStream: the queries of a click log or a models file, as Traffic sends them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels.models_file import QueryModel
from driftrank.validation import check_integer

#: the id of an item, as logs and models files have it
ItemId = str | int


@dataclass(frozen=True, eq=False, repr=False)
class QueryStream:
    """Queries, the most frequent first, with their candidates, and the order in which they came.

    :func:`driftrank.logs.query_stream` makes it of a click log, :meth:`of_models` of a models file.

    >>> stream = QueryStream.of({"shoes": ["a", "b", "c"], "hats": ["d", "a"]}, order=[0, 1, 0])
    >>> len(stream), stream.sizes.tolist(), len(stream.items), stream.limited(1, 2).sizes.tolist()
    (2, [3, 2], 4, [2])
    """

    names: tuple[str, ...]
    items: tuple[ItemId, ...]  #: the ids of all items, each once
    begins: NDArray[np.int64]  #: the first pair of every query, and the number of all pairs
    pairs: NDArray[np.int32]  #: by query, in the caller's order: places in ``items``
    order: NDArray[np.int32]  #: the query of every list; empty: the source has no order
    attraction: NDArray[np.float64]  #: by pair; NaN: unknown
    source: str = field(default="", compare=False)  #: for messages

    @classmethod
    def of(
        cls, candidates: Mapping[str, Sequence[ItemId]], order: Sequence[int] | NDArray[np.int32] = (), source: str = ""
    ) -> QueryStream:
        """From the candidates of every query, in the caller's order."""
        place: dict[ItemId, int] = {}
        pairs = [place.setdefault(item, len(place)) for items in candidates.values() for item in items]
        begins = np.cumsum([0, *map(len, candidates.values())])
        unknown = np.full(len(pairs), np.nan)
        return cls(
            tuple(candidates), tuple(place), begins, np.array(pairs, np.int32), np.array(order, np.int32), unknown,
            source,
        ).checked()  # fmt: skip

    @classmethod
    def of_models(cls, queries: Mapping[str, QueryModel], source: str = "") -> QueryStream:
        """From the queries of a models file, which have no order in time. Items without ids are the query's own."""
        named = {
            name: query.items or [f"{name}#{n}" for n in range(len(query.attraction))]
            for name, query in queries.items()
        }
        return cls.of(named, source=source).with_attraction(queries)

    def with_attraction(self, queries: Mapping[str, QueryModel]) -> QueryStream:
        """The same stream with the attraction of the pairs that a models file has."""
        attraction = self.attraction.copy()
        for q, name in enumerate(self.names):
            if name in queries:
                found = queries[name]
                ids = found.items or [f"{name}#{n}" for n in range(len(found.attraction))]
                known = dict(zip(map(str, ids), found.attraction.tolist(), strict=True))
                pairs = range(self.begins[q], self.begins[q + 1])
                attraction[pairs] = [known.get(str(self.items[self.pairs[p]]), np.nan) for p in pairs]
        return replace(self, attraction=attraction)

    def checked(self) -> QueryStream:
        where = f"{self.source}: " if self.source else ""
        if not self.names:
            raise ValueError(f"{where}has no query with items")
        if (np.diff(self.begins) < 1).any():
            raise ValueError(f"{where}query {self.names[int(np.argmin(np.diff(self.begins)))]!r} has no items")
        if len(self.order) and not 0 <= self.order.min() <= self.order.max() < len(self.names):
            raise ValueError(f"{where}order: must be numbers of queries, from 0 to {len(self.names) - 1}")
        return self

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"QueryStream({self})"

    def __str__(self) -> str:
        return self.source or self.digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryStream) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """A digest that identifies the content."""
        found = hashlib.blake2b(repr((self.names, self.items)).encode(), digest_size=8)
        for values in (self.begins, self.pairs, self.order, self.attraction):
            found.update(np.ascontiguousarray(values).tobytes())
        return found.hexdigest()

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of candidates, by query."""
        return np.diff(self.begins)

    @property
    def known(self) -> bool:
        """True if the attraction of some pair is known."""
        return bool((~np.isnan(self.attraction)).any())

    def limited(self, queries: int, candidates: int) -> QueryStream:
        """The first queries, with the first candidates of each; lists of other queries are left out."""
        check_integer("queries", queries, 1)
        check_integer("candidates", candidates, 1)
        if queries >= len(self) and candidates >= self.sizes.max():
            return self
        names = self.names[:queries]
        kept = [np.arange(b, min(b + candidates, e)) for b, e in pairwise(self.begins[: len(names) + 1])]
        pairs = np.concatenate(kept)
        used, places = np.unique(self.pairs[pairs], return_inverse=True)
        return replace(
            self, names=names, items=tuple(self.items[i] for i in used), begins=np.cumsum([0, *map(len, kept)]),
            pairs=places.astype(np.int32), order=self.order[self.order < len(names)], attraction=self.attraction[pairs],
        )  # fmt: skip
