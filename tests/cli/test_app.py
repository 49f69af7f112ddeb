from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import driftrank
from driftrank.cli._stopping import Stopping
from driftrank.cli.app import commands, make_app, run
from driftrank.environments.registry import environments
from driftrank.policies.registry import policies

ROOT = Path(__file__).parents[2]


def modules_after(*arguments: str) -> set[str]:
    """What is imported, in a process of its own, by the time a command is done."""
    code = "import json, sys; from driftrank.cli import main\ntry: main(sys.argv[1:])\n"
    code += "finally: print(json.dumps([name for name in sys.modules if sys.modules[name]]), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


def test_every_file_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(commands()) >= {"bench", "bounds", "environments", "leaderboard", "policies", "reproduce", "simulate"}
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in commands())


@pytest.mark.parametrize("command", commands())
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--help", "-h"):
        assert run([command, flag]) == 0
        out = capsys.readouterr().out
        assert f"\n  driftrank {command}" in out  # on a line of its own
        assert "--help" in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"driftrank {driftrank.__version__}\n"


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "simulate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("simulate --policy CascadeSWU", ["CascadeSWUCB"]),
        ("simulate --env Abr", ["Abrupt"]),
        ("leaderboard --env Abr", ["Abrupt", "Abrupt-0.5"]),
    ],
)
def test_shell_completion(words: str, offered: list[str]) -> None:
    environment = {"_DRIFTRANK_COMPLETE": "complete_bash", "COMP_WORDS": f"driftrank {words}"}
    code = "from driftrank.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"COMP_CWORD": "3", "PATH": "", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.stdout.split() == offered


def test_help_is_light() -> None:
    assert not {"numba", "numpy", "pyarrow", "matplotlib", "rich"} & modules_after("simulate", "--help")


def test_simulate_is_as_light_as_can_be(tmp_path: Path) -> None:
    arguments = ["--policy", "Random", "--queries", "yandex-like:1", "--horizon", "50", "--runs", "1"]
    found = modules_after("simulate", *arguments, "--out", str(tmp_path), "-q")
    assert {"numba", "pyarrow", "matplotlib"} <= found
    assert not {"scipy", "pandas", "matplotlib.pyplot", "rich", "pyarrow.dataset"} & found


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line for line in out.splitlines()[2:]}
    assert set(rows) == set(policies())
    assert "stationary, abrupt" in rows["CascadeSWUCB"]
    assert "Sliding-window UCB" in rows["CascadeSWUCB"]
    assert ":class:" not in out


def test_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["environments"]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[2:]}
    assert set(rows) == set(environments())
    assert rows["Abrupt"].endswith("abrupt")


def test_a_page_has_the_docstring_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "CascadeSWUCB"]) == 0
    out = capsys.readouterr().out
    assert "Theorem 2" in out
    assert "window = auto  (int | str)" in out
    assert run(["environments", "LowerBound"]) == 0
    assert "period = 33333  (int)" in capsys.readouterr().out
    assert run(["policies", "OracleRestart"]) == 0
    assert "base = CascadeTS" in capsys.readouterr().out
    assert run(["environments", "Abrupt"]) == 0
    out = capsys.readouterr().out
    assert "period = 10000" in out
    assert "queries = " not in out


@pytest.mark.parametrize("command", ["policies", "environments"])
def test_catalogues_as_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert set(everything) == set(policies() if command == "policies" else environments())
    name = next(iter(everything))
    assert run([command, name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {name: everything[name]}


def test_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftrank.experiments.bench.HORIZONS", (1_000,))
    monkeypatch.setattr("driftrank.experiments.bench.WINDOWS", (10,))
    arguments = ["bench", "--quick", "--policy", "CascadeSWUCB", "--items", "5,20"]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "the NumPy loop on one core" in out
    assert "ns/step/core by items" in out
    assert "ns/step/core by horizon " in out
    assert "ns/step/core by window " in out
    assert run([*arguments, "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert list(measured["items"]["CascadeSWUCB"]) == ["5", "20"]
    assert list(measured["policies"]) == ["CascadeSWUCB"]


def test_interrupts_anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("driftrank.policies.registry.policies", interrupted)
    assert run(["policies"]) == 130
    assert capsys.readouterr().err == "driftrank: stopped\n"


def test_an_error_that_an_interrupt_led_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def half_compiled() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("no compiled object yet") from None

    monkeypatch.setattr("driftrank.policies.registry.policies", half_compiled)
    assert run(["policies"]) == 130
    assert capsys.readouterr().err == "driftrank: stopped\n"


def test_an_interrupt_in_a_callback_is_not_lost() -> None:
    called = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))

    def wait() -> None:
        called()  # C code cannot raise: the exception is only reported
        time.sleep(20)

    begin = time.monotonic()
    with Stopping() as stopping, pytest.raises(KeyboardInterrupt):
        wait()
    assert stopping.asked
    assert time.monotonic() - begin < 10


def test_other_reports_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_type))
    with Stopping():
        ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
    assert told == [ZeroDivisionError]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_handlers_are_put_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Stopping():
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) is before
    signal.signal(number, signal.SIG_IGN)
    try:
        with Stopping():
            assert signal.getsignal(number) is signal.SIG_IGN  # as nohup and & want it
    finally:
        signal.signal(number, before)


def test_library_can_be_told_from_command() -> None:
    """The trick that keeps scipy out is for the process of the command only."""
    make_app()
    run(["--version"])
    import scipy.linalg

    assert scipy.linalg is not None
