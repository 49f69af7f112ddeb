from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from driftrank.cli._options import command_line
from driftrank.cli.app import make_app, run
from driftrank.cli.leaderboard import leaderboard
from driftrank.cli.reproduce import reproduce

#: commands that read options from a file
CONFIGURED = ("bounds", "leaderboard", "reproduce", "simulate", "sweep")


def test_command_line_leaves_defaults_out() -> None:
    options = {"queries": "yandex-like:3", "runs": 10, "horizon": 100_000, "seed": 5, "policy": ["Random", "TopRank"]}
    assert command_line(reproduce, **options) == [
        "driftrank", "reproduce", "--queries", "yandex-like:3", "--runs", "10", "--seed", "5", "--policy", "Random",
        "--policy", "TopRank",
    ]  # fmt: skip
    assert command_line(leaderboard, n_queries=2, env=None) == ["driftrank", "leaderboard", "--n-queries", "2"]


@pytest.mark.parametrize("name", CONFIGURED)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = true", "seed=True: must be an integer"),
        ("seed = 'x'", "seed='x': must be an integer"),
        ("config = 'x'", "unknown setting in"),
        ("sed = 1", "'sed'; did you mean seed?"),
        ("out = 1", "out=1: must be text"),
    ],
)
def test_wrong_files_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, message: str
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(text)
    assert run([name, "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_origin_in_a_file_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A ``run.toml`` has the version and the digest of the queries, which are not options."""
    config = tmp_path / "run.toml"
    config.write_text('driftrank = "0.0.1"\nqueries_digest = "00"\nk = 99\n')
    assert run(["simulate", "--config", str(config), "--out", str(tmp_path / "out")]) == 2
    assert "k=99: must be an integer from 1 to the number of items" in capsys.readouterr().err


def test_options_are_in_small_letters() -> None:
    """Some versions of typer take a metavar that is the option's name in capitals for the option itself."""

    def options(command: Any) -> list[str]:
        own = [name for parameter in command.params for name in parameter.opts if name.startswith("--")]
        return own + [name for sub in getattr(command, "commands", {}).values() for name in options(sub)]

    found = options(typer.main.get_command(make_app()))
    assert len(found) > 100
    assert [name for name in found if name != name.lower()] == []
