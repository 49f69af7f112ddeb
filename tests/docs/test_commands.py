"""The commands on pages: the command line takes every one of them, and those that take files of this test run."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.docs.commands import BEFORE, CODES, Command, commands, problem, resolve, small

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    path
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "docs" / "tutorial").glob("*.py")),
    )
    if path.exists()
]


def test_commands_are_found() -> None:
    page = """driftrank learns from clicks. See `driftrank fit LOG --model
all`, and `driftrank simulate --policy ...`; `driftrank.fit` is Python.

    A=b driftrank sweep --policy "X:a=geom(1,2,3)" \\
        --runs 2   # with a comment
    print(driftrank)   # driftrank serve
    pip install 'driftrank[all]' && driftrank key --out x 2>&1 | head

```sh
key=$(driftrank key | tail -1)
```
"""
    assert commands(page) == [
        Command(("sweep", "--policy", "X:a=geom(1,2,3)", "--runs", "2"), 4, True),
        Command(("key", "--out", "x"), 7, True),
        Command(("key",), 9, True),
        Command(("fit", "LOG", "--model", "all"), 1, False),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    own = "import mine" in text or "--import" in text
    found = {c: problem(c.words, whole=c.whole, own=own) for c in commands(text)}
    assert {c: wrong for c, wrong in found.items() if wrong} == {}


def test_examples_of_commands_exist() -> None:
    from driftrank.cli.app import commands as all_commands

    def examples(group: object) -> list[Command]:
        if isinstance(group, dict):
            return [each for one in group.values() for each in examples(one)]
        text = inspect.getdoc(group) or ""
        return commands("\n".join(f"    {line.strip()}" for line in text.partition("\b")[2].splitlines()))

    found = examples(all_commands())
    assert len(found) > 60
    wrong = {c.words: problem(c.words, own=True) for c in found}
    assert {words: text for words, text in wrong.items() if text} == {}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("simulat", "no such command: simulat"),
        ("log converts a b", "no such command: log converts a b"),
        ("simulate --horizont 5", "simulate: No such option: --horizont"),
        ("simulate --runs many", "simulate: Invalid value for '--runs'"),
        ("simulate --policy CascadeSWUBC", "simulate: "),
        ("simulate --policy CascadeSWUCB:windw=5", "simulate: CascadeSWUCB:windw=5: no parameter windw"),
        ("simulate --env Abrup", "simulate: "),
        ("simulate --click-model XM", "simulate: "),
        ("log convert a", "log convert: lacks "),
        ("policies CascadeTS CascadeUCB1", "policies: unexpected CascadeUCB1"),
        ("simulate --policy CascadeSWUCB:window=geom(1,5,2) --env Traffic:stream=a,models=b --click-model DBN", None),
        ("leaderboard --env users --env Drift-walk", None),
        ("--version", None),
    ],
)
def test_wrong_commands_are_found(line: str, wrong: str | None) -> None:
    found = problem(tuple(line.split()))
    assert found is None if wrong is None else str(found).startswith(wrong)
    if line == "log convert a":
        assert problem(tuple(line.split()), whole=False) is None


def test_commands_are_made_small() -> None:
    words = ("sweep", "--policy", "CascadeSWUCB:window=geom(50,20000,25)", "--env", "BLB")
    assert small(words) == [
        "sweep", "--policy", "CascadeSWUCB:window=geom(50,20000,2)", "--env", "BLB",
        "--horizon", "300", "--runs", "1", "--quiet",
    ]  # fmt: skip
    assert small(("simulate", "--queries", "own.json")) == [
        *("simulate", "--queries", "own.json", "--horizon", "300", "--runs", "1", "--quiet")
    ]
    assert small(("serve",)) is None
    assert resolve(("log", "convert", "a", "b"))[1:] == ("log convert", ["a", "b"])


QUICK = {"policies", "environments"}
RUN = """
import json, sys
from driftrank.cli.app import run
for words in json.loads(sys.stdin.read()):
    print(run(words), *words, file=sys.stderr, flush=True)
"""


def test_commands_that_only_print_run(capsys: pytest.CaptureFixture[str]) -> None:
    from driftrank.cli.app import run

    found = [c.words for page in PAGES for c in commands(page.read_text("utf-8")) if "--import" not in c.words]
    printing = [words for words in found if words[0] in QUICK or ("--print-sql" in words and len(words) > 3)]
    assert len(printing) > 5
    for words in printing:
        assert run(words) == 0, words
        assert capsys.readouterr().out


@pytest.mark.slow
def test_commands_run(tmp_path: Path) -> None:
    """Those that take no files but the ones made here, made small."""
    wanted = [each.split() for each in BEFORE]
    made = {"log.parquet", "yandex.txt.gz", "models.json", "changing.json"}
    for page in PAGES:
        for command in commands(page.read_text("utf-8")):
            words = small(command.words) if command.whole else None
            files = {file for word in command.words for file in re.findall(r"[\w*/.-]+\.[a-z][a-z.]+", word)}
            if words and words[0] != "advise" and words[0] not in QUICK and files <= made:
                wanted += [BEFORE[0].split()] * (words[0] == "evaluate") + [words]
    assert len(wanted) > 15
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(wanted), cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_OPT": "1", "MPLBACKEND": "agg"}, timeout=600,
    )  # fmt: skip
    codes = re.findall(r"^(\d+) (\w.*)$", done.stderr, re.MULTILINE)
    assert done.returncode == 0, done.stderr[-2000:]
    failed = [line for code, line in codes if int(code) not in CODES.get(line.split()[0], (0,))]
    assert failed == [], done.stderr[-3000:]
    assert len(codes) == len(wanted)
