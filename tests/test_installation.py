"""scripts/install.py: uv with pip's settings, and pip where uv cannot do it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "install.py"
LISTING = """\
:env:.find-links='/wheels /more'
global.cert='/certificates.crt'
global.extra-index-url='file:///a file:///b'
global.find-links='/elsewhere'
global.index-url='https://a.example/simple'
global.timeout='60'
install.index-url='https://b.example/simple'
list.format='columns'
"""


def settings(listing: str) -> Any:
    return runpy.run_path(str(SCRIPT))["settings"](listing)


def test_settings_of_pip_reach_uv() -> None:
    assert settings(LISTING) == {
        "SSL_CERT_FILE": "/certificates.crt",
        "UV_DEFAULT_INDEX": "https://b.example/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX": "file:///a file:///b",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_a_setting_that_uv_does_not_have() -> None:
    assert settings(LISTING + "global.client-cert='/key.pem'\n") is None


class Runs:
    """Stands in for ``subprocess.run``: commands that contain ``fails`` end with 1."""

    def __init__(self, fails: str) -> None:
        self.fails = fails
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        failed = self.fails in command
        return subprocess.CompletedProcess(command, int(failed), stdout="")

    def installers(self) -> list[str]:
        """The installers that were given the package, in their order."""
        return [command[2] for command in self.commands if ".[dev]" in command]


def install(monkeypatch: pytest.MonkeyPatch, fails: str) -> tuple[Any, Runs]:
    runs = Runs(fails)
    monkeypatch.setattr(subprocess, "run", runs)
    monkeypatch.setattr(sys, "argv", ["install.py", ".[dev]"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    return ended.value.code, runs


@pytest.mark.parametrize(
    ("fails", "installers"),
    [
        ("nothing", ["uv"]),
        ("--only-binary", ["pip"]),  # no wheel of uv
        ("config", ["pip"]),  # an old pip
        ("--python", ["pip"]),  # uv fails with its first command
    ],
)
def test_pip_installs_where_uv_cannot(monkeypatch: pytest.MonkeyPatch, fails: str, installers: list[str]) -> None:
    code, runs = install(monkeypatch, fails)
    assert (code, runs.installers()) == (0, installers)
    assert all("requirements.lock" in command for command in runs.commands if "install" in command)


def test_no_installer_succeeds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, runs = install(monkeypatch, ".[dev]")
    assert (code, runs.installers()) == (1, ["uv", "pip"])
    assert "needs access to a package index" in capsys.readouterr().err
