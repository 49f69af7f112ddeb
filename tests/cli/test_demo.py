"""driftrank demo; tests/serve/page/test_browser.py runs it."""

from __future__ import annotations

import socket

import pytest

from driftrank.cli.app import run
from driftrank.cli.demo import _free


def test_a_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert _free(port) == 0
    assert _free(port) == port
    assert _free(0) == 0


def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--no-open", "--store", "nowhere"]) == 2
    assert "store='nowhere': must be of the form" in capsys.readouterr().err
    assert run(["demo", "--rate", "0"]) == 2
