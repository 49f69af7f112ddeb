from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from driftrank.cli import serve
from driftrank.cli.app import run
from driftrank.serve.access.keys import hashed, is_hash, new_key
from driftrank.serve.settings.server import ServerSettings
from driftrank.wire import RankerSettings
from tests.serve.running import OUTSIDE

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Unset the variables of driftrank; restore the loggers."""
    for name in os.environ.keys() - OUTSIDE.keys():
        monkeypatch.delenv(name)
    names = ["", "driftrank", "uvicorn", "uvicorn.error", "uvicorn.access"]
    before = [(logger, logger.handlers[:], logger.level) for logger in map(logging.getLogger, names)]
    yield
    for logger, handlers, level in before:
        logger.handlers[:] = handlers
        logger.setLevel(level)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error message, which must be one line."""
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("driftrank: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@contextmanager
def serving(folder: Path, *options: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server in a process of its own; gives its URL and the process."""
    command = [sys.executable, "-m", "driftrank", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        command, cwd=folder, env={**OUTSIDE, **variables}, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(
            r"driftrank listens on (http://\S+), its live page is at \S+:\d+/, its API at \S+/docs; try: curl", line
        )
        if found is None:
            raise AssertionError(f"{line}{process.communicate(timeout=10)[1]}")
        yield found[1], process
    finally:
        process.kill()
        process.communicate()


def test_serves_and_shuts_down_gracefully(tmp_path: Path) -> None:
    with serving(tmp_path, "--access-log") as (url, process):
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
        assert httpx.get(f"{url}/readyz").json() == {"status": "ready"}
        assert "driftrank_ready 1.0" in httpx.get(f"{url}/metrics").text
        assert [ranker["name"] for ranker in httpx.get(f"{url}/v1/rankers").json()] == ["default"]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert (tmp_path / "driftrank.db").exists()
    lines = [json.loads(line) for line in err.splitlines()]
    assert "GET /healthz: 200" in [line["message"] for line in lines]


def test_keys_and_settings_come_from_the_environment(tmp_path: Path) -> None:
    key, kept = new_key()
    variables = {"DRIFTRANK_ADMIN_KEY": kept, "DRIFTRANK_RANKERS__SHOP__K": "3"}
    with serving(tmp_path, "--host", "0.0.0.0", **variables) as (url, _):
        near = url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{near}/healthz").status_code == 200
        assert httpx.get(f"{near}/v1/rankers").status_code == 401
        answer = httpx.get(f"{near}/v1/rankers/shop", headers={"Authorization": f"Bearer {key}"})
        assert answer.json()["settings"]["k"] == 3


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_public_address_needs_an_admin_key(host: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["serve", "--host", host, "--store", f"sqlite:///{tmp_path}/x.db"]) == 2
    line = error_line(capsys)
    assert f"host={host!r}: must be an address of this machine only, unless DRIFTRANK_ADMIN_KEY is set" in line
    assert "driftrank key" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "option --port: port=70000: must be an integer from 0 to 65535"),
        (["--port", "x"], "--port"),
        (["--durability", "some"], "durability='some': must be one of 'full', 'relaxed'"),
        (["--memory", "much"], "memory='much': must be bytes"),
        (["--log-level", "loud"], "log_level='loud'"),
        (["--retention", "1s"], "retention='1s': must be no shorter"),
        (["--config", "no-such.toml"], "no-such.toml: cannot be read"),
        (["--store", "driftrank.db"], "store='driftrank.db'"),
        (["--store", "oracle:///x"], "'oracle'"),
    ],
)
def test_wrong_settings_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "--port", "0", *arguments]) == 2
    assert message in error_line(capsys)


def test_wrong_variables_are_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTRANK_PROT", "80")
    assert run(["serve"]) == 2
    assert "unknown environment variable 'DRIFTRANK_PROT'; did you mean DRIFTRANK_PORT?" in error_line(capsys)


def test_port_in_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(["serve", "--port", str(port), "--store", f"sqlite:///{tmp_path}/x.db"]) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in error_line(capsys)
    assert not list(tmp_path.iterdir())


def test_file_that_is_not_a_store(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"this is not a database, whatever its name" * 100)
    assert run(["serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/x.db"]) == 1
    assert "x.db" in error_line(capsys)


@pytest.mark.parametrize(("command", "missing", "extra"), [("serve", "uvicorn", "serve"), ("drive", "httpx", "client")])
def test_missing_packages_are_named(command: str, missing: str, extra: str) -> None:
    code = f"import sys; sys.modules['{missing}'] = None; from driftrank.cli import main; main(['{command}'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=OUTSIDE, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"driftrank {command}: needs {missing}: pip install 'driftrank[{extra}]'\n"


def test_key_prints_a_key_and_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key"]) == 0
    first, second, _, serve, curl = capsys.readouterr().out.splitlines()
    key, kept = first.split()[1], second.split()[1]
    assert is_hash(kept)
    assert hashed(key) == kept
    assert serve == f"DRIFTRANK_ADMIN_KEY={kept} driftrank serve"
    assert f"Bearer {key}" in curl


def test_key_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert hashed(made["key"]) == made["hash"]


def test_key_needs_no_packages_of_the_server() -> None:
    code = "import sys\nfor name in ('starlette', 'msgspec', 'uvicorn'): sys.modules[name] = None\n"
    code += "from driftrank.cli import main; main(['key'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=OUTSIDE, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_price_of_exploration_is_printed():
    settings = ServerSettings(rankers={"shop": RankerSettings(k=2, explore=0.5), "plain": RankerSettings()})
    assert serve._exploring(settings) == [
        "ranker shop explores (explore = 0.5): 86% of first places and 75% of lists of 2 are shown as ranked; "
        "explore = 0 shows all so"
    ]
