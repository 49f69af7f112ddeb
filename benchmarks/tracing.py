"""Run a command of driftrank with a trace of its event loop.

    python benchmarks/tracing.py OUT serve [options of driftrank serve]

At every SIGUSR2 a line of JSON is added to OUT, about the time since the one before: seconds of CPU of the main thread
by part of the program, of all other threads together, and the moments in which the event loop was late by more than
5 ms, with what ran then. The main thread is sampled every two milliseconds, and the CPU time that it took since the
sample before counts for the innermost frame that belongs to a part. Works with other checkouts of the project, too, if
PYTHONPATH names one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import runpy
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import uvicorn

#: seconds between samples and between beats of the event loop; lateness from which a moment is slow
SAMPLE, BEAT, SLOW = 0.002, 0.002, 0.005
#: parts by the file, the first that matches; of files of driftrank, and of others
OURS = (
    ("policies/", "policy"), ("kernels/", "policy"), ("engine/", "policy"), ("serve/state/", "fold"),
    ("serve/log/", "log"), ("serve/http/gate", "gate"), ("serve/http/endpoint", "gate"), ("serve/http/limits", "gate"),
    ("serve/access/", "gate"), ("serve/http/connection", "HTTP parse"), ("serve/", "service"),
)  # fmt: skip
OTHERS = (("/uvicorn/", "HTTP parse"), ("/starlette/", "Starlette"), ("/fastapi/", "Starlette"))
JSON = ("decoded", "json_response")


def part_of(code: CodeType) -> str | None:
    """The part of the program that a function belongs to; None: that of its caller."""
    path = code.co_filename.replace("\\", "/")
    if "/driftrank/" not in path:
        part = next((part for place, part in OTHERS if place in path), None)
        return "HTTP send" if part == "HTTP parse" and code.co_name == "send" else part
    if code.co_name in JSON:
        return "JSON"
    inner = path.rpartition("/driftrank/")[2]
    return next((part for place, part in OURS if inner.startswith(place)), None)


class Trace:
    """The samples since the last report."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._known: dict[CodeType, str | None] = {}
        self._began_collecting = 0.0
        self._begin()

    def _begin(self) -> None:
        self._parts: Counter[str] = Counter()
        self._slow: list[dict[str, Any]] = []
        self._recent: Counter[str] = Counter()  # since the last beat
        self._before = time.thread_time()
        self._thread, self._process = self._before, time.process_time()

    def start(self) -> None:
        """Begin, on the running event loop."""
        signal.signal(signal.SIGALRM, self._sample)
        signal.signal(signal.SIGUSR2, self._report)
        gc.callbacks.append(self._collected)
        signal.setitimer(signal.ITIMER_REAL, SAMPLE, SAMPLE)
        loop = asyncio.get_running_loop()
        loop.call_later(BEAT, self._beat, loop, loop.time() + BEAT)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        found, inner = "event loop", ""
        while frame is not None:
            code = frame.f_code
            if code not in self._known:
                self._known[code] = part_of(code)
            part = self._known[code]
            if part is not None:
                inner = inner or f"{Path(code.co_filename).name}:{code.co_name}"
                if found == "event loop" or (part == "fold" and found == "policy"):  # it learns
                    found = part
            frame = frame.f_back
        self._count(found, inner or "event loop")

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            self._count("garbage collection", f"garbage collection of generation {info['generation']}")
        else:
            self._count("event loop", "")

    def _count(self, part: str, what: str) -> None:
        now = time.thread_time()
        self._parts[part] += now - self._before  # type: ignore[assignment]
        self._recent[what] += now - self._before  # type: ignore[assignment]
        self._before = now

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = loop.time() - due
        recent, self._recent = self._recent, Counter()  # a sample may be taken at any time
        if late > SLOW:
            what = max(recent, key=lambda what: recent[what], default="")
            if sum(recent.values()) < late / 2:
                what = "the thread waited for the processor, or for another thread"
            self._slow.append({"ms": 1e3 * late, "what": what})
        loop.call_later(BEAT, self._beat, loop, loop.time() + BEAT)

    def _report(self, *_: Any) -> None:
        thread, process = time.thread_time() - self._thread, time.process_time() - self._process
        report = {"parts": dict(self._parts), "other threads": process - thread, "slow": self._slow}
        with self._out.open("a") as out:
            out.write(json.dumps(report) + "\n")
        self._begin()


def main() -> None:
    trace, startup = Trace(Path(sys.argv[1])), uvicorn.Server.startup

    async def traced(server: uvicorn.Server, *args: Any, **how: Any) -> None:
        trace.start()
        await startup(server, *args, **how)

    uvicorn.Server.startup = traced  # type: ignore[method-assign]
    sys.argv = ["driftrank", *sys.argv[2:]]
    runpy.run_module("driftrank", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
