"""Logs: one JSON object a line on standard error, or, where that is a terminal, lines for people."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import IO, Any

#: the id of the request that is being answered
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)

#: what every record has; anything else was given by ``extra``
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= _more(record)
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str, ensure_ascii=False)


class PlainFormatter(logging.Formatter):
    """A record as a line to read."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        more = "".join(f" {key}={value}" for key, value in _more(record).items())
        text = f"{time} {record.levelname.lower():7} {_printable(record.getMessage() + more)}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _printable(text: str) -> str:
    """Without what would command a terminal: paths are written by clients."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _more(record: logging.LogRecord) -> dict[str, Any]:
    """The request's id, and what the record was given beside its message."""
    request = REQUEST_ID.get()
    more = {} if request is None else {"request_id": request}
    return more | {key: value for key, value in vars(record).items() if key not in _USUAL}


def set_up_logging(level: str = "info", stream: IO[str] | None = None) -> None:
    """Have this process log as the service does: its own loggers, uvicorn's, and whoever else has something to say.

    Give uvicorn ``log_config=None`` and ``access_log=False``; our own lines tell of requests.
    """
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter() if stream.isatty() else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # of libraries, only what matters
    logging.getLogger("driftrank").setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(level.upper() if name != "uvicorn.access" else logging.WARNING)
