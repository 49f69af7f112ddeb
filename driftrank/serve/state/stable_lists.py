"""The lists that subjects get again: for a subject, a query and candidates, the records of the pages served so far."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from msgspec import msgpack

#: lists that are remembered at most, oldest forgotten first, some 250 bytes each; and those that are packed together
_MOST, _TOGETHER = 200_000, 4_000


class Remembered(NamedTuple):
    """A ranking that was served, page by page."""

    time: float  #: when the first page was
    pages: tuple[int, ...]  #: the records of the pages


class _Part:
    """Lists that were remembered one after the other. Packed when it is full: all at once would take too long."""

    def __init__(self, lists: dict[int, Remembered]) -> None:
        self.lists = lists
        self._packed = b""

    @property
    def is_full(self) -> bool:
        return len(self.lists) >= _TOGETHER

    def put(self, digest: int, known: Remembered) -> None:
        self.lists[digest] = known
        if self.is_full:
            self._packed = self.to_bytes()

    def to_bytes(self) -> bytes:
        return self._packed or msgpack.encode(list(self.lists.items()))

    @classmethod
    def from_bytes(cls, body: bytes) -> _Part:
        out = cls(dict(msgpack.decode(body, type=list[tuple[int, Remembered]])))
        out._packed = body if out.is_full else b""
        return out


class StableLists:
    """Bounded, a fold over impressions."""

    def __init__(self) -> None:
        self._parts: deque[_Part] = deque()  # oldest first; the last one grows

    def __len__(self) -> int:
        return sum(len(part.lists) for part in self._parts)

    def add(self, digest: int, seq: int, time: float, kept: float) -> None:
        """Remember a new page, and forget rankings that began ``kept`` seconds ago or more, some of them later."""
        known = self._find(digest)
        pages = (seq,) if known is None or known.time <= time - kept else (*known.pages, seq)
        began = time if known is None or len(pages) == 1 else known.time
        if not self._parts or self._parts[-1].is_full:
            while self._parts and (len(self) >= _MOST or _newest(self._parts[0]) <= time - kept):
                self._parts.popleft()
            self._parts.append(_Part({}))
        self._parts[-1].put(digest, Remembered(began, pages))

    def get(self, digest: int, time: float, kept: float) -> tuple[int, ...]:
        """The records of the pages of a ranking that began less than ``kept`` seconds before."""
        known = self._find(digest)
        return () if known is None or known.time <= time - kept else known.pages

    def _find(self, digest: int) -> Remembered | None:
        for part in reversed(self._parts):  # the newest has all pages
            if digest in part.lists:
                return part.lists[digest]
        return None

    def to_bytes(self) -> bytes:
        return msgpack.encode([part.to_bytes() for part in self._parts])

    @classmethod
    def from_bytes(cls, body: bytes) -> StableLists:
        out = cls()
        out._parts.extend(map(_Part.from_bytes, msgpack.decode(body, type=list[bytes])))
        return out


def _newest(part: _Part) -> float:
    return max(known.time for known in part.lists.values())
