"""Logs: a JSON object per line on standard error, or plain lines if that is a terminal."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

#: the id of the current request
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
#: its place in a trace of other systems: the header traceparent (W3C Trace Context)
TRACE: ContextVar[str | None] = ContextVar("traceparent", default=None)

#: attributes of every record; others come from ``extra``
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= _more(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """Formats a record as a plain line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        more = "".join(f" {key}={value}" for key, value in _more(record).items())
        text = f"{time} {record.levelname.lower():7} {_printable(record.getMessage() + more)}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _printable(text: str) -> str:
    """Escape control characters, which a terminal would obey: clients choose paths."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _more(record: logging.LogRecord) -> dict[str, Any]:
    """The request's id and trace, and the record's extra attributes."""
    known = {"request_id": REQUEST_ID.get(), "traceparent": TRACE.get()}
    more = {key: value for key, value in known.items() if value is not None}
    return more | {key: value for key, value in vars(record).items() if key not in _USUAL}


def set_up_logging(level: str = "info", stream: IO[str] | None = None) -> None:
    """Set up the logging of this process: of driftrank, uvicorn and all other loggers.

    Give uvicorn ``log_config=None`` and ``access_log=False``; the gate logs requests.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter() if stream.isatty() else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # of libraries
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    set_level(level)


def set_worker(number: int) -> None:
    """Write the number of this worker into every line."""

    def add(record: logging.LogRecord) -> bool:
        record.worker = number
        return True

    for handler in logging.getLogger().handlers:
        handler.addFilter(add)


def set_level(level: str) -> None:
    """Set the least severe messages to log."""
    for name in ("driftrank", "uvicorn", "uvicorn.error"):
        logging.getLogger(name).setLevel(level.upper())
