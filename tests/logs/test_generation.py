"""Generated logs have the clicks of their users."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrank.clickmodels import CM, DBN, DCM, PBM
from driftrank.environments import Abrupt, Churn, Replay, Stationary
from driftrank.logs import open_log
from driftrank.logs.conversion.convert import convert
from driftrank.logs.generation import generate
from driftrank.queries import Queries, yandex_like

TWO = {"a": [0.8, 0.1, 0.4], "b": [0.2, 0.9, 0.3]}


def rows(path: Path, columns: str = "query, time, ranking, clicks") -> list[Any]:
    log = open_log(path)
    with log.connect() as connection:
        return connection.execute(f"SELECT {columns} FROM {log.relation} ORDER BY time").fetchall()


def test_clicks_are_those_of_the_model(tmp_path: Path) -> None:
    """With the probabilities of the model, at every position, for every order."""
    model = DBN(satisfaction=(0.9, 0.2, 0.5), continuation=0.7)
    made = generate(tmp_path / "log.parquet", Stationary(TWO, k=1, click_model=model), 60_000, length=2, seed=3)
    found = rows(tmp_path / "log.parquet")
    assert len(found) == made.lists == 60_000
    assert sum(len(clicks) for *_, clicks in found) == made.clicks
    for q, (name, alpha) in enumerate(TWO.items()):
        lists = [
            (tuple(i - 1000 * (q + 1) for i in ranking), tuple(clicks)) for n, _, ranking, clicks in found if n == name
        ]
        assert len(lists) == pytest.approx(30_000, abs=5 * np.sqrt(15_000))
        for ranking in ((0, 1), (1, 0), (2, 1)):
            shown = [clicks for shown, clicks in lists if shown == ranking]
            assert len(shown) == pytest.approx(len(lists) / 6, abs=5 * np.sqrt(len(lists) / 6))
            for clicks in ((), (1,), (2,), (1, 2)):
                p = model.probability(alpha, ranking, [int(k in clicks) for k in (1, 2)])
                assert shown.count(clicks) == pytest.approx(p * len(shown), abs=5 * np.sqrt(p * len(shown)) + 1e-9)


def test_frequencies(tmp_path: Path) -> None:
    generate(tmp_path / "log.parquet", Stationary(yandex_like(4)), 20_000, length=3, zipf=1.0)
    counts = np.array(
        [sum(name == f"yandex-like-0-{i}" for name, *_ in rows(tmp_path / "log.parquet")) for i in range(4)]
    )
    expected = 20_000 * np.array([12, 6, 4, 3]) / 25
    assert counts == pytest.approx(expected, abs=5 * np.sqrt(5000))


@pytest.mark.parametrize("order", ["swapped", "sorted"])
def test_orders(tmp_path: Path, order: str) -> None:
    generate(tmp_path / "log.parquet", Stationary({"q": [0.1, 0.5, 0.3, 0.2]}), 1000, order=order)
    lists = {tuple(ranking) for _, _, ranking, _ in rows(tmp_path / "log.parquet")}
    assert (1001, 1002, 1003, 1000) in lists
    assert len(lists) == (1 if order == "sorted" else 8)  # three pairs of neighbours, each exchanged or not


def test_changes_come_at_their_steps(tmp_path: Path) -> None:
    """A step is a list of the query."""
    queries = Queries(Queries.of({"q": [0.0, 1.0]}).attraction, changes={"q": ((100, (1.0, 0.0)),)})
    generate(tmp_path / "log.parquet", Replay(queries, k=2), 250)
    clicked = [ranking[clicks[0] - 1] for _, _, ranking, clicks in rows(tmp_path / "log.parquet")]
    assert clicked == [1001] * 100 + [1000] * 150
    generate(
        tmp_path / "log.parquet", Abrupt({"q": [0.0] * 4, "r": [0.0] * 4}, k=1, period=50, boost=1.0), 400, length=1
    )
    for query in "qr":
        without = [not clicks for name, _, _, clicks in rows(tmp_path / "log.parquet") if name == query]
        assert all(without[:50])
        assert not all(without[50:100])
        assert all(without[100:150])


def test_yandex_text_has_the_same_lists(tmp_path: Path) -> None:
    """Both formats hold the same lists; the text is gzipped if the name ends in .gz."""
    world = Stationary(yandex_like(3, seed=1), click_model=DCM())
    plain = generate(tmp_path / "log.parquet", world, 5000, seed=7)
    text = generate(tmp_path / "log.txt", world, 5000, seed=7)
    generate(tmp_path / "log.txt.gz", world, 5000, seed=7)
    assert gzip.decompress((tmp_path / "log.txt.gz").read_bytes()) == (tmp_path / "log.txt").read_bytes()
    assert (plain.clicks, plain.numbered, text.numbered) == (text.clicks, False, True)
    report = convert(tmp_path / "log.txt", tmp_path / "converted.parquet")
    assert (report.lists, report.clicks) == (5000, text.clicks)
    numbers = {f"yandex-like-1-{i}": i + 1 for i in range(3)}
    expected = [(numbers[q], t, ranking, clicks) for q, t, ranking, clicks in rows(tmp_path / "log.parquet")]
    assert [(q, n + 1, r, c) for n, (q, _, r, c) in enumerate(rows(tmp_path / "converted.parquet"))] == expected


def test_the_same_again_whatever_the_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Stationary(yandex_like(2), k=5, click_model=PBM())
    generate(tmp_path / "one.parquet", world, 700, seed=1)
    monkeypatch.setattr("driftrank.logs.generation._BATCH", 64)
    generate(tmp_path / "two.parquet", world, 700, seed=1)
    generate(tmp_path / "three.parquet", world, 700, seed=2)
    assert rows(tmp_path / "one.parquet") == rows(tmp_path / "two.parquet") != rows(tmp_path / "three.parquet")


def test_names_of_items_and_queries(tmp_path: Path) -> None:
    queries = Queries(Queries.of({"17": [0.5] * 10}).attraction, items={"17": tuple("abcdefghij")})
    generate(tmp_path / "log.parquet", Stationary(queries), 50, length=2)
    found = rows(tmp_path / "log.parquet")
    assert {query for query, *_ in found} == {17}
    assert {item for _, _, ranking, _ in found for item in ranking} == set("abcdefghij")
    assert generate(tmp_path / "log.txt", Stationary(queries), 50).numbered
    assert (tmp_path / "log.txt").read_text().startswith("1\t0\tQ\t17\t0\t")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lists": 0}, "lists=0: must be an integer of at least 1"),
        ({"order": "random"}, "order='random': must be one of"),
        ({"zipf": -1}, "zipf=-1"),
        ({"format": "csv"}, "format='csv'"),
        ({"out": "nowhere/log.parquet"}, "there is no folder"),
        ({"length": 63}, "length=63: must be an integer from 1 to 62"),
        ({"out": "log.txt"}, "lists of the Yandex log have 10"),
        ({"environment": Churn(TWO, k=1, period=10)}, "items that come and go"),
    ],
)
def test_bad_values(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    given = {"out": "log.parquet", "environment": Stationary(TWO, k=2, click_model=CM()), "lists": 10} | arguments
    with pytest.raises(ValueError, match=message):
        generate(**given | {"out": tmp_path / given["out"]})
    assert not list(tmp_path.iterdir())


def test_queries_of_different_sizes(tmp_path: Path) -> None:
    """Every query has the parameters of its own users."""
    sizes = Queries.of({"a": [1.0, 1.0], "b": [1.0] * 4})
    users = {"a": DBN(satisfaction=1.0, continuation=1.0), "b": DBN(satisfaction=(0, 0, 0, 0), continuation=1.0)}
    generate(tmp_path / "log.parquet", Stationary(Queries(sizes.attraction, users), k=2), 50, length=2)
    assert {(query, len(clicks)) for query, _, _, clicks in rows(tmp_path / "log.parquet")} == {("a", 1), ("b", 2)}
