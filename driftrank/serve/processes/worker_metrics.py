"""The metrics of all workers in one answer: whoever is asked asks the others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress

from driftrank.serve.monitoring.metrics import Metrics
from driftrank.serve.processes.workers import Worker

#: seconds that an answer of another worker may take
_PATIENCE = 1.0
_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?( .*)")


class WorkerMetrics:
    """Answers the other workers, and asks them. ``async with`` it for as long as the service runs."""

    def __init__(self, worker: Worker, metrics: Metrics) -> None:
        self._worker, self._metrics = worker, metrics

    async def __aenter__(self) -> WorkerMetrics:
        path = self._worker.sockets[self._worker.number]
        self._server = await asyncio.start_unix_server(self._answer, str(path))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(self._metrics.render())
            await writer.drain()
        writer.close()

    async def render(self) -> bytes:
        """The metrics of all workers; those that do not answer are missing."""
        numbers = range(len(self._worker.sockets))
        answers = await asyncio.gather(*map(self._of, numbers))
        return labelled({number: text.decode() for number, text in zip(numbers, answers, strict=True)}).encode()

    async def _of(self, number: int) -> bytes:
        if number == self._worker.number:
            return self._metrics.render()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                reader, writer = await asyncio.open_unix_connection(str(self._worker.sockets[number]))
                try:
                    return await reader.read()
                finally:
                    writer.close()
        return b""


def labelled(texts: Mapping[int, str]) -> str:
    """Metrics of several workers in the text format of Prometheus, with a label that names the worker.

    >>> print(labelled({0: "# HELP n N.\\n# TYPE n gauge\\nn 1.0\\n", 1: "# HELP n N.\\n# TYPE n gauge\\nn 2.0\\n"}))
    # HELP n N.
    # TYPE n gauge
    n{worker="0"} 1.0
    n{worker="1"} 2.0
    <BLANKLINE>
    """
    families: dict[str, list[str]] = {}  # the lines of each
    for worker, text in texts.items():
        lines: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                lines = families.setdefault(line, [line])
            elif line.startswith("#"):
                if len(lines) == 1:
                    lines.append(line)
            else:
                name, labels, value = _SAMPLE.fullmatch(line).groups()  # type: ignore[union-attr]
                lines.append(f'{name}{{worker="{worker}"{"," + labels if labels else ""}}}{value}')
    return "".join(f"{line}\n" for lines in families.values() for line in lines)
