from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np
import pytest

from driftrank.clickmodels import CM, DBN, PBM
from driftrank.environments import Traffic
from driftrank.environments.registry import parse_environment
from driftrank.environments.traffic.readers import Readers
from driftrank.environments.traffic.stream import QueryStream

SMALL: dict[str, Any] = {"n_queries": 40, "candidates": 8, "K": 3, "catalogue": 60}


def logit(x: np.ndarray) -> np.ndarray:
    return np.log(x / (1 - x))


def days(world: Traffic, query: int, n: int, run: int = 0) -> np.ndarray:
    return np.array([world.attraction(1 + day * world.day, query, run) for day in range(n)])


# -- users -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (Readers(), CM()),
        (Readers(going_on=0.7), DBN(satisfaction=1.0, continuation=0.7, objective="any")),
        (Readers(after_click=1.0, examination=(1.0, 0.5, 0.25)), PBM(examination=(1.0, 0.5, 0.25))),
    ],
    ids=["cascade", "users who stop", "position bias"],
)
def test_special_cases_are_known_models_user_by_user(own: Readers, other: Any) -> None:
    rng = np.random.default_rng(1)
    alpha = rng.random(6)
    for key in range(300):
        ranking = rng.permutation(6)[:3].tolist()
        clicks = own.simulate(alpha, ranking, key)
        assert clicks == other.simulate(alpha, ranking, key)
        assert own.reward(alpha, ranking) == pytest.approx(other.reward(alpha, ranking))
        assert own.click_probabilities(alpha, ranking) == pytest.approx(other.click_probabilities(alpha, ranking))
        assert own.probability(alpha, ranking, clicks) == pytest.approx(other.probability(alpha, ranking, clicks))


@pytest.mark.parametrize("seed", range(12))
def test_the_best_list_of_readers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    examination = tuple(np.sort(rng.random(4))[::-1])
    users = Readers(going_on=rng.random(), after_click=rng.random(), examination=examination)
    alpha = rng.random(6) ** 0.2 if seed % 2 else rng.random(6)
    values = [users.reward(alpha, ranking) for ranking in itertools.permutations(range(6), 4)]
    assert users.reward(alpha, users.best(alpha, 4)) == pytest.approx(max(values))
    with pytest.raises(ValueError, match="must not increase"):
        Readers(examination=(0.5, 0.6))


def test_users_of_traffic() -> None:
    world = Traffic(**SMALL, going_on=0.8, examination_power=1.0)
    assert world.users() == Readers(going_on=0.8, examination=(1.0, 0.5, 1 / 3))
    assert dataclasses.replace(world, click_model=CM()).users() == CM()


# -- queries and items -------------------------------------------------------------------------------------------------


def test_queries_come_as_zipf_says() -> None:
    n = 20_000
    for zipf in (0.0, 1.0, 1.7):
        counts = Traffic(**SMALL, zipf=zipf).run(seed=3).counts(n)
        expected = np.arange(1, 41) ** -zipf
        expected *= n / expected.sum()
        assert (np.abs(counts - expected) < 5 * np.sqrt(expected) + 1).all()
        assert counts.sum() == n


def test_candidates_are_distinct_and_popular_items_have_more_queries() -> None:
    run = Traffic(n_queries=400, candidates=20, catalogue=100).run()
    shown = np.zeros(100)
    for q in range(400):
        run.go_to(1, q)
        assert len(set(run.items.tolist())) == 20
        shown[run.items] += 1
    assert shown[:25].sum() > 1.6 * shown[75:].sum()
    everything = Traffic(n_queries=2, candidates=30, catalogue=30).run()
    everything.go_to(1, 1)
    assert sorted(everything.items.tolist()) == list(range(30))


def test_queries_with_items_of_their_own() -> None:
    run = Traffic(n_queries=5, candidates=4, K=2, catalogue=0).run()
    seen: set[int] = set()
    for q in range(5):
        run.go_to(1, q)
        assert not seen & set(run.items.tolist())
        seen |= set(run.items.tolist())


def test_topics_have_their_items() -> None:
    run = Traffic(n_queries=300, candidates=5, K=2, catalogue=200, topics=3, topic_items=10).run()
    pools: dict[int, set[int]] = {}
    for q in range(300):
        run.go_to(1, q)
        pools.setdefault(int(run.topics[0]), set()).update(run.items.tolist())
    assert [len(pool) for pool in pools.values()] == [10, 10, 10]
    assert len(Traffic(**SMALL, topics=0).run().topics) == 0


# -- attraction --------------------------------------------------------------------------------------------------------


def effects(world: Traffic) -> tuple[np.ndarray, ...]:
    """Query, item, topic, features and the sum of effects of every pair."""
    run, rows = world.run(), []
    for q in range(world.n_queries):
        run.go_to(1, q)
        x = (logit(run.attraction) - world.level) / world.scale
        rows += [(q, item, run.topics[0], *f, e) for item, f, e in zip(run.items, run.features, x, strict=True)]
    table = np.array(rows)
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3:-1], table[:, -1]


def test_shares_of_the_variance() -> None:
    world = Traffic(n_queries=400, candidates=20, query_sd=0.0, item_share=0.2, feature_share=0.3, token_share=0.1)
    _, item, _, features, x = effects(world)
    assert x.mean() == pytest.approx(0, abs=0.2)
    assert x.var() == pytest.approx(1, abs=0.2)
    weights = np.linalg.lstsq(features, x, rcond=None)[0]
    assert (weights**2).sum() == pytest.approx(0.3, abs=0.15)
    within = [x[item == i].var(ddof=1) for i in np.unique(item) if (item == i).sum() > 1]
    often = [(item == i).sum() - 1 for i in np.unique(item) if (item == i).sum() > 1]
    assert np.average(within, weights=often) == pytest.approx(0.5, abs=0.03)


def test_only_the_item_only_features_only_topics() -> None:
    plain: dict[str, Any] = {"n_queries": 60, "candidates": 20, "query_sd": 0.0, "catalogue": 100, "topics": 2}
    _, item, _, _, x = effects(Traffic(**plain, item_share=1.0))
    assert all(np.ptp(x[item == i]) < 1e-9 for i in np.unique(item))
    _, _, _, features, x = effects(Traffic(**plain, item_share=0.0, feature_share=1.0))
    weights, rest = np.linalg.lstsq(features, x, rcond=None)[:2]
    assert rest[0] < 1e-15
    assert (weights**2).sum() == pytest.approx(1)
    _, item, topic, _, x = effects(Traffic(**plain, item_share=0.0, token_share=1.0))
    pairs = item * 2 + topic
    assert all(np.ptp(x[pairs == i]) < 1e-9 for i in np.unique(pairs))
    assert np.ptp(x[item == item[0]]) > 1e-3


def test_misleading_queries() -> None:
    straight, twisted = (Traffic(**SMALL, item_share=1.0, query_sd=0.0, caller="none", misleading=m) for m in (0, 3))
    for q in (0, 2, 3):
        a, b = logit(straight.attraction(1, q)) + 3, logit(twisted.attraction(1, q)) + 3
        assert b == pytest.approx(-a if q < 3 else a)


def test_exponential_attraction() -> None:
    world = Traffic(**SMALL, shape="exponential", caller="perfect", query_sd=0.0)
    assert world.attraction(1, 7) == pytest.approx([0.305 * math.exp(-i / 4) + 0.005 for i in range(8)])
    levels = np.array([dataclasses.replace(world, query_sd=0.5).attraction(1, q)[0] / 0.31 for q in range(40)])
    assert levels.max() <= 2
    assert np.log(levels).std() == pytest.approx(0.5, abs=0.2)


# -- the caller --------------------------------------------------------------------------------------------------------


def ranks(caller: str, **more: Any) -> np.ndarray:
    """The true rank of the item at every place, by query."""
    world = Traffic(**SMALL, caller=caller, **more)
    return np.array([np.argsort(np.argsort(-world.attraction(1, q))) for q in range(40)])


def test_the_callers_order() -> None:
    assert (ranks("perfect") == np.arange(8)).all()
    assert (ranks("reversed") == np.arange(8)[::-1]).all()
    assert (ranks("noisy", noise=0.0) == np.arange(8)).all()
    mean = {caller: ranks(caller).mean(axis=0) for caller in ("noisy", "random", "none")}
    assert mean["noisy"][0] < 2.5
    assert mean["noisy"][7] > 4.5
    assert np.abs(mean["random"] - 3.5).max() < 1.4
    assert ranks("noisy", noise=1.0)[:, 0].mean() < ranks("noisy", noise=8.0)[:, 0].mean()
    run = Traffic(**SMALL, caller="none").run()
    run.go_to(1)
    assert run.call()[1].tolist() == [0.0] * 8


def test_an_order_that_changes_from_call_to_call() -> None:
    run = Traffic(**SMALL, caller="perfect", jitter=1.0).run()
    orders = set()
    for i in range(1, 30):
        run.go_to(i, 5)
        slots, place = run.call()
        assert sorted(slots.tolist()) == list(range(8))
        assert place[slots].tolist() == list(range(1, 9))
        assert run.baseline <= run.optimal + 1e-12
        orders.add(tuple(slots.tolist()))
    assert len(orders) > 10
    still = Traffic(**SMALL, caller="perfect").run()
    still.go_to(9, 5)
    assert still.call()[0].tolist() == list(range(8))


# -- changes -----------------------------------------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "day": 10, "new": 0.1, "shift": 0.2, "shift_days": 2, "query_shift": 0.3, "shock": 0.2, "token_share": 0.1,
}  # fmt: skip


def test_attraction_does_not_depend_on_the_queries_before() -> None:
    world = Traffic(**SMALL, **EVERYTHING, shuffle=57, rise=83, riser=8)
    in_turn = world.run(seed=2)
    for i in range(1, 150):
        in_turn.go_to(i)
        at_once = world.run(seed=2)
        at_once.go_to(i, in_turn.query)
        assert in_turn.attraction.tolist() == at_once.attraction.tolist()
        assert in_turn.items.tolist() == at_once.items.tolist()
        assert in_turn.features.tolist() == at_once.features.tolist()
        assert in_turn.call()[0].tolist() == at_once.call()[0].tolist()


def test_new_items() -> None:
    run = Traffic(**SMALL, day=10, new=0.25).run()
    run.go_to(1, 3)
    before, features, replaced = run.items.copy(), run.features.copy(), 0
    assert not len(run.new)
    for day in range(1, 41):
        run.go_to(1 + 10 * day, 3)
        assert np.flatnonzero(run.items != before).tolist() == run.new.tolist()
        assert np.flatnonzero((run.features != features).any(axis=1)).tolist() == run.new.tolist()
        assert (run.items % 60 == before % 60).all()
        replaced += len(run.new)
        before, features = run.items.copy(), run.features.copy()
    assert replaced / (40 * 8) == pytest.approx(0.25, abs=0.08)


def test_shifts_of_items_are_the_same_under_all_queries() -> None:
    world = Traffic(n_queries=30, candidates=20, catalogue=40, day=10, shift=0.3, shift_days=2, query_sd=0.0)
    moved: dict[int, set[bool]] = {}
    for q in range(30):
        alphas = days(world, q, 3)
        assert alphas[0].tolist() == alphas[1].tolist()
        run = world.run()
        run.go_to(1, q)
        for item, changed in zip(run.items.tolist(), (alphas[2] != alphas[1]).tolist(), strict=True):
            moved.setdefault(item, set()).add(changed)
    assert all(len(answers) == 1 for answers in moved.values())
    assert 4 <= sum(answers == {True} for answers in moved.values()) <= 20


def test_shifts_of_queries_and_shocks() -> None:
    world = Traffic(n_queries=60, candidates=20, day=10, query_shift=0.25)
    changed = np.array([(np.diff(days(world, q, 8), axis=0) != 0).mean(axis=1) for q in range(60)])
    assert (changed > 0).mean() == pytest.approx(0.25, abs=0.06)
    assert changed[changed > 0].mean() == pytest.approx(0.3, abs=0.05)
    world = Traffic(n_queries=60, candidates=20, day=10, shock=0.2, shock_size=20.0)
    changed = np.array([(np.diff(days(world, q, 8), axis=0) != 0).sum(axis=1) for q in range(60)])
    assert not changed[:, :2].any()
    assert (changed[:, 2:] > 0).mean() == pytest.approx(0.2, abs=0.06)
    assert changed.max() == 3
    assert days(world, int(changed.sum(axis=1).argmax()), 8)[-1].max() > 0.99


def test_a_shuffle_and_a_rise() -> None:
    world = Traffic(**SMALL, caller="perfect", shuffle=100, rise=150, riser=6)
    for q in (0, 5):
        first, shuffled, risen = (world.attraction(t, q) for t in (100, 101, 151))
        assert first.tolist() == sorted(first, reverse=True)
        assert sorted(shuffled) == sorted(first)
        assert shuffled.tolist() != first.tolist()
        assert risen[5] == 0.45
        assert np.delete(risen, 5).tolist() == np.delete(shuffled, 5).tolist()
    assert world.breakpoints(1000) == [100, 150]
    assert world.breakpoints(1000, 5) == [100, 150]
    assert world.kind == "abrupt"
    assert Traffic(**SMALL, day=10, shift=0.1).breakpoints(100) == [30, 60, 90]
    assert Traffic(**SMALL).kind == "stationary"


# -- the description ---------------------------------------------------------------------------------------------------


def test_runs_and_seeds_have_worlds_of_their_own() -> None:
    world = Traffic(**SMALL)
    first = world.attraction(1, 3)
    assert first.tolist() == world.attraction(1, 3).tolist()
    assert first.tolist() != world.attraction(1, 3, run=1).tolist()
    assert first.tolist() != world.attraction(1, 3, seed=1).tolist()
    assert Traffic(**SMALL | {"zipf": 1}).program.row.tolist() == world.program.row.tolist()


def test_spec() -> None:
    world = parse_environment("Traffic:n_queries=100,candidates=12,K=4,caller=perfect,going_on=0.85")
    assert world == Traffic(n_queries=100, candidates=12, K=4, caller="perfect", going_on=0.85)
    assert (world.k, world.names) == (4, ["traffic"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_queries": 0}, "n_queries=0: must be an integer of at least 1"),
        ({"K": 9}, "K=9: must be an integer from 1 to 8"),
        ({"catalogue": 5}, "catalogue=5: must be an integer of at least 8"),
        ({"caller": "good"}, "caller='good': must be one of 'noisy'"),
        ({"shape": "linear"}, "shape='linear'"),
        ({"going_on": 1.5}, "going_on=1.5"),
        ({"tau": 0}, "tau=0"),
        ({"item_share": 0.7, "token_share": 0.4}, "token_share=0.4: must leave the sum of all shares at most 1"),
        ({"feature_share": 0.1, "d": 0}, "feature_share=0.1: must be 0 if d=0"),
        ({"token_share": 0.1, "topics": 0}, "token_share=0.1: must be 0 if topics=0"),
        ({"topic_items": 5}, "topic_items=5: must be an integer of at least 8"),
        ({"rise": 10, "riser": 9}, "riser=9: must be an integer from 1 to 8"),
        ({"shape": "exponential", "shift": 0.1}, "shift=0.1: must be 0 if shape='exponential'"),
        ({"click_model": PBM(examination=(1.0, 0.5))}, "examination: has 2 ranks"),
    ],
)
def test_bad_parameters(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Traffic(**SMALL | change)


def test_bad_queries() -> None:
    with pytest.raises(ValueError, match="query=40: must be an integer from 0 to 39"):
        Traffic(**SMALL).attraction(1, 40)
    with pytest.raises(ValueError, match="query='other'"):
        Traffic(**SMALL).attraction(1, "other")


# -- a stream ----------------------------------------------------------------------------------------------------------


def small_stream(**attraction: Any) -> QueryStream:
    stream = QueryStream.of({"a": [1, 2, 3, 4, 5], "b": [3, 9], "c": [7, 1, 8]}, order=[0, 1, 0, 2, 0, 0], source="log")
    return dataclasses.replace(stream, **attraction)


def test_lists_come_as_in_the_stream() -> None:
    run = Traffic(stream=small_stream(), K=3).run()
    asked = []
    for i in range(1, 10):
        run.go_to(i)
        asked.append(run.query)
        assert run.k == min(3, len(run.items)) == len(run.best)
    assert asked == [0, 1, 0, 2, 0, 0, 0, 1, 0]  # it begins again
    assert run.counts(6).tolist() == [4, 1, 1]
    for q, items in enumerate(([1, 2, 3, 4, 5], [3, 9], [7, 1, 8])):
        run.go_to(20, q)
        assert sorted(small_stream().items[i] for i in run.items) == sorted(items)
        assert len(run.call()[0]) == len(run.attraction) == len(items)


def test_sizes_of_a_stream() -> None:
    world = Traffic(stream=small_stream(), K=2)
    assert (world.n_queries, world.candidates, world.catalogue) == (3, 5, 8)
    few = Traffic(stream=small_stream(), n_queries=2, candidates=3, K=2)
    assert (few.n_queries, few.candidates, few.catalogue, few.sizes.tolist()) == (2, 3, 4, [3, 2])
    assert few.stream is not None
    assert few.stream.order.tolist() == [0, 1, 0, 0, 0]
    assert few == Traffic(stream=few.stream, K=2) != world
    assert few.queries != world.queries  # other content is another simulation
    assert world.attraction(1, "b").tolist() == world.attraction(1, 1).tolist()
    assert len(world.present(1, "b")) == 2


def test_the_logged_order_and_known_attraction() -> None:
    known = np.array([0.1, 0.2, 0.5, 0.0, 1.0, 0.3, np.nan, 0.25, np.nan, 0.05])
    for shape in ("logistic", "exponential"):
        for q, given in enumerate((known[:5], known[5:7], known[7:])):
            world = Traffic(stream=small_stream(attraction=known), K=2, caller="logged", shape=shape, token_share=0.2)
            found = world.attraction(1, q)
            there = ~np.isnan(given)
            assert found[there] == pytest.approx(given[there], abs=1e-12)
            assert ((found > 0) & (found < 1))[~there].all()
    run = world.run()
    run.go_to(1, 2)
    assert [small_stream().items[i] for i in run.items] == [7, 1, 8]
    best_first = Traffic(stream=small_stream(attraction=known), K=2, caller="perfect").attraction(1, 0)
    assert best_first == pytest.approx([1.0, 0.5, 0.2, 0.1, 0.0], abs=1e-12)


def test_known_attraction_changes_like_any_other() -> None:
    known = np.full(10, 0.2)
    world = Traffic(stream=small_stream(attraction=known), K=2, day=10, new=0.5, shift=0.5, shift_days=1)
    alphas = days(world, 0, 4)
    assert alphas[0] == pytest.approx(0.2)
    assert (alphas[3] != alphas[0]).mean() > 0.5


def test_new_items_of_exponential_attraction() -> None:
    world = Traffic(**SMALL, shape="exponential", caller="perfect", query_sd=0.0, day=10, new=0.3)
    levels = world.attraction(1, 3)
    for alpha in days(world, 3, 5)[1:]:
        assert all(np.isclose(levels, a, rtol=1e-12).any() for a in alpha)
        assert alpha.tolist() != levels.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"caller": "logged", "stream": None}, "caller='logged': must be another one without a stream"),
        ({"K": 6}, "K=6: must be an integer from 1 to 5"),
        ({"topic_items": 5}, "topic_items=5: must be 0 with a stream"),
        ({"n_queries": 0}, "n_queries=0"),
    ],
)
def test_bad_values_with_a_stream(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Traffic(**{"stream": small_stream(), "K": 2} | change)


def test_bad_streams() -> None:
    with pytest.raises(ValueError, match="log: query 'b' has no items"):
        QueryStream.of({"a": [1], "b": []}, source="log")
    with pytest.raises(ValueError, match="has no query"):
        QueryStream.of({})
    with pytest.raises(ValueError, match="order: must be numbers of queries, from 0 to 0"):
        QueryStream.of({"a": [1]}, order=[1])


def test_lists_that_users_cannot_see() -> None:
    run = Traffic(stream=small_stream(), K=3).run()
    run.go_to(2)
    with pytest.raises(ValueError, match=r"ranking=\[0, 2\]: must be at most 2 different slots, from 0 to 1"):
        run.clicks([0, 2])
