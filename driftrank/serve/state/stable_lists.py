"""The lists that subjects get again: for a subject, a query and candidates, the records of the pages served so far."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from msgspec import msgpack

#: subjects with their queries that are remembered at most, oldest forgotten first; about 300 bytes each
_MOST = 50_000


class Remembered(NamedTuple):
    """A ranking that was served, page by page."""

    time: float  #: when the first of them was
    pages: list[int]  #: their records, by position


class StableLists:
    """Bounded, a fold over impressions, in the order of their first pages."""

    def __init__(self) -> None:
        self._by_digest: OrderedDict[int, Remembered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_digest)

    def add(self, digest: int, seq: int, time: float, kept: float) -> None:
        """Remember a new page, and forget rankings that began ``kept`` seconds ago."""
        while self._by_digest:
            first = next(iter(self._by_digest))
            if len(self._by_digest) < _MOST and self._by_digest[first].time > time - kept:
                break
            del self._by_digest[first]
        known = self._by_digest.get(digest)
        if known is None:
            self._by_digest[digest] = Remembered(time, [seq])
        else:
            known.pages.append(seq)

    def get(self, digest: int, time: float, kept: float) -> list[int]:
        """The records of the pages of a ranking that began less than ``kept`` seconds before."""
        known = self._by_digest.get(digest)
        return [] if known is None or known.time <= time - kept else known.pages

    def to_bytes(self) -> bytes:
        return msgpack.encode([(digest, *known) for digest, known in self._by_digest.items()])

    @classmethod
    def from_bytes(cls, body: bytes) -> StableLists:
        out = cls()
        for digest, time, pages in msgpack.decode(body, type=list[tuple[int, float, list[int]]]):
            out._by_digest[digest] = Remembered(time, pages)
        return out
