"""The methods of a fit: queries, files, evaluation."""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any

import numpy as np
import pytest

from driftrank.clickmodels import CM, DBN, PBM, UBM, ClickModel, click_models
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs
from driftrank.clickmodels.fitting.fit import Fit
from driftrank.queries import Queries
from tests.clickmodels.generated import World, position_counts
from tests.reference import paths

pytestmark = pytest.mark.interpreted  # many kernels, few steps: compiling takes ten times as long

MODELS = list(click_models().values())


@functools.cache
def fitted(cls: type[ClickModel], per_query: bool = False, **world: Any) -> tuple[World, Fit]:
    made = World(cls, **{"queries": 3, "L": 5, "K": 4, "lists": 300, **world})
    return made, cls.fit(made.fitted_to(), per_query=per_query)


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("per_query", [True, False])
def test_likelihood_and_perplexity_by_summing_over_hidden_states(cls: type[ClickModel], per_query: bool) -> None:
    world, fit = fitted(cls, per_query)
    held_out = world.generate(40, seed=99)
    function = getattr(paths, cls.__name__.lower())
    total, by_list = np.zeros(3), []
    surprise, count = np.zeros((2, 4)), held_out.lists.sum()
    for slots, mask, n in zip(held_out.slots, held_out.mask, held_out.lists, strict=True):
        q = slots[0] // 5
        items, alpha, model = fit.query(q)
        assert items == list(range(5))
        order = slots - 5 * q
        parameters = {
            name: np.array(getattr(model, name))[order] if kind == "item" else getattr(model, name)
            for name, kind in cls.shape.items()
        }
        clicks = [int(mask) >> k & 1 for k in range(4)]
        chance = {c: function(alpha[order], c, **parameters) for c in itertools.product([0, 1], repeat=4)}
        assert sum(chance.values()) == pytest.approx(1)
        total[q] += n * np.log(chance[tuple(clicks)])
        by_list.append(np.log(chance[tuple(clicks)]))
        for k in range(4):
            alike = [c for c in chance if c[:k] == tuple(clicks[:k])]  # the same above
            given = sum(chance[c] for c in alike if c[k] == clicks[k]) / sum(chance[c] for c in alike)
            whatever = sum(p for c, p in chance.items() if c[k] == clicks[k])
            surprise[:, k] -= n * np.log2([whatever, given])
    found = fit.evaluate(held_out)
    assert found.log_likelihood == pytest.approx(total, rel=1e-9)
    assert found.by_list == pytest.approx(by_list, rel=1e-9)
    backwards = [getattr(held_out, name)[::-1] for name in ("slots", "mask", "lists")]
    assert fit.evaluate(ListCounts(held_out.pairs, *backwards)).by_list == pytest.approx(by_list[::-1], rel=1e-9)
    assert fit.log_likelihood(held_out) == pytest.approx(total.sum(), rel=1e-9)
    assert found.mean_log_likelihood == pytest.approx(total.sum() / count)
    assert found.lists.tolist() == [40, 40, 40]
    by_rank = 2 ** (surprise / count)
    assert fit.perplexity(held_out) == pytest.approx(by_rank[0])
    assert found.conditional_perplexity == pytest.approx(by_rank[1])
    assert found.mean_perplexity == pytest.approx(by_rank[0].mean())
    assert found.mean_conditional_perplexity == pytest.approx(by_rank[1].mean())


def test_nothing_is_impossible() -> None:
    """The cascade model rules out a second click; it counts as one in a million."""
    pairs = Pairs(np.array(["q"]), np.zeros(2, np.int32), np.array([1, 2]))
    both = ListCounts(pairs, np.array([[0, 1]], np.int32), np.array([0b11]), np.array([1]))
    fit = CM.fit(position_counts(both), prior=(1, 2))
    assert fit.log_likelihood(both) == pytest.approx(np.log(2 / 3) + np.log(1e-6))


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("per_query", [True, False])
def test_unknown_items_have_the_mean_of_the_prior(cls: type[ClickModel], per_query: bool) -> None:
    """Other pairs, longer lists, unknown queries."""
    _, fit = fitted(cls, per_query)
    names = np.array(["1", "new"])  # names are compared as they are written
    pairs = Pairs(names, np.array([0, 0, 0, 0, 0, 0, 1], np.int32), np.array([0, 1, 2, 3, 4, 77, 0]))
    moved = fit.onto(pairs, 6)
    assert moved.attraction.tolist() == [*fit.attraction[5:10], *[fit.prior[0] / fit.prior[1]] * 2]
    assert moved.views.tolist() == [*fit.views[5:10], 0, 0]
    assert moved.low["attraction"][-2:].tolist() == [0, 0]
    assert moved.high["attraction"][-2:].tolist() == [1, 1]
    _, _, old = fit.query(1)
    _, _, new = moved.query("1")
    for name, kind in cls.shape.items():
        was, now = np.array(getattr(old, name)), np.array(getattr(new, name))
        if kind == "item":
            assert now.tolist() == [*was, 0.5]
        elif kind == "previous":
            assert now.shape == (6, 6)
            np.testing.assert_array_equal(now[:4, :3], was[:, :3])
            np.testing.assert_array_equal(now[:4, -1], was[:, -1])
            assert (now[4:] == 0.5).all()
        elif kind == "rank":
            assert now.tolist() == [*was, 0.5, 0.5]
        else:
            assert now == was
    lists = ListCounts(pairs, np.array([[5, 4, 3, 2, 1, 0], [6, -1, -1, -1, -1, -1]], np.int32), np.array([33, 1]),
                       np.array([2, 3]))  # fmt: skip
    found = fit.evaluate(lists)
    alpha = moved.query("1")[1]
    model = moved.query("1")[2]
    clipped = np.maximum(model.conditional(alpha, [5, 4, 3, 2, 1, 0], [1, 0, 0, 0, 0, 1]), 1e-6)
    assert found.log_likelihood[0] == pytest.approx(2 * np.log(clipped).sum())
    assert found.perplexity.shape == (6,)


def test_evaluated_lists_may_be_shorter() -> None:
    for cls in (PBM, UBM):
        world, fit = fitted(cls)
        short = ListCounts(world.counts.pairs, world.counts.slots[:, :2], world.counts.mask & 3, world.counts.lists)
        found = fit.evaluate(short)
        assert found.perplexity == pytest.approx(fit.perplexity(world.counts)[:2])


@pytest.mark.parametrize("cls", MODELS)
@pytest.mark.parametrize("per_query", [True, False])
def test_to_a_file_and_back(cls: type[ClickModel], per_query: bool) -> None:
    world, fit = fitted(cls, per_query)
    written = json.loads(json.dumps(fit.to_dict()))
    assert set(written["queries"]["2"]) == {"items", cls.__name__}
    again = Fit.from_dict(cls, written)
    assert again.to_dict() == fit.to_dict()
    held_out = world.generate(50, seed=5)
    assert again.log_likelihood(held_out) == pytest.approx(fit.log_likelihood(held_out))
    for q in range(3):
        assert again.query(q)[2] == fit.query(q)[2]
        assert cls.from_dict(written["queries"][str(q)][cls.__name__]) == fit.query(q)[2]


def test_intervals_in_a_file() -> None:
    _, fit = fitted(DBN, per_query=True)
    entry = fit.to_dict(intervals=True)["queries"]["1"]
    assert set(entry) == {"items", "DBN", "low", "high"}
    assert set(entry["low"]["DBN"]) == {"attraction", "satisfaction", "continuation"}
    assert entry["low"]["DBN"]["continuation"] < entry["DBN"]["continuation"] < entry["high"]["DBN"]["continuation"]
    assert entry["high"]["DBN"]["attraction"] == fit.high["attraction"][5:10].tolist()


def test_files_without_items(yandex40: Queries) -> None:
    """The real queries have no items; these are numbered then."""
    del yandex40  # only to skip without the file
    from tests.conftest import YANDEX40

    content = json.loads(YANDEX40.read_text("utf-8"))
    fit = Fit.from_dict(UBM, content)
    name = next(iter(content["queries"]))
    items, alpha, model = fit.query(name)
    assert items == list(range(10))
    assert alpha.tolist() == content["queries"][name]["UBM"]["attraction"]
    assert model.examination[3][1] == content["queries"][name]["UBM"]["examination"][3][1]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match='has no "SDBN"'):
        Fit.from_dict(click_models()["SDBN"], content)


def test_queries_for_simulations() -> None:
    world, fit = fitted(DBN, per_query=True)
    everything = fit.queries()
    assert list(everything) == ["0", "1", "2"]
    one = everything["1"]
    assert one["items"] == list(range(5))
    assert one["attraction"].tolist() == fit.attraction[5:10].tolist()
    assert one["model"] == fit.query(1)[2]
    # the most attractive items, with the parameters that belong to them
    best = fit.queries(items=2)["1"]
    order = np.argsort(-fit.attraction[5:10])[:2]
    assert best["items"] == order.tolist()
    assert best["attraction"].tolist() == fit.attraction[5:10][order].tolist()
    assert best["model"].satisfaction == tuple(fit.parameters["satisfaction"][5:10][order])
    assert best["model"].continuation == fit.parameters["continuation"][1]
    assert fit.queries(items=6) == {}
    # the most frequent queries
    some = world.counts
    own = some.slots[:, 0] // 5
    lists = ListCounts(some.pairs, some.slots, some.mask, some.lists * np.array([1, 1, 4])[own])
    assert list(DBN.fit(lists).queries(top=2)) == ["2", "0"]
    with pytest.raises(ValueError, match="top=0"):
        fit.queries(top=0)
    with pytest.raises(ValueError, match="query 'x': is not among the 3 queries"):
        fit.query("x")


def test_repr() -> None:
    assert repr(fitted(PBM)[1]) == "<PBM of 3 queries, 15 items>"
