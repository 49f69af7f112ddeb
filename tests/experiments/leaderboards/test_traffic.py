"""Traffic in a leaderboard: a group of its own, compared with the caller's order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import driftrank as dr
from driftrank.experiments import Leaderboard, leaderboard
from driftrank.experiments.leaderboards.leaderboard import _Plan
from driftrank.experiments.leaderboards.page import write_page
from driftrank.experiments.simulation.folder import Journal
from driftrank.policies.registry import default_policy

pytestmark = pytest.mark.interpreted  # few steps: compiling takes longer
SPEC = "Traffic:n_queries=9,candidates=6,K=2,catalogue=20,shuffle=40"
SMALL: dict[str, Any] = {
    "queries": "yandex-like:2", "policies": ["CascadeTS", "StaticOracle"], "environments": [SPEC, "BLB"],
    "horizon": 100, "progress": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("board")


@pytest.fixture(scope="module")
def board(folder: Path) -> Leaderboard:
    made = leaderboard(folder=folder, **SMALL)
    write_page(made, folder, ["driftrank", "leaderboard"])
    return made


@pytest.mark.slow
def test_a_leaderboard_of_its_own(board: Leaderboard) -> None:
    assert board.environments == ["BLB"]
    assert list(board.parts) == ["traffic"]
    traffic = board.parts["traffic"]
    assert traffic.environments == [SPEC]
    assert set(board.policies) == {type(default_policy()).__name__, "CascadeTS", "StaticOracle"}
    assert "StaticOracle" not in traffic.policies
    (arena,) = traffic.arenas
    assert arena.obstacles == {"StaticOracle": "StaticOracle: cannot run in Traffic, which has many queries"}
    assert {c.environment for c in board.comparisons} == {"BLB"}
    assert {c.environment for c in traffic.comparisons} == {SPEC}


def test_gains_are_those_of_a_simulation(board: Leaderboard) -> None:
    world = dr.environments.Traffic(n_queries=9, candidates=6, K=2, catalogue=20, shuffle=40)
    alone = dr.simulate("CascadeTS", world, horizon=100, runs=5, progress=False)
    (whole,) = alone.against_caller("CascadeTS", [0, 100])
    (arena,) = board.parts["traffic"].arenas
    assert arena.gain("CascadeTS") == pytest.approx((whole.gain, whole.error))
    assert board.parts["traffic"].regret("CascadeTS", SPEC)[0] == pytest.approx(whole.regret)
    assert f"{whole.gain:+.4f}" in str(board.parts["traffic"].gains())


def test_saved_and_loaded(board: Leaderboard, folder: Path) -> None:
    loaded = Leaderboard.load(folder)
    assert loaded.parts["traffic"].gains().rows == board.parts["traffic"].gains().rows
    assert loaded.summary() == board.summary()
    assert loaded.policies == board.policies
    saved = json.loads((folder / "summary.json").read_text())
    assert saved["parts"]["traffic"]["policies"]["CascadeTS"]["environments"][SPEC]["gain"]["mean"] == pytest.approx(
        board.parts["traffic"].arenas[0].gain("CascadeTS")[0]
    )


def test_resume_does_not_run_it_again(board: Leaderboard, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Plan, "run", lambda *_: pytest.fail("runs again"))
    assert leaderboard(folder=folder, resume=True, **SMALL).summary() == board.summary()


def test_on_the_page(board: Leaderboard, folder: Path) -> None:
    for name in ("leaderboard.html", "leaderboard.md"):
        page = (folder / name).read_text(encoding="utf-8")
        assert "less those of the order that the caller had" in page
        assert "StaticOracle: cannot run in Traffic" in page
        assert "best list" in page
    assert sum(SPEC.split(":")[0] in line for line in (folder / "table.csv").read_text().splitlines()) == 2


def test_more_runs_take_the_earlier_ones(board: Leaderboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a leaderboard with fewer runs only the others are made, in Traffic too."""
    leaderboard(folder=tmp_path, **SMALL)
    made: dict[str, int] = {}
    add = Journal.add

    def noting(self: Journal, unit: Any, *args: Any) -> None:
        made[self.result.environment] = made.get(self.result.environment, 0) + len(unit.runs)
        add(self, unit, *args)

    monkeypatch.setattr(Journal, "add", noting)
    more = leaderboard(folder=tmp_path, resume=True, runs=2, **SMALL)
    assert made == {"Traffic": 2 * 5, "BLB": 3 * 2}
    (before,), (after,) = (x.parts["traffic"].arenas for x in (board, more))
    assert (after.result.values[..., :5, :] == before.result.values).all()
    assert after.caller[:5] == before.caller


def test_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of all policies, those that cannot run are named with the reason; one that was asked for is refused."""
    few = [default_policy().spec, "CascadeTS", "StaticOracle"]
    monkeypatch.setattr("driftrank.experiments.leaderboards.policies.usual", lambda part: few)
    alone = SMALL | {"environments": [SPEC]}
    made = leaderboard(**alone | {"policies": []})
    assert made.parts == {}
    assert made.with_caller
    assert made.environments == [SPEC]
    assert "StaticOracle" not in made.policies
    write_page(made, tmp_path, ["driftrank"])
    page = (tmp_path / "leaderboard.md").read_text(encoding="utf-8")
    assert "StaticOracle: cannot run in Traffic" in page
    assert page.count("| environment |") == 1
    with pytest.raises(ValueError, match="StaticOracle: cannot run in Traffic"):
        leaderboard(**alone | {"policies": ["StaticOracle"]})
