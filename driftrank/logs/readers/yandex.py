"""The log of Yandex's relevance prediction challenge.

Lines of tab-separated integers: a list that was shown, with its ten URLs, or a click.

.. code-block:: text

    session   time passed   Q   query   region   url 1 ... url 10
    session   time passed   C   url

A session is a run of lines with the same id. A click belongs to the latest list of its session that holds its URL. The
log has no clock, only the time passed within a session, so ``time`` is the running number of the list in the log, from
1. ``user`` is the session. The region is kept in a column of that name.

A line that cannot be used is left out and reported. Where it is, or may have been, a list, the clicks after it that are
on no later list are left out as well: they would be counted for a list that they may not belong to.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from driftrank.logs.problems import EXAMPLES, Report, excerpt
from driftrank.logs.readers.base import Options, Tick
from driftrank.logs.readers.stream import BLOCK, Stream, ahead

if TYPE_CHECKING:
    import pyarrow as pa

_SHORTEST_LIST, _SHORTEST_CLICK = 30, 8


def looks_like(start: bytes) -> int:
    """2 if a file that begins with these bytes is such a log: in most of its lines the third field is Q or C."""
    lines = [line.split(b"\t") for line in start.replace(b"\r", b"\n").split(b"\n")[:50] if line.strip()]
    if len(lines) > 1:
        lines = lines[:-1]  # may be cut
    right = sum(len(fields) > 3 and fields[2] in (b"Q", b"C") for fields in lines)
    return 2 if lines and right > len(lines) / 2 else 0


FORMATS = {"yandex": looks_like}


def read(
    stream: Stream,
    format: str,
    report: Report,
    options: Options,
    tick: Tick = lambda size, lines: None,
    block: int = BLOCK,
) -> Iterator[pa.Table]:
    """The lists of a log as tables, in the order of the file; what is wrong goes into the report."""
    if options.columns:
        raise ValueError(f"columns={dict(options.columns)!r}: a Yandex log has no columns to be named")
    columns = _Columns(block)
    rest = b""
    told = 0
    with closing(ahead(stream.blocks(block))) as pieces:
        for piece in pieces:
            rest = yield from columns.take(rest + piece, False, report)
            tick(stream.done - told, columns.lines - report.lines)
            told, report.lines = stream.done, columns.lines
    if stream.size == 0:
        report.add("nothing", 0, stream.path.name)
    if stream.broken is not None:
        kind, words = stream.broken
        report.add(kind, columns.lines + 1, f"{words}; the last line is lost: {excerpt(rest)}" if rest else words)
        rest = b""
    yield from columns.take(rest, True, report)
    report.lines = columns.lines


class _Columns:
    """Room for the lists and clicks of a block, and what is known of the session that it breaks off in."""

    def __init__(self, block: int) -> None:
        from driftrank.logs.readers import steps

        lists = block // _SHORTEST_LIST + 2 * steps.MANY
        clicks = block // _SHORTEST_CLICK + 2 * steps.MANY
        self._steps = steps
        self._state = np.zeros(steps.STATE, np.int64)
        self._state[steps.SESSION] = -1
        self._of_lists = [np.empty(lists, np.int64) for _ in ("user", "query", "region", "line")]
        self._urls = np.empty((lists, steps.TEN), np.int64)
        self._click_list = np.empty(clicks, np.int32)
        self._click_position = np.empty(clicks, np.int16)
        self._counts = np.zeros(len(steps.KINDS), np.int64)
        self._examples = np.zeros((len(steps.KINDS), EXAMPLES, 3), np.int64)
        self._known = self._counts.copy()
        self._emitted = 0

    @property
    def lines(self) -> int:
        return int(self._state[self._steps.LINE])

    def take(self, text: bytes, final: bool, report: Report) -> Generator[pa.Table, None, bytes]:
        """Read lines; returns the bytes of the last one where it is not finished."""
        steps, state = self._steps, self._state
        buffer = np.frombuffer(text, np.uint8)
        while True:
            at = _compiled("parse")(
                buffer, len(buffer), final, state, *self._of_lists, self._urls, self._click_list,
                self._click_position, self._counts, self._examples, EXAMPLES,
            )  # fmt: skip
            self._tell(buffer, report)
            buffer = buffer[at:]
            full = self._is_full()
            if final and not full:
                state[steps.OPEN], state[steps.OPEN_CLICKS] = state[steps.LISTS], state[steps.CLICKS]
            if state[steps.OPEN]:
                yield self._closed(report)
            if not full:
                return buffer.tobytes()
            if self._is_full():  # of a single session
                self._grow()

    def _is_full(self) -> bool:
        lists, clicks = self._state[self._steps.LISTS], self._state[self._steps.CLICKS]
        return bool(lists == len(self._urls) or clicks == len(self._click_list))

    def _closed(self, report: Report) -> pa.Table:
        """The lists that can get no more clicks, as a table; the others move to the front."""
        import pyarrow as pa

        steps, state = self._steps, self._state
        n, clicks = int(state[steps.OPEN]), int(state[steps.OPEN_CLICKS])
        offsets = np.zeros(n + 1, np.int32)
        positions = np.empty(clicks, np.int16)
        _compiled("arrange")(self._click_list, self._click_position, clicks, offsets, positions)
        user, query, region, line = (column[:n].copy() for column in self._of_lists)
        ends = np.arange(0, (n + 1) * steps.TEN, steps.TEN, dtype=np.int32)
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
        lists, more = int(state[steps.LISTS]), int(state[steps.CLICKS])
        for column in (*self._of_lists, self._urls):
            column[: lists - n] = column[n:lists].copy()
        self._click_list[: more - clicks] = self._click_list[clicks:more] - n
        self._click_position[: more - clicks] = self._click_position[clicks:more].copy()
        state[[steps.LISTS, steps.OPEN]] -= n
        state[[steps.CLICKS, steps.OPEN_CLICKS]] -= clicks
        return table

    def _grow(self) -> None:
        self._of_lists = [np.concatenate([column, column]) for column in self._of_lists]
        self._urls = np.concatenate([self._urls, self._urls])
        self._click_list = np.concatenate([self._click_list, self._click_list])
        self._click_position = np.concatenate([self._click_position, self._click_position])

    def _tell(self, buffer: NDArray[np.uint8], report: Report) -> None:
        for kind in np.flatnonzero(self._counts != self._known):
            name, now, before = self._steps.KINDS[kind], int(self._counts[kind]), int(self._known[kind])
            for line, begin, end in self._examples[kind, min(before, EXAMPLES) : min(now, EXAMPLES)].tolist():
                text = buffer[begin:end].tobytes()
                fields = text.count(b"\t") + 1
                report.add(name, line, f"{fields - 5} URLs: {excerpt(text)}" if name == "urls" else excerpt(text))
            report.counts[name] = now
        self._known[:] = self._counts


@functools.cache
def _compiled(name: str) -> Any:
    from driftrank.kernels.compile import specialise
    from driftrank.logs.readers import steps

    return specialise(getattr(steps, name), {})
