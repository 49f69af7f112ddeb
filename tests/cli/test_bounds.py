from __future__ import annotations

import json
from pathlib import Path

import pytest

from driftrank.cli.app import run
from driftrank.theory import recommended_discount, theorem3

INSTANCE = ("bounds", "--env", "LowerBound:L=4,p=0.6,delta=0.5", "--horizon", "3000", "--runs", "4")


def test_prints_the_theorems_beside_the_regret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*INSTANCE, "--no-growth", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    for text in ("theorem 1", "theorem 2", "theorem 3", "CascadeDUCB", "CascadeSWUCB", "2 breakpoints", "epsilon=0.6"):
        assert text in out
    assert "smallest gap 0.5" in out
    assert f"discount {recommended_discount(3000, 2):.6f}" in out
    assert "vacuous" in out
    assert not (tmp_path / "out").exists()


def test_json_is_all_there_is_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*INSTANCE, "--no-growth", "--json", "--epsilon", "0.7", "--out", str(tmp_path)]) == 0
    (told,) = json.loads(capsys.readouterr().out)["environments"]
    assert told["epsilon"] == 0.7
    assert told["breakpoints"] == 2
    assert told["lower_bound"] == theorem3(3000, 4, 2, 0.6, 0.5)
    for policy, theorem in (("CascadeDUCB", 1), ("CascadeSWUCB", 2)):
        found = told["policies"][policy]
        assert found["theorem"] == theorem
        assert found["bound"] > found["regret"]["mean"] > 0


def test_growth_draws_figure_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bounds",
        "--quick",
        "--queries",
        "yandex-like:2",
        "--horizon",
        "2000",
        "--json",
        "--out",
        str(tmp_path),
    ]
    assert run(arguments) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["env"].partition(":")[0] for each in told["environments"]] == ["Abrupt", "LowerBound"]
    for each in told["environments"]:
        assert each["growth"]["horizons"][0] == 1000
        assert 0 < each["growth"]["exponents"]["CascadeSWUCB"]["all"] < 1
    assert {Path(path).name for path in told["figures"]} == {"figure3.png", "figure3.svg"}
    assert (tmp_path / "figure3.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilon", "0.5"], "epsilon=0.5"),
        (["--horizon", "0"], "horizon=0"),
        (["--runs", "0"], "runs=0"),
        (["--env", "Abrubt"], "did you mean Abrupt"),
        (["--env", "Abrupt", "--k", "11"], "k=11"),
        (["--env", "LowerBound:L=3"], "L=3"),
        (["--threads", "0"], "threads=0"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(["bounds", "--quick", *arguments, "--out", str(tmp_path / "out")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()
