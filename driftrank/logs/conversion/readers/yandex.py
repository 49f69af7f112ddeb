"""The log of Yandex's relevance prediction challenge.

Lines of tab-separated integers: a list that was shown, with its ten URLs, or a click.

.. code-block:: text

    session   time passed   Q   query   region   url 1 ... url 10
    session   time passed   C   url

A session is a run of lines with the same id. A click belongs to the latest list of its session that holds its URL. The
log has no clock, only the time passed within a session, so ``time`` is the running number of the list in the log, from
1. ``user`` is the session. The region is kept in a column of that name.

A line that cannot be used is left out and reported. If it is, or may have been, a list, clicks of the session that are
not on a later list are left out as well: they may belong to the lost list.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.logs.bad_lines import EXAMPLES, LogReport, excerpt
from driftrank.logs.conversion.readers.base import ReadOptions, Tick
from driftrank.logs.conversion.readers.stream import BLOCK, Stream, read_ahead

if TYPE_CHECKING:
    import pyarrow as pa

_SHORTEST_LIST, _SHORTEST_CLICK = 30, 8


def looks_like(start: bytes) -> int:
    """2 if a file that begins with these bytes is a Yandex log: in most lines the third field is Q or C."""
    lines = [line.split(b"\t") for line in start.replace(b"\r", b"\n").split(b"\n")[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[:-1]  # may be cut
    right = sum(len(fields) > 3 and fields[2] in (b"Q", b"C") for fields in lines)
    return 2 if lines and right > len(lines) / 2 else 0


FORMATS = {"yandex": looks_like}


def read(
    stream: Stream,
    format: str,
    report: LogReport,
    options: ReadOptions,
    tick: Tick = lambda size, lines: None,
    block: int = BLOCK,
) -> Iterator[pa.Table]:
    """The lists of a log as tables, in the order of the file; problems are added to the report."""
    if options.columns:
        raise ValueError(f"columns={dict(options.columns)!r}: must be empty for a Yandex log")
    columns = _Columns(block)
    rest = b""
    reported = 0
    with closing(read_ahead(stream.blocks(block))) as pieces:
        for piece in pieces:
            rest = yield from columns.take(rest + piece, False, report)
            tick(stream.done - reported, columns.lines - report.lines)
            reported, report.lines = stream.done, columns.lines
    if stream.size == 0:
        report.add("nothing", 0, stream.path.name)
    if stream.broken is not None:
        kind, reason = stream.broken
        report.add(kind, columns.lines + 1, f"{reason}; the last line is lost: {excerpt(rest)}" if rest else reason)
        rest = b""
    yield from columns.take(rest, True, report)
    report.lines = columns.lines


class _Columns:
    """Buffers for the lists and clicks of a block, and the state of the session at its end."""

    def __init__(self, block: int) -> None:
        from driftrank.logs.conversion.readers import templates

        lists = block // _SHORTEST_LIST + 2 * templates.MANY
        clicks = block // _SHORTEST_CLICK + 2 * templates.MANY
        self._templates = templates
        self._state = np.zeros(templates.STATE, np.int64)
        self._state[templates.SESSION] = -1
        self._of_lists = [np.empty(lists, np.int64) for _ in ("user", "query", "region", "line")]
        self._urls = np.empty((lists, templates.TEN), np.int64)
        self._click_list = np.empty(clicks, np.int32)
        self._click_position = np.empty(clicks, np.int16)
        self._counts = np.zeros(len(templates.KINDS), np.int64)
        self._examples = np.zeros((len(templates.KINDS), EXAMPLES, 3), np.int64)
        self._known = self._counts.copy()
        self._emitted = 0

    @property
    def lines(self) -> int:
        return int(self._state[self._templates.LINE])

    def take(self, text: bytes, final: bool, report: LogReport) -> Generator[pa.Table, None, bytes]:
        """Read lines; returns the bytes of an incomplete last line."""
        templates, state = self._templates, self._state
        buffer = np.frombuffer(text, np.uint8)
        while True:
            at = _compiled("parse")(
                buffer, len(buffer), final, state, *self._of_lists, self._urls, self._click_list,
                self._click_position, self._counts, self._examples, EXAMPLES,
            )  # fmt: skip
            self._report(buffer, report)
            buffer = buffer[at:]
            full = self._is_full()
            if final and not full:
                state[templates.OPEN], state[templates.OPEN_CLICKS] = state[templates.LISTS], state[templates.CLICKS]
            if state[templates.OPEN]:
                yield self._closed(report)
            if not full:
                return buffer.tobytes()
            if self._is_full():  # by a single session
                self._grow()

    def _is_full(self) -> bool:
        lists, clicks = self._state[self._templates.LISTS], self._state[self._templates.CLICKS]
        return bool(lists == len(self._urls) or clicks == len(self._click_list))

    def _closed(self, report: LogReport) -> pa.Table:
        """The lists that can have no more clicks, as a table; the others move to the front."""
        import pyarrow as pa

        templates, state = self._templates, self._state
        n, clicks = int(state[templates.OPEN]), int(state[templates.OPEN_CLICKS])
        offsets = np.zeros(n + 1, np.int32)
        positions = np.empty(clicks, np.int16)
        _compiled("arrange")(self._click_list, self._click_position, clicks, offsets, positions)
        user, query, region, line = (column[:n].copy() for column in self._of_lists)
        ends = np.arange(0, (n + 1) * templates.TEN, templates.TEN, dtype=np.int32)
        table = pa.table(
            {
                "query": query,
                "time": np.arange(report.lists + 1, report.lists + n + 1),
                "ranking": pa.ListArray.from_arrays(ends, self._urls[:n].reshape(-1).copy()),
                "clicks": pa.ListArray.from_arrays(offsets, positions),
                "user": user,
                "region": region,
                "line": line,
            }
        )
        report.lists += n
        report.clicks += clicks
        lists, more = int(state[templates.LISTS]), int(state[templates.CLICKS])
        for column in (*self._of_lists, self._urls):
            column[: lists - n] = column[n:lists].copy()
        self._click_list[: more - clicks] = self._click_list[clicks:more] - n
        self._click_position[: more - clicks] = self._click_position[clicks:more].copy()
        state[[templates.LISTS, templates.OPEN]] -= n
        state[[templates.CLICKS, templates.OPEN_CLICKS]] -= clicks
        return table

    def _grow(self) -> None:
        self._of_lists = [np.concatenate([column, column]) for column in self._of_lists]
        self._urls = np.concatenate([self._urls, self._urls])
        self._click_list = np.concatenate([self._click_list, self._click_list])
        self._click_position = np.concatenate([self._click_position, self._click_position])

    def _report(self, buffer: NDArray[np.uint8], report: LogReport) -> None:
        for kind in np.flatnonzero(self._counts != self._known):
            name, now, before = self._templates.KINDS[kind], int(self._counts[kind]), int(self._known[kind])
            for line, begin, end in self._examples[kind, min(before, EXAMPLES) : min(now, EXAMPLES)].tolist():
                text = buffer[begin:end].tobytes()
                fields = text.count(b"\t") + 1
                report.add(name, line, f"{fields - 5} URLs: {excerpt(text)}" if name == "urls" else excerpt(text))
            report.counts[name] = now
        self._known[:] = self._counts


@functools.cache
def _compiled(name: str) -> Any:
    from driftrank.kernels.compile import specialise
    from driftrank.logs.conversion.readers import templates

    return specialise(getattr(templates, name), {})
