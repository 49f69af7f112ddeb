"""Properties of all click models."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftrank as dr
from driftrank.clickmodels import CCM, CM, DBN, DCM, PBM, SDBN, UBM, ClickModel, click_models
from driftrank.clickmodels.registry import parse_click_model
from driftrank.clickmodels.templates import click_many
from driftrank.kernels.compile import specialise
from driftrank.kernels.rng import derive
from tests.quick import others_are_slow

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes longer

MODELS = list(click_models().values())
CASES = [(model, objective) for model in MODELS for objective in model.objectives]
chances = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))


def any_model(data: Any, cls: type[ClickModel], L: int, K: int, objective: str) -> ClickModel:
    """A model of that kind with drawn parameters."""

    def some(n: int) -> tuple[float, ...]:
        return tuple(data.draw(st.lists(chances, min_size=n, max_size=n)))

    draw = {
        "one": lambda: data.draw(chances),
        "item": lambda: some(L),
        "rank": lambda: some(K),
        "previous": lambda: tuple(some(K) for _ in range(K)),
    }
    return cls(objective=objective, **{name: draw[kind]() for name, kind in cls.shape.items()})


def search(m, alpha, lists, best, work, found):
    """The best list of the model, and the best value of all lists by enumeration."""
    found[0] = OPTIMUM(m, alpha, best, work)  # noqa: F821
    found[1] = VALUE(m, alpha, best, work)  # noqa: F821
    found[2] = -1.0
    for n in range(lists.shape[0]):
        found[2] = max(found[2], VALUE(m, alpha, lists[n], work))  # noqa: F821


def test_all_seven_are_there() -> None:
    assert {"CM", "DCM", "DBN", "SDBN", "PBM", "UBM", "CCM"} <= set(click_models())


@pytest.mark.parametrize(("cls", "objective"), CASES, ids=lambda c: getattr(c, "__name__", c))
def test_the_best_list_is_best(cls: type[ClickModel], objective: str) -> None:
    """Against all lists, for up to 7 items and 4 positions."""
    compiled = specialise(search, {"OPTIMUM": cls.optima[objective], "VALUE": cls.values[objective]})

    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def check(data: Any) -> None:
        L = data.draw(st.integers(1, 7))
        K = data.draw(st.integers(1, min(L, 4)))
        alpha = np.array(data.draw(st.lists(chances, min_size=L, max_size=L)))
        model = any_model(data, cls, L, K, objective)
        lists = np.array(list(itertools.permutations(range(L), K)), np.uint32)
        best, found = np.zeros(K, np.uint32), np.zeros(3)
        compiled(model.row(L, K), alpha, lists, best, np.full(model.work_size(L, K), np.nan), found)
        assert sorted(set(best.tolist())) == sorted(best.tolist())  # no item twice
        assert found[0] == found[1] == model.reward(alpha, best)  # to the bit: an optimal list has regret 0
        assert found[1] == pytest.approx(found[2], abs=1e-12)

    check()


@pytest.mark.parametrize("cls", MODELS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_probabilities_agree(cls: type[ClickModel], data: Any) -> None:
    """Click vectors, clicks by position, any click and the number of clicks have one distribution."""
    L = data.draw(st.integers(1, 5))
    K = data.draw(st.integers(1, min(L, 4)))
    alpha = data.draw(st.lists(chances, min_size=L, max_size=L))
    ranking = data.draw(st.permutations(range(L)))[:K]
    model = any_model(data, cls, L, K, "any")
    vectors = list(itertools.product((0, 1), repeat=K))
    chance = np.array([model.probability(alpha, ranking, c) for c in vectors])
    assert chance.sum() == pytest.approx(1)
    expected = chance @ np.array(vectors)
    assert model.click_probabilities(alpha, ranking) == pytest.approx(expected.tolist(), abs=1e-12)
    assert model.reward(alpha, ranking) == pytest.approx(1 - chance[0], abs=1e-12)
    clicks = cls(objective="clicks", **{name: getattr(model, name) for name in cls.shape})
    assert clicks.reward(alpha, ranking) == pytest.approx(expected.sum(), abs=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("cls", MODELS)
def test_users_click_with_these_probabilities(cls: type[ClickModel]) -> None:
    """The frequency of every click vector of 3 positions matches its probability."""
    rng = np.random.default_rng(5)
    L, K, n = 5, 3, 200_000
    draw = {"one": (), "item": (L,), "rank": (K,), "previous": (K, K)}
    model = cls(**{name: rng.uniform(0.2, 0.9, draw[kind]).tolist() for name, kind in cls.shape.items()})
    alpha, items = rng.uniform(0.1, 0.9, L), np.array([3, 0, 4], np.uint32)
    masks, clicks = np.zeros(n, np.int64), np.zeros(K, np.int8)
    users = specialise(click_many, {"CLICK": cls.click, "DERIVE": derive})
    users(model.row(L, K), alpha, np.uint64(99), items, clicks, masks)
    for mask in range(2**K):
        p = model.probability(alpha, items.tolist(), [mask >> i & 1 for i in range(K)])
        assert np.mean(masks == mask) == pytest.approx(p, abs=5 * np.sqrt(p / n) + 1e-9)
    one = model.simulate(alpha, items, 12345)  # in Python as compiled
    masks[:] = 0
    users(model.row(L, K), alpha, np.uint64(77), items, clicks, masks)
    for user in range(50):
        one = model.simulate(alpha, items, int(derive(np.uint64(77), user)))
        assert sum(c << i for i, c in enumerate(one)) == masks[user]


def test_known_values() -> None:
    """By hand."""
    assert CM().reward([0.5, 0.2], [0, 1]) == pytest.approx(0.6)
    assert CM().click_probabilities([0.5, 0.2], [0, 1]) == pytest.approx([0.5, 0.1])
    expected = {"clicks": 0.752, "sat": 0.552, "any": 0.68}
    for objective, value in expected.items():
        model = DBN(satisfaction=(0.6, 1), continuation=0.9, objective=objective)
        assert model.reward([0.5, 0.4], [0, 1]) == pytest.approx(value)
    assert PBM(examination=(1, 0.5)).reward([0.5, 0.4], [0, 1]) == pytest.approx(0.7)
    assert PBM(examination=(1, 0.5), objective="any").reward([0.5, 0.4], [0, 1]) == pytest.approx(0.6)
    model = DBN(satisfaction=(1, 0, 0), continuation=1, objective="clicks")
    assert model.best([0.9, 0.5, 0.45], 2) == [1, 0]
    assert model.reward([0.9, 0.5, 0.45], [1, 0]) == pytest.approx(1.40)
    assert model.reward([0.9, 0.5, 0.45], [0, 1]) == pytest.approx(0.95)


def test_decreasing_attraction_is_not_best_for_clicks_in_dcm() -> None:
    """If users leave most easily at the top, the best item does not belong there."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        v = tuple(sorted(rng.uniform(0.05, 0.95, 3), reverse=True))
        alpha = rng.uniform(0.05, 0.95, 6)
        assert DCM(stop_after_click=v, objective="clicks").best(alpha, 3) != np.argsort(-alpha)[:3].tolist()


def test_models_that_coincide() -> None:
    alpha, ranking = [0.5, 0.4, 0.3], [2, 0, 1]
    clicks = [1, 0, 1]
    s = (0.3, 0.6, 0.2)
    assert SDBN(satisfaction=s).probability(alpha, ranking, clicks) == pytest.approx(
        DBN(satisfaction=s, continuation=1).probability(alpha, ranking, clicks)
    )
    assert DCM(stop_after_click=1.0).probability(alpha, ranking, [0, 1, 0]) == pytest.approx(
        CM().probability(alpha, ranking, [0, 1, 0])
    )
    same = tuple((e,) * 3 for e in (1.0, 0.6, 0.4))
    assert UBM(examination=same).probability(alpha, ranking, clicks) == pytest.approx(
        PBM(examination=(1.0, 0.6, 0.4)).probability(alpha, ranking, clicks)
    )


@pytest.mark.parametrize("cls", MODELS)
def test_to_dict_and_back(cls: type[ClickModel]) -> None:
    model = cls()
    assert cls.from_dict({"attraction": [0.5], **model.to_dict()}) == model
    assert hash(model) == hash(cls())


def test_real_parameters(yandex40_file: Path) -> None:
    """Models files also work for shorter lists than those of the log."""
    there = set(next(iter(json.loads(yandex40_file.read_text())["queries"].values())))
    assert {"CM", "DCM", "DBN", "CCM", "PBM", "UBM"} <= there
    for name, cls in click_models().items():
        if name not in there:
            continue
        queries = dr.queries.load(yandex40_file, name)
        assert len(queries) == 40
        for query in list(queries)[:3]:
            model = queries.models.get(query, CM())
            assert isinstance(model, cls)
            assert 0 < model.reward(queries[query], model.best(queries[query], 4)) < 4


def test_ubm_reads_the_last_column_as_no_click() -> None:
    model = UBM(examination=((0.1, 0.2, 0.9), (0.3, 0.4, 0.8), (0.5, 0.6, 0.7)))
    alpha, ranking = [0.5, 0.5, 0.5], [0, 1, 2]
    assert model.conditional(alpha, ranking, [0, 0, 0]) == pytest.approx([1 - 0.45, 1 - 0.4, 1 - 0.35])
    assert model.conditional(alpha, ranking, [1, 0, 1]) == pytest.approx([0.45, 1 - 0.15, 0.25])
    assert model.conditional(alpha, ranking, [1, 1, 1]) == pytest.approx([0.45, 0.15, 0.3])
    assert model.conditional(alpha, [2, 0], [1, 1]) == pytest.approx([0.45, 0.15])  # a shorter list


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DBN(continuation=1.5), r"continuation\[0\]=1.5: must be a probability"),
        (lambda: DBN(continuation=(0.5, 0.5)), "continuation=.*must be a probability"),
        (lambda: DCM(stop_after_click=(0.5, -1)), r"stop_after_click\[1\]=-1"),
        (lambda: UBM(examination=((0.5, 0.5), (0.5,))), r"examination\[1\]: must hold 2"),
        (lambda: PBM(objective="sat"), "objective='sat': must be one of 'any', 'clicks'"),
        (lambda: PBM(examination=(1.0,)).reward([0.5, 0.5], [0, 1]), "examination: has 1 ranks, too few"),
        (lambda: SDBN(satisfaction=(0.5,)).best([0.5, 0.5], 1), "satisfaction: has 1 probabilities for 2 items"),
        (lambda: CM().probability([0.5, 0.5], [0, 1], [1]), "must be 2 zeros and ones"),
        (lambda: DBN.from_dict({"satisfaction": 0.5}), "the parameter continuation is missing"),
        (lambda: CCM.from_dict({"tau": 0.5}), "unknown parameter of CCM 'tau'"),
        (lambda: parse_click_model("DBM"), "unknown click model 'DBM'; did you mean"),
    ],
)
def test_bad_values(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.compiled
@pytest.mark.parametrize("cls", others_are_slow(MODELS, [CM, PBM]))
def test_simulations_meet_these_users(cls: type[ClickModel]) -> None:
    """Any environment takes any model; regret is against its best list, which the oracle shows."""
    queries = dr.queries.yandex_like(2, seed=1).clicking(cls())
    env = dr.environments.Abrupt(queries, k=3, period=100)
    result = dr.simulate([dr.DynamicOracle(), dr.StaticOracle()], env, horizon=400, runs=2, progress=False)
    assert result.regret("DynamicOracle") == 0
    assert result.regret("StaticOracle") > 0
