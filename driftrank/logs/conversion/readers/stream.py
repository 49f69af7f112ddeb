"""The bytes of a text file, decompressed if it is gzipped; and reading ahead in a thread."""

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
_COMPRESSED_STEP = 1 << 20


class Stream:
    """A file that is read block by block.

    Attributes
    ----------
    size
        Bytes on disk.
    done
        Number of these that have been read.
    broken
        A problem of the compressed data, as (kind, description); the data before it have been read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.size = self.path.stat().st_size
        self.done = 0
        self.broken: tuple[str, str] | None = None

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Blocks of about that many bytes, none empty."""
        with open(self.path, "rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            step = min(size, _COMPRESSED_STEP) if compressed else size
            pieces = iter(lambda: file.read(step), b"")
            yield from self._decompressed(self._counted(pieces), size) if compressed else self._counted(pieces)

    def start(self, size: int = 1 << 16) -> bytes:
        """The first bytes."""
        return next(self.blocks(size), b"")[:size]

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.done += len(piece)
            yield piece

    def _decompressed(self, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
        """Decompress a gzip file, which has one or more members."""
        member = zlib.decompressobj(wbits=31)
        fresh = True  # no byte of this member has been read
        for piece in pieces:
            while piece:
                if fresh and not piece.strip(b"\0"):  # padding
                    break
                before = member.copy()
                try:
                    text = member.decompress(piece, size)
                except zlib.error as error:
                    yield from _salvaged(before, piece)
                    self.broken = "damaged", f"{self.path.name} is a damaged gzip file ({error})"
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
            self.broken = "cut", f"the gzip file {self.path.name} is truncated"


def _salvaged(member: zlib._Decompress, piece: bytes) -> Iterator[bytes]:
    """Decompress a piece up to the damage."""
    for i in range(len(piece)):
        try:
            text = member.decompress(piece[i : i + 1])
        except zlib.error:
            return
        if text:
            yield text


def read_ahead(items: Iterator[T], depth: int = 2) -> Generator[T, None, None]:
    """The same items, computed in a thread that is at most ``depth`` items ahead."""
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stop = threading.Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put((item, error), timeout=0.1)
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
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        thread.join()
