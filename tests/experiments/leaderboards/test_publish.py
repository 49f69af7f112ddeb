"""The script that puts the figures of a leaderboard into the documentation."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import pytest

from driftrank.experiments import Leaderboard
from driftrank.experiments.leaderboards.leaderboard import HORIZON, QUERIES, RUNS, K
from driftrank.experiments.leaderboards.page import write_page
from driftrank.experiments.leaderboards.places import places
from driftrank.experiments.leaderboards.policies import chosen_policies, together
from driftrank.queries import yandex_like

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "publish.py"
OLD = ROOT / "tests" / "experiments" / "simulation" / "folders_0.1.0" / "leaderboard" / "complete"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs the repository's benchmarks")


def test_figures_are_put_between_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Leaderboard.load(OLD)
    folder = shutil.copytree(OLD, tmp_path / "out")
    write_page(board, folder, ["driftrank", "leaderboard"])
    docs = tmp_path / "docs"
    (docs / "explanation").mkdir(parents=True)
    short = docs / "explanation" / "which-policy.md"
    short.write_text("first\n<!-- leaderboard: begin -->\nold\n<!-- leaderboard: end -->\nlast\n", encoding="utf-8")
    (docs / "images").mkdir()
    page = docs / "explanation" / "default-policy.md"
    shutil.copyfile(ROOT / "docs" / "explanation" / "default-policy.md", page)
    before, _, after = page.read_text(encoding="utf-8").partition("<!-- leaderboard: begin -->")
    monkeypatch.setattr(sys, "argv", ["publish.py", str(folder), "--root", str(tmp_path), "--seed", "0"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    published = page.read_text(encoding="utf-8")
    assert published.startswith(f"{before}<!-- leaderboard: begin -->\n- Users who change: beaten in")
    assert published.endswith(after.partition("<!-- leaderboard: end -->")[2])
    first, _, table, *_, last = short.read_text(encoding="utf-8").splitlines()
    assert (first, table.count("|"), last) == ("first", 6, "last")
    assert "<!-- leaderboard: begin -->" in (ROOT / short.relative_to(tmp_path)).read_text(encoding="utf-8")
    shown = (docs / "explanation" / "leaderboard.md").read_text(encoding="utf-8")
    assert "](../images/leaderboard.png)" in shown
    assert (docs / "images" / "leaderboard.png").stat().st_size > 0


def test_the_published_page_has_the_suite() -> None:
    """A change of worlds, horizons, runs, policies or the seed needs another run: the page says what it was made of."""
    page = (ROOT / "docs" / "explanation" / "leaderboard.md").read_text(encoding="utf-8")
    seed = runpy.run_path(str(SCRIPT))["SEED"]
    queries = f"yandex-like:{QUERIES}"
    assert f"\ndriftrank leaderboard --queries {queries} --horizon {HORIZON} --seed {seed}\n" in page
    assert f"\n- Seed: {seed}\n" in page
    tables = page.split("| environment | what happens | simulate --env | queries × runs |")[1:]
    rows = [line.strip("|").split("|") for table in tables for line in table.split("\n\n")[0].splitlines()[2:]]
    shown = {name.strip(): (what.strip(), command.strip(), size.strip()) for name, what, command, size, *_ in rows}
    found = places([], yandex_like(QUERIES, seed), K, HORIZON, RUNS, seed)
    assert shown == {
        place.name: (
            place.what, f"{place.spec} {place.options}".strip(), f"{len(place.environment.queries)} × {place.runs}",
        )
        for place in found
    }  # fmt: skip
    chosen = together(chosen_policies((), dict.fromkeys(place.part for place in found)))
    (policies,) = [line for line in page.splitlines() if line.startswith("- Policies: ")]
    assert set(policies.removeprefix("- Policies: ").split("; ")) == {policy.spec for policy in chosen}


def test_tables() -> None:
    script = runpy.run_path(str(SCRIPT))
    board = Leaderboard.load(OLD)
    (users, fair) = (script[f"{name}_table"](board) for name in ("users", "fair"))
    assert [row[0] for row in users.rows] == board.environments
    for row, arena in zip(users.rows, board.arenas, strict=True):
        regret, reward = (
            arena.result.values_of(board.default, measure)[..., -1].mean() for measure in ("regret", "reward")
        )
        assert row[2].endswith("%")
        assert 0.0 < script["lost"](arena, board.default) < 2 * regret / (regret + reward)
        assert row[5].endswith(f"({board.best(arena.name)})")
    shown = {"all": (board.environments[0], board.environments[-1]), "none": ("no", "such")}
    script["short_table"].__globals__["SHOWN"] = shown
    (row,) = script["short_table"](board).rows
    for name, own, other in ((board.environments[0], *row[1:3]), (board.environments[-1], *row[3:])):
        best = min({*board.contenders} - {board.default}, key=lambda label: board.regret(label, name)[0])
        beaten = any(c.verdict == "better" for c in board.comparisons if (c.policy, c.environment) == (best, name))
        assert own == script["amount"](board.regret(board.default, name)[0])
        assert other.endswith(f"({best})")
        assert other.startswith("**") == beaten
    assert all(row[2] == "–" for row in fair.rows)  # none of the rivals is in this leaderboard
