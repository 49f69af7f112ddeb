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
from driftrank.cli._catalogue import brief, catalogue
from driftrank.cli._stopping import Stopping
from driftrank.cli.app import commands, make_app, run
from driftrank.clickmodels.registry import click_models
from driftrank.environments.registry import environments
from driftrank.policies.registry import policies, policy_groups

ROOT = Path(__file__).parents[2]


def modules_after(*arguments: str) -> set[str]:
    """The modules that a command imports, in a process of its own."""
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


GROUPS = {"": commands()} | {name: group for name, group in commands().items() if isinstance(group, dict)}


@pytest.mark.parametrize("group", GROUPS)
def test_summaries_of_commands_fit_80_columns(
    group: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*group.split(), "--help"]) == 0
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in lines} == set(GROUPS[group])
    assert len(lines) == len(GROUPS[group])
    assert not [line for line in lines if line.endswith("...")]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"driftrank {driftrank.__version__}\n"


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "simulate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("simulate --policy CascadeSWU", ["CascadeSWUCB"]),
        ("simulate --env Abr", ["Abrupt"]),
        ("leaderboard --env Abr", ["Abrupt", "Abrupt-0.5", "Abrupt-fair", "Abrupt-0.5-fair"]),
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


def test_help_imports_no_heavy_packages() -> None:
    assert not {"numba", "numpy", "pyarrow", "matplotlib", "rich"} & modules_after("simulate", "--help")


def test_simulate_imports_only_what_it_needs(tmp_path: Path) -> None:
    arguments = ["--policy", "CascadeSWUCB", "--queries", "yandex-like:1", "--horizon", "50", "--runs", "1"]
    found = modules_after("simulate", *arguments, "--out", str(tmp_path), "-q")
    assert {"numba", "pyarrow", "matplotlib"} <= found
    assert not {"scipy", "pandas", "matplotlib.pyplot", "rich", "pyarrow.dataset"} & found


def rows(table: str) -> dict[str, str]:
    """The rows of a catalogue, which are indented, by name."""
    return {line.split()[0]: line for line in table.splitlines()[1:] if line.startswith("  ")}


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies"]) == 0
    out = capsys.readouterr().out
    assert set(rows(out)) == set(policies())
    assert rows(out)["CascadeSWUCB"].split("  ")[-2:] == [
        "stationary, abrupt, drift",
        "Sliding-window UCB for the cascade model",
    ]
    headings = [line for line in out.splitlines() if line and not line.startswith("  ")]
    assert headings[0] == "The default policy and its predecessor"
    assert len(headings) >= 9
    forgetting = out.partition("\nPolicies that forget\n")[2].partition("\n\n")[0]
    assert {"CascadeSWUCB", "CascadeDUCB"} <= {line.split()[0] for line in forgetting.splitlines()}


def test_descriptions_say_more_than_the_name() -> None:
    for name, cls in (policies() | environments() | click_models()).items():
        if cls.__module__.startswith("driftrank."):
            assert brief(cls) not in ("", name)


def test_a_catalogue_fits_the_terminal() -> None:
    wide = catalogue(policy_groups(), "claims", None)
    narrow = catalogue(policy_groups(), "claims", 100)
    assert max(map(len, narrow.splitlines())) <= 100
    assert " ".join(narrow.split()) == " ".join(wide.split())


def test_environments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["environments"]) == 0
    found = rows(capsys.readouterr().out)
    assert set(found) == set(environments())
    assert found["Stationary"].split("  ")[-2:] == ["stationary", brief(environments()["Stationary"])]


def test_pages_have_the_docstring_and_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
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
    monkeypatch.setattr("driftrank.experiments.speed.bench.HORIZONS", (1_000,))
    monkeypatch.setattr("driftrank.experiments.speed.bench.WINDOWS", (10,))
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


def test_interrupts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("driftrank.policies.registry.policy_groups", interrupted)
    assert run(["policies"]) == 130
    assert capsys.readouterr().err == "driftrank: stopped\n"


def test_errors_caused_by_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def half_compiled() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("no compiled object yet") from None

    monkeypatch.setattr("driftrank.policies.registry.policy_groups", half_compiled)
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


def test_other_unraisable_errors_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: reported.append(error.exc_type))
    with Stopping():
        ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
    assert reported == [ZeroDivisionError]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_handlers_are_restored(number: signal.Signals) -> None:
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


def test_scipy_is_blocked_only_in_the_process_of_a_command() -> None:
    make_app()
    run(["--version"])
    import scipy.linalg

    assert scipy.linalg is not None
