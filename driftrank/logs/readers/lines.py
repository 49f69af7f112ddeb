"""Text in whole lines, numbered, with what is no text sorted out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.logs.problems import Report, excerpt
from driftrank.logs.readers.base import Tick
from driftrank.logs.readers.stream import BLOCK, Stream, ahead


@dataclass(frozen=True)
class Lines:
    """Some lines of UTF-8, none blank, each with a newline at its end."""

    text: bytes
    numbers: NDArray[np.int64]  #: of the lines in the file, from 1

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.numbers.tolist(), self.text.split(b"\n"), strict=False)


def read_lines(stream: Stream, report: Report, tick: Tick, block: int = BLOCK) -> Iterator[Lines]:
    """The lines of a file in blocks. Lines end with newline, return, or both."""
    rest = b""
    told = 0
    with closing(ahead(stream.blocks(block))) as pieces:
        for piece in pieces:
            text = rest + piece
            whole = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1  # a last return may be half an end
            text, rest = text[:whole], text[whole:]
            before = report.lines
            if text:
                yield from _sorted_out(text, report)
            tick(stream.done - told, report.lines - before)
            told = stream.done
    if stream.size == 0:
        report.add("nothing", 0, stream.path.name)
    if stream.broken is not None:
        kind, words = stream.broken
        report.add(kind, report.lines + 1, f"{words}; the last line is lost: {excerpt(rest)}" if rest else words)
    elif rest:
        yield from _sorted_out(rest if rest.endswith(b"\r") else rest + b"\n", report)


def _sorted_out(text: bytes, report: Report) -> Iterator[Lines]:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if report.lines == 0:
        text = text.removeprefix(b"\xef\xbb\xbf")  # a mark that some programs put before UTF-8
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    numbers = np.arange(report.lines + 1, report.lines + len(ends) + 1)
    report.lines += len(ends)
    blank = np.diff(ends, prepend=-1) == 1
    if not blank.any() and _is_utf8(text):
        yield Lines(text, numbers)
        return
    kept, good = [], []
    for number, line in zip(numbers.tolist(), text.split(b"\n"), strict=False):
        if not line:
            report.add("blank", number, "")
        elif not _is_utf8(line):
            report.add("encoding", number, excerpt(line))
        else:
            kept.append(line)
            good.append(number)
    if kept:
        yield Lines(b"\n".join([*kept, b""]), np.array(good))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
