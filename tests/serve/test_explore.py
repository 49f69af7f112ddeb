"""Exploration by rank: exact probabilities of lists, around any policy's order and around the baseline."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from driftrank.evaluation.planning import softmax_propensities
from driftrank.kernels.rng import key_of
from driftrank.serve.log.records import Ranked, encode
from driftrank.serve.ranking.explore import draw_ranks, shown_as_ranked
from driftrank.serve.settings.ranker import check_ranker
from driftrank.wire import ArmSettings, RankerSettings, WarmRow
from tests.serve.harness import Harness

ITEMS = [f"i{n}" for n in range(12)]
#: the probabilities of all orders of three items, in lexicographic order
ORACLE = {
    1.0: (0.486330108, 0.178910848, 0.215556122, 0.029172349, 0.065817623, 0.024212950),
    0.5: (0.763486650, 0.103326682, 0.115200458, 0.002109970, 0.013983746, 0.001892494),
}


# -- the draw ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", ORACLE)
def test_probabilities_of_lists(temperature: float):
    found: Counter[tuple[int, ...]] = Counter()
    exact: dict[tuple[int, ...], float] = {}
    for key in range(6000):
        ranks, propensities = draw_ranks(3, 3, temperature, key * 0x9E3779B97F4A7C15)
        found[tuple(ranks)] += 1
        exact[tuple(ranks)] = math.prod(propensities)
    for order, probability in zip(permutations(range(3)), ORACLE[temperature], strict=True):
        assert exact[order] == pytest.approx(probability, abs=1e-9)
        error = math.sqrt(probability * (1 - probability) / 6000)
        assert found[order] / 6000 == pytest.approx(probability, abs=4 * error)


@pytest.mark.parametrize(("n", "k", "temperature"), [(1, 1, 1.0), (5, 5, 0.1), (40, 10, 2.0), (1000, 4, 10.0)])
def test_equals_the_plain_version(n: int, k: int, temperature: float):
    for key in range(200):
        ranks, propensities = draw_ranks(n, k, temperature, key << 40)
        assert len({*ranks}) == k
        assert propensities == pytest.approx(softmax_propensities(range(n), ranks, temperature), rel=1e-6)


def test_places_have_draws_of_their_own():
    pages = [draw_ranks(50, 5, 2.0, 77, above)[0] for above in (0, 5, 10)]
    assert pages[0] != pages[1] != pages[2]
    assert draw_ranks(50, 5, 2.0, 77) == draw_ranks(50, 5, 2.0, 77)


def test_the_coldest_shows_nearly_every_list_as_ranked():
    lists = [draw_ranks(100, 10, 0.1, key << 33)[0] for key in range(500)]
    assert sum(ranks == list(range(10)) for ranks in lists) >= 495
    assert shown_as_ranked(10, 0.1)[1] == pytest.approx(0.9995, abs=1e-3)


# -- the service ---------------------------------------------------------------------------------------------------


def records(harness: Harness) -> dict[str, Ranked]:
    return {record.event_id: record for _, record in harness.log() if isinstance(record, Ranked)}


def taught(folder: Path, **settings: Any) -> Harness:
    """A service that has learnt to prefer the last items."""
    folder.mkdir()
    harness = Harness(folder, ranker=settings)
    harness.warmstart([WarmRow("q", [item], [1] if item in ITEMS[-4:] else []) for item in ITEMS * 6])
    return harness


@pytest.mark.parametrize("mode", ["live", "shadow"])
def test_lists_are_shown_through_the_softmax(tmp_path: Path, mode: str):
    """Around the list that is shown without it: propensities, reasons, and places below the list."""
    with taught(tmp_path / "plain", mode=mode) as plain, taught(tmp_path / "explored", mode=mode, explore=1.0) as one:
        for n in range(60):
            order = plain.shown("q", ITEMS, f"e{n}")
            for _ in range(3):  # what comes below, page by page
                rest = [item for item in ITEMS if item not in order]
                order += plain.shown("q", rest, f"e{n}-{len(order)}", draw=key_of(f"e{n}"))
            answer = one.rank("q", ITEMS, f"e{n}")
            shown = [str(item.id) for item in answer.items]
            given = [item.propensity for item in answer.items]
            assert records(one)[f"e{n}"].propensity == given
            assert given == pytest.approx(softmax_propensities(order, shown, 1.0))
            pairs = zip(answer.items, order, strict=False)
            why = [(item.why == "explore", item.id != ranked) for item, ranked in pairs]
            assert all(said for said, moved in why if moved)
            if mode == "shadow":  # a policy explores by itself, too
                assert all(said == moved for said, moved in why)
        shows = [record.shown for record in records(one).values()]
        assert len({tuple(list_) for list_ in shows}) > 20


def test_pinned_places_have_the_probability_one(tmp_path: Path):
    with taught(tmp_path / "s", explore=1.0, mode="shadow") as harness:
        for n in range(20):
            answer = harness.rank("q", ITEMS[:5], f"e{n}", pinned={"i3": 2})
            assert answer.items[1].id == "i3"
            assert answer.items[1].propensity == 1.0
            order = ["i0", "i1", "i2", "i4"]
            free = [str(answer.items[0].id), str(answer.items[2].id)]
            assert [answer.items[0].propensity, answer.items[2].propensity] == pytest.approx(
                softmax_propensities(order, free, 1.0)
            )


def test_the_holdout_is_not_explored(tmp_path: Path):
    with taught(tmp_path / "s", explore=2.0, holdout=0.5) as harness:
        for n in range(40):
            harness.rank("q", ITEMS, f"e{n}")
        held = [record for record in records(harness).values() if record.arm == "holdout"]
        assert {(*record.shown, record.propensity) for record in held} == {("i0", "i1", "i2", None)}
        live = [record for record in records(harness).values() if record.arm == "live"]
        assert all(record.propensity for record in live)


def test_the_same_event_gets_the_same_list_elsewhere_and_later(tmp_path: Path):
    with taught(tmp_path / "one", explore=0.7) as one, taught(tmp_path / "two", explore=0.7) as two:
        for n in range(30):
            assert one.rank("q", ITEMS, f"e{n}") == two.rank("q", ITEMS, f"e{n}")
        before = one.dump()
        one.recover()
        assert one.dump() == before
        assert two.dump_of_log()["default"]["of queries"] == before["default"]["of queries"]


def test_off_changes_nothing(tmp_path: Path):
    """Not a byte of the records."""
    with taught(tmp_path / "off", explore=0.0) as off, taught(tmp_path / "unset") as unset:
        for n in range(10):
            off.rank("q", ITEMS, f"e{n}")
            unset.rank("q", ITEMS, f"e{n}")
        assert [encode(r) for r in records(off).values()] == [encode(r) for r in records(unset).values()]
        assert all(record.propensity is None for record in records(off).values())
        assert off.info().explored is None


def test_the_price_is_in_the_answer(tmp_path: Path):
    with taught(tmp_path / "s", explore=0.5) as harness:
        explored = harness.info().explored
        assert explored is not None
        assert (explored.first, explored.whole) == pytest.approx((1 - math.exp(-2), (1 - math.exp(-2)) ** 3))


def test_pages_are_explored_below_what_is_above(tmp_path: Path):
    with taught(tmp_path / "s", explore=1.0, stable=600) as harness:
        for n in range(10):
            first = harness.rank("q", ITEMS, f"a{n}", subject=f"s{n}")
            second = harness.rank("q", ITEMS, f"b{n}", subject=f"s{n}", offset=3)
            shown = {item.id for item in (*first.items, *second.items)}
            assert len(shown) == 6
            assert all(item.propensity for item in second.items)
            again = harness.rank("q", ITEMS, f"c{n}", subject=f"s{n}")
            assert again.items == first.items


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"explore": 0.05}, "explore (0 or a temperature)=0.05: must be a number in [0.1, 10]"),
        ({"explore": -1}, "must be a number in [0.1, 10]"),
        ({"explore": 1, "policy": "RankedUCB1"}, "explore=1: must be 0 with RankedUCB1, which learns by its own lists"),
        ({"explore": 1, "policy": "TopRank", "horizon": 10}, "must be 0 with TopRank"),
        ({"explore": 1, "mode": "safe"}, "must be 0 with BubbleRank"),
        ({"explore": 1, "arms": {"b": ArmSettings(share=0.5, mode="safe")}}, "arms.b: explore=1: must be 0 with"),
    ],
)
def test_refused(settings: dict[str, Any], says: str):
    with pytest.raises(ValueError, match="explore") as caught:
        check_ranker("r", RankerSettings(**settings))
    assert says in str(caught.value)
