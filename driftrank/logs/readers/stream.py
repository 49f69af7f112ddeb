"""The bytes of a text file, unpacked where it is gzipped; and work done ahead by another thread."""

from __future__ import annotations

import os
import queue
import threading
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

BLOCK = 8 << 20
_PACKED = 1 << 20


class Stream:
    """A file, to be read block by block.

    Attributes
    ----------
    size
        Bytes on disk.
    done
        How many of those have been read.
    broken
        What is wrong with the compressed data, as (kind of problem, words); what came before has been read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.size = self.path.stat().st_size
        self.done = 0
        self.broken: tuple[str, str] | None = None

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Blocks of about that many bytes, none empty."""
        with open(self.path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            step = min(size, _PACKED) if packed else size
            pieces = iter(lambda: file.read(step), b"")
            yield from self._unpacked(self._counted(pieces), size) if packed else self._counted(pieces)

    def start(self, size: int = 1 << 16) -> bytes:
        """The first bytes."""
        return next(self.blocks(size), b"")[:size]

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.done += len(piece)
            yield piece

    def _unpacked(self, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
        """A gzip file is one or more members, one after the other."""
        member = zlib.decompressobj(wbits=31)
        fresh = True  # nothing of this member has been seen
        for piece in pieces:
            while piece:
                if fresh and not piece.strip(b"\0"):  # padding
                    break
                before = member.copy()
                try:
                    text = member.decompress(piece, size)
                except zlib.error as error:
                    yield from _salvaged(before, piece)
                    self.broken = "damaged", f"{self.path.name} is not in order as a gzip file ({error})"
                    return
                fresh = False
                piece = member.unconsumed_tail
                if text:
                    yield text
                if member.eof:
                    piece = member.unused_data
                    member, fresh = zlib.decompressobj(wbits=31), True
        rest = b"" if fresh else member.flush()
        if rest:
            yield rest
        if not fresh:
            self.broken = "cut", f"the gzip file {self.path.name} ends too early"


def _salvaged(member: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """What can be unpacked of a piece before the damage."""
    for i in range(len(piece)):
        try:
            text = member.decompress(piece[i : i + 1])
        except zlib.error:
            return
        if text:
            yield text


def ahead(items: Iterator[T], depth: int = 2) -> Generator[T, None, None]:
    """The same items, made by a thread of their own that is at most ``depth`` of them ahead."""
    made: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stop.is_set():
            try:
                made.put((item, error), timeout=0.1)
                return
            except queue.Full:
                pass

    def work() -> None:
        end: BaseException = StopIteration()
        try:
            for item in items:
                put(item, None)
                if stop.is_set():
                    break
        except BaseException as error:
            end = error
        finally:
            if hasattr(items, "close"):
                items.close()
        put(None, end)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = made.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()
