from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from driftrank import queries as module
from driftrank.clickmodels import DCM, PBM
from driftrank.queries import Queries, load, parse_queries, yandex_like

STATISTICS = Path(__file__).parents[2] / "shared" / "data" / "yandex_attraction_stats.json"


def logits(alpha):
    return np.log(alpha / (1 - alpha))


@pytest.fixture(scope="module")
def drawn():
    return np.array(list(yandex_like(20_000, seed=3).attraction.values()))


def test_yandex_like_are_probabilities(drawn):
    assert drawn.shape == (20_000, 10)
    assert drawn.min() >= 0
    assert drawn.max() <= 1


def test_yandex_like_statistics(drawn):
    """The logits come shuffled, so what does not depend on the order is compared: their sum, and their squares."""
    mean, covariance = np.array(module._MEAN), np.array(module._covariance())
    drawn = logits(drawn)
    n = len(drawn)
    total = drawn.sum(axis=1)
    assert abs(total.mean() - mean.sum()) < 5 * np.sqrt(covariance.sum() / n)
    assert total.var() == pytest.approx(covariance.sum(), rel=5 * np.sqrt(2 / n))
    squares = (drawn**2).sum(axis=1)
    assert abs(squares.mean() - (mean**2).sum() - np.trace(covariance)) < 5 * squares.std() / np.sqrt(n)


def test_yandex_like_sorted_statistics(drawn):
    """Sorted, they have the moments of sorted normal vectors; these are near the given mean and covariance, though not
    equal to them, as a draw need not come sorted."""
    mean, covariance = np.array(module._MEAN), np.array(module._covariance())
    ours = np.sort(logits(drawn))[:, ::-1]
    plain = np.random.default_rng(5).multivariate_normal(mean, covariance, size=len(ours))
    sorted_plain = np.sort(plain)[:, ::-1]
    error = 5 * np.sqrt(2 * np.diag(covariance) / len(ours))
    assert (np.abs(ours.mean(axis=0) - sorted_plain.mean(axis=0)) < error).all()
    np.testing.assert_allclose(np.cov(ours.T), np.cov(sorted_plain.T), atol=0.05)
    np.testing.assert_allclose(ours.mean(axis=0), mean, atol=0.25)


def test_yandex_like_items_are_shuffled(drawn):
    best = np.bincount(drawn.argmax(axis=1), minlength=10)
    assert abs(best - 2000).max() < 5 * np.sqrt(20_000 * 0.09)


def test_covariance_is_one():
    covariance = np.array(module._covariance())
    assert (covariance == covariance.T).all()
    assert np.linalg.eigvalsh(covariance).min() > 0


def test_statistics_are_those_of_the_log():
    if not STATISTICS.exists():
        pytest.skip("needs ../shared/data/yandex_attraction_stats.json beside the repository")
    published = json.loads(STATISTICS.read_text())
    assert list(module._MEAN) == published["mean"]
    assert module._covariance() == published["cov"]


def test_yandex_like_is_reproducible():
    one, same = yandex_like(5, seed=2), yandex_like(5, seed=2)
    assert list(one) == [f"yandex-like-2-{i}" for i in range(5)]
    assert one == same
    assert hash(one) == hash(same)
    assert one != yandex_like(5, seed=3)
    assert yandex_like(8, seed=2).first(5) == one  # more queries, the same first ones
    assert len({alpha.tobytes() for alpha in one.attraction.values()}) == 5


def test_yandex_like_values_that_must_not_change():
    assert yandex_like(1)["yandex-like-0-0"].tolist() == [
        0.00899102,
        0.01880595,
        0.01461262,
        0.01798332,
        0.2614639,
        0.03829369,
        0.06816889,
        0.12268255,
        0.80762865,
        0.12569495,
    ]


@pytest.mark.parametrize(("n", "seed", "message"), [(0, 0, "n=0"), (1.5, 0, "n=1.5"), (1, -1, "seed=-1")])
def test_bad_yandex_like(n, seed, message):
    with pytest.raises(ValueError, match=message):
        yandex_like(n, seed)


def test_more_items_have_a_longer_tail():
    many = yandex_like(2, seed=3, items=45)
    assert [len(alpha) for alpha in many.attraction.values()] == [45, 45]
    assert parse_queries("yandex-like:2x45", seed=3) == many
    assert yandex_like(2, seed=3, items=10) == yandex_like(2, seed=3)
    # the best item is about that of ten, and others are seldom better
    many, ten = (np.array([alpha.max() for alpha in yandex_like(2000, items=n).attraction.values()]) for n in (50, 10))
    assert np.median(many) == pytest.approx(np.median(ten), rel=0.1)


def test_forms_of_queries():
    assert Queries.of([0.1, 0.2]) == Queries.of([[0.1, 0.2]]) == Queries.of({"0": [0.1, 0.2]})
    assert Queries.of(np.array([[0.1, 0.2], [0.3, 0.4]])) == Queries.of([(0.1, 0.2), (0.3, 0.4)])
    assert Queries.of(np.array([0.1, 0.2])) == Queries.of([0.1, 0.2])
    ragged = Queries.of({"a": [0.1], 7: [0.3, 0.4, 0.5]})
    assert list(ragged) == ["a", "7"]
    assert len(ragged) == 2
    assert ragged["7"].tolist() == [0.3, 0.4, 0.5]
    assert Queries.of(ragged) is ragged
    assert ragged != {"a": [0.1]}


def test_queries_hold_copies():
    alpha = np.array([0.1, 0.2])
    queries = Queries.of({"a": alpha})
    alpha[0] = 0.9
    assert queries["a"].tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "at least one query"),
        ({}, "at least one query"),
        ([[]], "query '0': attraction: must be a list of at least one number"),
        ({"a": [0.1, 1.2]}, r"query 'a': attraction\[1\]=1.2: must be a probability in \[0, 1\]"),
        ({"a": [-0.1]}, r"attraction\[0\]=-0.1"),
        ({"a": [math.nan]}, r"attraction\[0\]=nan"),
        ({"a": [0.1, None]}, r"attraction\[1\]=nan"),
        ({"a": 0.5}, "must be a list of at least one number"),
        ({"a": [[0.1], [0.2]]}, "must be a list of at least one number"),
        ({"a": ["x"]}, "must be a list of numbers"),
        ({"a": [0.1, [0.2]]}, "must be a list of numbers"),
        ("abc", r"must be probabilities; .* driftrank\.queries\.parse_queries takes such text"),
        (5, "queries=5: must be a list of probabilities"),
        ({"1": [0.1], 1: [0.2]}, "two names are the same"),
    ],
)
def test_bad_queries(values, message):
    with pytest.raises(ValueError, match=message):
        Queries.of(values)


def test_first():
    queries = Queries.of([[0.1], [0.2], [0.3]])
    assert list(queries.first(2)) == ["0", "1"]
    for n in (0, 4):
        with pytest.raises(ValueError, match=f"n={n}: must be an integer from 1 to 3"):
            queries.first(n)


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "queries.json"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def good(**models):
    return {"queries": {"a": {"CM": {"attraction": [0.1, 0.2]}, **models}, "b": {"CM": {"attraction": [0.3]}}}}


def test_load(file):
    path = file(good(DCM={"attraction": [0.5, 0.6], "stop_after_click": [0.3, 0.4]}, items=["x", "y"]))
    plain = Queries.of({"a": [0.1, 0.2], "b": [0.3]})
    assert load(path) == load(str(path)) == Queries(plain.attraction, items={"a": ("x", "y")})
    assert load(path) != plain
    with pytest.raises(ValueError, match='query \'b\' has no "DCM" with "attraction"; it has CM'):
        load(path, model="DCM")


def test_load_another_click_model(file):
    both = {"DCM": {"attraction": [0.5], "stop_after_click": [0.3]}, "PBM": {"attraction": [0.6], "examination": [1]}}
    path = file({"queries": {"a": both}})
    assert load(path, "dcm").models == {"a": DCM(stop_after_click=(0.3,))}
    assert load(path, "DCM:objective=clicks").models == {"a": DCM(stop_after_click=(0.3,), objective="clicks")}
    assert load(path, "DCM:stop_after_click=0.7").models == {"a": DCM(stop_after_click=0.7)}
    with pytest.raises(ValueError, match="unknown parameter of DCM 'gamma'"):
        load(path, "DCM:gamma=1")
    with pytest.raises(ValueError, match="holds DCM, PBM: choose one of these click models"):
        load(path)
    only = load(file({"queries": {"a": {"PBM": both["PBM"]}}}))
    assert only.models == {"a": PBM(examination=(1.0,))}
    assert only["a"].tolist() == [0.6]
    with pytest.raises(ValueError, match="query 'a': DCM: the parameter stop_after_click is missing"):
        load(file({"queries": {"a": {"DCM": {"attraction": [0.5]}}}}))


def test_load_changes(file):
    change = {"after": 10, "attraction": [0.5, 0.6]}
    block = {"attraction": [0.1, 0.2]}
    path = file({"queries": {"a": {"CM": {**block, "changes": [change, {**change, "after": 11}]}}}})
    assert load(path).changes == {"a": ((10, (0.5, 0.6)), (11, (0.5, 0.6)))}
    assert load(path) != load(file({"queries": {"a": {"CM": block}}}))
    for changes, message in (
        ([change, change], r"changes\[1\]: after=10: must be an integer of at least 11"),
        ([{"after": 3}], r'changes\[0\]: must be an object with "after" and "attraction"'),
        ([{"after": 3, "attraction": [1]}], r"changes\[0\]: has 1 probabilities for 2 items"),
        ([{"after": 3, "attraction": [1, 2]}], r"changes\[0\]: attraction\[1\]=2"),
    ):
        with pytest.raises(ValueError, match=message):
            load(file({"queries": {"a": {"CM": {**block, "changes": changes}}}}))


def test_load_real_queries(yandex40):
    assert len(yandex40) == 40
    assert {len(alpha) for alpha in yandex40.attraction.values()} == {10}
    assert yandex40["101524"].tolist()[:2] == [0.23853211, 0.19124424]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"queries": {"a": {"CM": ', r"queries.json: is not valid JSON \(.*line 1, column"),
        ("", "is not valid JSON"),
        (b"\xff\xfe\x00", "is not a text file"),
        ([1, 2], 'must hold an object "queries"'),
        ({}, 'must hold an object "queries" .*, as in {"queries": {"tea": '),
        ({"queries": {}}, "at least one query"),
        ({"queries": [1]}, 'must hold an object "queries"'),
        ({"queries": {"a": {"CM": {}}}}, 'query \'a\' has no "CM" with "attraction"'),
        ({"queries": {"a": {"CM": None}}}, "query 'a' has no \"CM\""),
        ({"queries": {"a": [1]}}, "query 'a' has no \"CM\""),
        ({"queries": {"a": {"CM": {"attraction": [0.1, 1.2]}}}}, r"query 'a': attraction\[1\]=1.2"),
        ('{"queries": {"a": {"CM": {"attraction": [0.1, NaN]}}}}', r"query 'a': attraction\[1\]=nan"),
        ({"queries": {"a": {"CM": {"attraction": []}}}}, "at least one number"),
        ({"queries": {"a": {"CM": {"attraction": "high"}}}}, "must be a list of numbers"),
        (good(items=["x", "x"]), "query 'a' has duplicate items"),
        (good(items=[1, "1"]), "query 'a' has duplicate items"),
        (good(items=["x"]), "query 'a' has 1 items and 2 probabilities"),
    ],
)
def test_load_bad_files(file, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        load(file(content))
    assert "queries.json" in str(caught.value)


def test_load_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"nothing.json: cannot be read \(No such file"):
        load(tmp_path / "nothing.json")
    with pytest.raises(ValueError, match="cannot be read"):
        load(tmp_path)


def test_parse_queries(file):
    assert parse_queries("yandex-like:3", seed=4) == yandex_like(3, seed=4)
    assert parse_queries(str(file(good()))) == Queries.of({"a": [0.1, 0.2], "b": [0.3]})


@pytest.mark.parametrize(
    "spec",
    [
        "yandex-like:0",
        "yandex-like:",
        "yandex-like",
        "yandex-like:-3",
        "yandex-like:2.5",
        "yandex-like:²",
        "yandex-like:2x",
        "yandex-like:2x0",
        "yandex-like:2x3x4",
    ],
)
def test_bad_yandex_like_specs(spec):
    with pytest.raises(ValueError, match="must be yandex-like:N or yandex-like:NxITEMS, each at least 1"):
        parse_queries(spec)


@pytest.mark.parametrize("spec", ["nowhere.json", "yandexlike:3", ""])
def test_specs_that_are_no_files(spec, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"must be yandex-like:N or the path of a JSON file|cannot be read"):
        parse_queries(spec)
