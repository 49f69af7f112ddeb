"""The report on an evaluation: answers, refusals, figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import driftrank as dr
from driftrank.evaluation.report import verdict, write_evaluation_report
from driftrank.evaluation.result import Evaluation
from tests.evaluation.worlds import BEST, draw, fixed, softmax, write


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """A target that is answered, and one that is refused."""
    path = write(tmp_path_factory.mktemp("log") / "log.parquet", draw(np.random.default_rng(1), 4000, softmax))
    worst = {"lamps": [5, 4, 3], "shoes": [0, 1, 2]}
    (path.parent / "worst.json").write_text(json.dumps(worst))
    return dr.evaluate(path, [BEST, str(path.parent / "worst.json")], changes=0)


def test_report(found: Evaluation, tmp_path: Path) -> None:
    files = write_evaluation_report(found, tmp_path / "out", ["driftrank", "evaluate", "log.parquet"])
    assert [file.name for file in files] == [
        "evaluation.json", "over-time.png", "over-time.svg", "report.html", "values.png", "values.svg"
    ]  # fmt: skip
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    best = found["rankings"]
    assert f"would earn {best.value:.4f} clicks per list" in text
    assert "more than the logged lists" in text
    assert "no value can be given (" in text
    assert "serve the present order with <code>explore = " in text
    assert "<td>reading from the top</td>" in text  # short: the columns beside it must be seen
    assert "driftrank evaluate log.parquet" in text
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["targets"][1]["whole"]["value"] is None


def test_plot(found: Evaluation) -> None:
    (axes,) = found.plot().axes
    (value, logged) = axes.get_lines()
    assert (value.get_label(), logged.get_label()) == ("rankings", "logged lists, whole log")
    assert np.isfinite(value.get_ydata()).any()


def test_nothing_is_answered(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", draw(np.random.default_rng(2), 1000, fixed))
    refused = dr.evaluate(path, BEST, changes=0)
    assert verdict(refused, refused["rankings"]).startswith("*rankings*: no value can be given (fixed-logging")
    files = write_evaluation_report(refused, tmp_path / "out", ["driftrank"])
    assert "over-time.png" not in {file.name for file in files}
    assert refused.plot().axes
