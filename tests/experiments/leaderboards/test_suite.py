from __future__ import annotations

import pytest

from driftrank.clickmodels import CM, PBM
from driftrank.environments.registry import environments, parse_environment, takes_queries
from driftrank.experiments.leaderboards.arena import LEVEL
from driftrank.experiments.leaderboards.places import TRAFFIC_RUNS, places
from driftrank.experiments.leaderboards.policies import INFORMED, TUNED, usual
from driftrank.experiments.leaderboards.suite import CHANGE, CHANGES, ENTRIES, PARTS, TRAFFIC
from driftrank.policies.registry import parse_policy
from driftrank.queries import Queries, yandex_like

QUERIES = yandex_like(3)


def test_names() -> None:
    assert len(ENTRIES) == sum(len(part.entries) for part in PARTS.values())
    assert not set(ENTRIES) & set(PARTS)
    # of the test problems of theorems, which are made to be hard, there are none; others need a log or a data set
    without = {"BLB", "LowerBound", "Replay", "LearningToRank", "Traffic"}
    assert {entry.environment for entry in CHANGE} == set(environments()) - without
    assert {entry.environment for entry in TRAFFIC} == {"Traffic"}


def test_parts_by_name() -> None:
    found = places(["users", "Abrupt"], QUERIES, 3, 1000, 1)
    assert [place.name for place in found] == [*(entry.name for entry in PARTS["users"].entries), "Abrupt"]
    assert {place.part for place in found} == {"users", "change"}


@pytest.mark.interpreted  # many click models: compiling takes longer
def test_users_click_by_their_models() -> None:
    found = {place.name: place for place in places(["users"], QUERIES, 3, 100_000, 1)}
    place = found["PBM-1-K10"]
    assert place.environment.k == place.k == 10
    assert place.environment.users() == PBM(examination=(1, 0.5, 0.3333, 0.25, 0.2, 0.1667, 0.1429, 0.125, 0.1111, 0.1))
    assert {p.horizon for p in found.values()} == {10_000, 20_000}
    assert not any(isinstance(p.environment.users(), CM) for p in found.values())
    assert {p.environment.users().objective for p in found.values()} == {"clicks"}
    assert "--k 10 --click-model 'PBM:examination=[1;0.5;" in place.options
    assert place.options.endswith("--horizon 10000")
    assert {p.name for p in found.values() if p.horizon == 10_000} == {
        f"PBM-{x}-K{k}" for x in (0.5, 1) for k in (3, 10)
    }
    for name in ("PBM-0.5", "PBM-1", "UBM", "DBN", "DCM"):
        assert len(found[f"{name}-breaks"].environment.breakpoints(20_000)) == 4


@pytest.mark.interpreted  # many click models: compiling takes longer
def test_users_of_other_kinds_than_those_of_development() -> None:
    """Those that constants were chosen among are in benchmarks/users.py."""
    seen = {(p.environment.users(), p.k) for p in places(["users"], QUERIES, 3, 100_000, 1)}
    seen |= {(PBM(examination=tuple(n**-1.5 for n in range(1, k + 1))), k) for k in (3, 5, 10)}
    found = {place.name: place for place in places(["others"], QUERIES, 3, 100_000, 1)}
    assert not {(p.environment.users(), p.k) for p in found.values()} & seen - {
        (found["PBM-L50-rare"].environment.users(), 5)
    }
    rare = found["PBM-L50-rare"].environment
    assert (len(rare.attraction(1)), max(rare.attraction(1)) < 0.03) == (50, True)
    assert isinstance(rare.users(), PBM)
    assert len(found["DBN-K10"].environment.attraction(1)) == 20


def test_informed_rivals_have_the_parameters_of_the_users() -> None:
    found = {place.name: place for place in places(["known"], QUERIES, 3, 100_000, 1)}
    policies = {spec.partition(":")[0]: parse_policy(spec) for spec in INFORMED}
    assert policies["PBMPIE"].examination == found["PBM-1-K5-known"].environment.users().examination
    assert policies["DCMKLUCB"].stop_after_click == found["DCM-known"].environment.users().stop_after_click[:5]
    assert {parse_policy(spec).spec for spec in INFORMED} == set(INFORMED)
    assert set(TUNED.values()) == {parse_policy(spec).spec for spec in TUNED.values()}


def test_power_enough_for_a_permutation_test_everywhere() -> None:
    """All signs alike, after Holm's correction for every policy in every environment of the part."""
    everything = places([], yandex_like(20), 3, 100_000, 1)
    for part, group in PARTS.items():
        samples = [max(len(p.environment.queries), p.runs) for p in everything if p.part == part]
        comparisons = len(group.entries) * len(usual(part))
        assert 2 / 2 ** min(min(samples), 28) * comparisons < LEVEL, part
    assert {max(len(p.environment.queries), p.runs) for p in everything if p.part == "sizes"} == {20, 40}


def test_sizes_and_times() -> None:
    found = {place.name: place for place in places(["sizes"], QUERIES, 3, 100_000, 2, seed=5)}
    sizes = {name: (len(p.environment.attraction(1)), p.environment.k) for name, p in found.items()}
    assert sizes["Items-50"] == (50, 5)
    assert sizes["Items-200"] == (200, 10)
    assert found["Items-50"].environment.names[0] == "yandex-like-5-0-50"
    assert found["Short-200-change"].environment.breakpoints(found["Short-200-change"].horizon) == [100]
    assert found["Short-200"].runs == 2 * 20
    assert found["Fast-all"].environment.breakpoints(350) == [100, 200, 300]
    assert found["Blips"].environment.breakpoints(2100) == [970, 1000, 1970, 2000]
    assert max(found["Rare"].environment.attraction(1)) < 0.02
    # short runs stay short, and as long, whatever the horizon
    assert {p.name: p.horizon for p in places(["sizes"], QUERIES, 3, 500, 1)}["Short-1000"] == 1000


def test_fair_worlds_have_the_number_of_changes_that_theory_is_given() -> None:
    for place in places(["fair"], QUERIES, 3, 100_000, 1):
        assert len(place.environment.breakpoints(place.horizon)) == CHANGES, place.name


def test_fewer_items_than_positions_of_the_suite() -> None:
    (place,) = places(["PBM-1-K10"], Queries.of([[0.3, 0.2, 0.1]]), 2, 1000, 1)
    assert place.environment.k == 3


def test_at_the_usual_horizon_times_are_the_defaults() -> None:
    for place in places([entry.name for entry in CHANGE], QUERIES, 3, 100_000, 1):
        kind, _, text = place.spec.partition(":")
        given = {"queries": QUERIES, "k": 3} if takes_queries(kind) else {}
        unchanged = ("boost", "shape", "regimes", "announced", "n_queries", "K")
        kept = ",".join(pair for pair in text.split(",") if pair.startswith(unchanged))
        default = parse_environment(f"{kind}:{kept}" if kept else kind, **given)
        for query in default.names[:1]:
            if kind != "GarivierMoulines":  # its own horizon is a tenth of ours
                assert place.environment.breakpoints(100_000, query) == default.breakpoints(100_000, query), place.name


@pytest.mark.interpreted  # many environments: compiling takes longer
@pytest.mark.parametrize("horizon", [100, 317, 2000])
def test_everything_is_scaled(horizon: int) -> None:
    changes = {p.name: len(p.environment.breakpoints(p.horizon)) for p in places(["change"], QUERIES, 3, horizon, 1)}
    assert changes["Stationary"] == changes["LinearFeatures"] == 0
    assert (changes["Abrupt"], changes["Scaling"]) == (9, 4)
    assert changes["PiecewiseRandom"] == 6
    assert changes["GarivierMoulines"] == 2
    assert 7 <= changes["Recurring-2"] <= 10


def test_as_many_runs_everywhere() -> None:
    everything = places([], QUERIES, 3, 1000, 4)
    assert {place.runs for place in everything if place.environment.traffic} == {4 * TRAFFIC_RUNS * 3}
    assert places(["Traffic"], QUERIES, 3, 1000, 4)[0].runs == 4 * TRAFFIC_RUNS
    found = [place for place in everything if place.part == "change"]
    assert {place.runs * len(place.environment.queries) for place in found} == {12}
    assert {place.name for place in found if place.runs != 4} == {"LowCTR", "GarivierMoulines"}


def test_positions() -> None:
    found = {place.name: place.environment.k for place in places(["change"], QUERIES, 2, 1000, 1)}
    assert found.pop("GarivierMoulines") == 1
    assert set(found.values()) == {2}


def test_own_environments_are_taken_as_they_are() -> None:
    found = places(["Abrupt:period=70", "Abrupt", "LowerBound"], QUERIES, 3, 1000, 1)
    assert [place.spec for place in found] == ["Abrupt:period=70", "Abrupt:period=100", "LowerBound"]
    assert found[2].runs == 3
    assert found[2].what


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["Abrupd"], "unknown environment 'Abrupd'; did you mean Abrupt"),
        (["Drift-wlk"], "did you mean Drift-walk"),
        (["Abrupt:perod=3"], "did you mean period"),
        (["Silent", "Silent"], "Silent occurs twice"),
    ],
)
def test_wrong_names(names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        places(names, QUERIES, 3, 1000, 1)


def test_queries_that_are_too_small_are_named() -> None:
    with pytest.raises(ValueError, match="n_boosted"):
        places(["Abrupt"], Queries.of([[0.1, 0.2, 0.3]]), 2, 1000, 1)
