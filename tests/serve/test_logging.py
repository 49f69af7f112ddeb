from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from driftrank.serve.monitoring.logging import REQUEST_ID, set_up_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _loggers_as_they_were() -> Iterator[None]:
    names = ["", "driftrank", "uvicorn", "uvicorn.error", "uvicorn.access"]
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def test_a_record_is_one_line_of_json() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    REQUEST_ID.set("abc")
    try:
        logging.getLogger("driftrank.serve").info("two\nlines of %s", "ä", extra={"records": 7, "where": {1}})
    finally:
        REQUEST_ID.set(None)
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("+00:00")
    assert record == {
        "level": "info", "logger": "driftrank.serve", "message": "two\nlines of ä", "request_id": "abc", "records": 7,
        "where": "{1}",
    }  # fmt: skip


def test_an_exception_is_in_the_line() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("driftrank.serve").exception("failed")
    assert "KeyError: 'x'" in json.loads(stream.getvalue())["exception"]


def test_uvicorn_logs_in_the_same_way() -> None:
    stream = io.StringIO()
    set_up_logging("info", stream)
    logging.getLogger("uvicorn.error").info("Started")
    logging.getLogger("uvicorn.access").info("GET /")  # ours say it
    logging.getLogger("some.library").info("chatter")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["message"] == "Started"


def test_levels() -> None:
    stream = io.StringIO()
    set_up_logging("warning", stream)
    logging.getLogger("driftrank.serve").info("quiet")
    logging.getLogger("driftrank.serve").warning("loud")
    assert json.loads(stream.getvalue())["message"] == "loud"


def test_a_terminal_gets_plain_lines() -> None:
    stream = Terminal()
    set_up_logging("info", stream)
    logging.getLogger("driftrank.serve").info("GET /\x1b[2J: %d", 200, extra={"ms": 3})
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("driftrank.serve").exception("failed")
    first, *others = stream.getvalue().splitlines()
    assert first.endswith("info    GET /\\x1b[2J: 200 ms=3")
    assert others[-1] == "KeyError: 'x'"


def test_logs_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logging.getLogger("driftrank.serve").info("here")
    assert json.loads(capsys.readouterr().err)["message"] == "here"
    assert sys.stderr is not None
