"""Changes are found in a log where they are, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.clickmodels import CM, DCM, SDBN, ClickModel
from driftrank.environments import Abrupt, Replay, Stationary
from driftrank.logs import open_log
from driftrank.logs.changes import _changes, _ItemChange, _moments, _split, drift
from driftrank.logs.generation import generate
from driftrank.policies.detecting.detectors import GLR
from driftrank.queries import Queries, yandex_like


@pytest.mark.parametrize("model", [CM(), DCM(), SDBN(satisfaction=0.5)], ids=lambda m: type(m).__name__)
def test_the_papers_changes(tmp_path: Path, model: ClickModel) -> None:
    """Every breakpoint is found within a few lists, with the items that changed and what they changed to."""
    env = Abrupt(yandex_like(2), k=3, period=1500, click_model=model)
    generate(tmp_path / "log.parquet", env, 8000)
    found = drift(open_log(tmp_path / "log.parquet"))
    assert sorted(f.query for f in found) == sorted(env.names)
    for f in found:
        slots = [item % 1000 for item in f.items]
        truth = env.breakpoints(f.lists, f.query)
        assert len(truth) == 2
        assert [c.after for c in f.changes] == pytest.approx(truth, abs=40)
        levels = np.array([env.attraction(t, f.query)[slots] for t in (1, 1501, 3001)])
        for change, before, after in zip(f.changes, levels, levels[1:], strict=False):
            assert set(change.items) == {i for i, b, a in zip(f.items, before, after, strict=True) if b != a}
        inside = (f.low <= levels) & (levels <= f.high)
        assert inside.mean() > 0.8  # of 95% intervals; those next to a misplaced change are off
        assert np.abs(f.attraction - levels).mean() < 0.02


def test_nothing_is_found_where_nothing_changes(tmp_path: Path) -> None:
    generate(tmp_path / "log.parquet", Stationary(yandex_like(20)), 100_000)
    assert sum(len(f.changes) for f in drift(open_log(tmp_path / "log.parquet"))) == 0


def test_only_what_is_asked(tmp_path: Path) -> None:
    queries = Queries(Queries.of({"a": [0.9, 0.1], "b": [0.5, 0.5]}).attraction, changes={"a": ((500, (0.1, 0.9)),)})
    generate(tmp_path / "log.parquet", Replay(queries, k=2), 3000, zipf=1.0)
    log = open_log(tmp_path / "log.parquet")
    assert [f.query for f in drift(log, top=1)] == ["a"]
    (b,) = drift(log, queries=["b"], items=1)
    assert len(b.items) == 1
    (a,) = drift(log, queries=["a"])
    change = a.changes[0]
    with log.connect() as connection:
        times = connection.execute(f"SELECT time FROM {log.relation} WHERE query = 'a' ORDER BY time").fetchall()
    assert change.time == times[change.after - 1][0]
    for wrong in ({"top": 0}, {"items": 0}, {"delta": 0}, {"queries": ["c"]}):
        with pytest.raises(ValueError, match=next(iter(wrong)).replace("queries", "query")):
            drift(log, **wrong)  # type: ignore[arg-type]


def test_best_split() -> None:
    labels = np.array([0] * 30 + [1] * 20, np.int8)
    at, first, last, ratio = _split(labels)
    assert at == 30
    assert first < 30 < last
    assert ratio == pytest.approx(-(20 * np.log(0.4) + 30 * np.log(0.6)))


def test_changes_at_one_moment_are_one() -> None:
    found = [_ItemChange(0, 100, 95, 105, 50.0), _ItemChange(1, 104, 99, 120, 20.0), _ItemChange(2, 300, 290, 310, 9.0)]
    assert _moments(found) == [(100, {0, 1}), (300, {2})]
    assert _moments([_ItemChange(0, 100, 95, 105, 9.0), _ItemChange(0, 104, 99, 120, 9.0)]) == [(100, {0}), (104, {0})]


def test_an_alarm_that_all_the_labels_do_not_bear_out_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector sees a beginning only; what it would not find in all that came before and after is dropped."""
    rng = np.random.default_rng(3)
    labels = np.concatenate([rng.random(400) < 0.1, rng.random(400) < 0.6]).astype(np.int8)
    steps = np.arange(1, 801)
    found = _changes(labels, steps, 0.001)
    assert [after for after, *_ in found] == pytest.approx([400], abs=15)

    class Nervous(GLR):
        """Also fires where nothing is."""

        def run(self, stream: Any) -> list[int]:
            return sorted({150, 250, *super().run(stream), 700})

    monkeypatch.setattr("driftrank.logs.changes.GLR", Nervous)
    assert _changes(labels, steps, 0.001) == found
