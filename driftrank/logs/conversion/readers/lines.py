"""Numbered whole lines of text, without those that are blank or not UTF-8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftrank.logs.bad_lines import LogReport, excerpt
from driftrank.logs.conversion.readers.base import Tick
from driftrank.logs.conversion.readers.stream import BLOCK, Stream, read_ahead


@dataclass(frozen=True)
class Lines:
    """Some lines of UTF-8, none blank, each ending in a newline."""

    text: bytes
    numbers: NDArray[np.int64]  #: line numbers in the file, from 1

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.numbers.tolist(), self.text.split(b"\n"), strict=False)


def read_lines(stream: Stream, report: LogReport, tick: Tick, block: int = BLOCK) -> Iterator[Lines]:
    """The lines of a file in blocks. Lines end with newline, carriage return, or both."""
    rest = b""
    reported = 0
    with closing(read_ahead(stream.blocks(block))) as pieces:
        for piece in pieces:
            text = rest + piece
            # a last carriage return may be half of a line end
            whole = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
            text, rest = text[:whole], text[whole:]
            before = report.lines
            if text:
                yield from _valid_lines(text, report)
            tick(stream.done - reported, report.lines - before)
            reported = stream.done
    if stream.size == 0:
        report.add("nothing", 0, stream.path.name)
    if stream.broken is not None:
        kind, reason = stream.broken
        report.add(kind, report.lines + 1, f"{reason}; the last line is lost: {excerpt(rest)}" if rest else reason)
    elif rest:
        yield from _valid_lines(rest if rest.endswith(b"\r") else rest + b"\n", report)


def _valid_lines(text: bytes, report: LogReport) -> Iterator[Lines]:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if report.lines == 0:
        text = text.removeprefix(b"\xef\xbb\xbf")  # byte order mark
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
