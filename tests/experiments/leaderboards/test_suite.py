from __future__ import annotations

import pytest

from driftrank.environments.registry import environments, parse_environment, takes_queries
from driftrank.experiments.leaderboards.suite import SUITE, TRAFFIC, TRAFFIC_RUNS, places
from driftrank.queries import Queries, yandex_like

QUERIES = yandex_like(3)


def test_names() -> None:
    assert len({entry.name for entry in (*SUITE, *TRAFFIC)}) == len(SUITE) + len(TRAFFIC)
    # of the test problems of theorems, which are made to be hard, there are none; Replay needs a log
    assert {entry.environment for entry in SUITE} == set(environments()) - {"BLB", "LowerBound", "Replay", "Traffic"}
    assert {entry.environment for entry in TRAFFIC} == {"Traffic"}


def test_at_the_usual_horizon_times_are_the_defaults() -> None:
    for place in places([entry.name for entry in SUITE], QUERIES, 3, 100_000, 1):
        kind, _, text = place.spec.partition(":")
        given = {"queries": QUERIES, "k": 3} if takes_queries(kind) else {}
        unchanged = ("boost", "shape", "regimes", "announced", "n_queries", "K")
        kept = ",".join(pair for pair in text.split(",") if pair.startswith(unchanged))
        default = parse_environment(f"{kind}:{kept}" if kept else kind, **given)
        for query in default.names[:1]:
            if kind != "GarivierMoulines":  # its own horizon is a tenth of ours
                assert place.environment.breakpoints(100_000, query) == default.breakpoints(100_000, query), place.name


@pytest.mark.parametrize("horizon", [100, 317, 2000])
def test_everything_is_scaled(horizon: int) -> None:
    changes = {p.name: len(p.environment.breakpoints(horizon)) for p in places([], QUERIES, 3, horizon, 1)}
    assert changes["Stationary"] == changes["LinearFeatures"] == 0
    assert changes["Abrupt"] == changes["Scaling"] == 9
    assert changes["PiecewiseRandom"] == 6
    assert changes["GarivierMoulines"] == 2
    assert 15 <= changes["Recurring-2"] <= 19


def test_as_many_runs_everywhere() -> None:
    everything = places([], QUERIES, 3, 1000, 4)
    assert {place.runs for place in everything if place.environment.traffic} == {4 * TRAFFIC_RUNS}
    found = [place for place in everything if not place.environment.traffic]
    assert {place.runs * len(place.environment.queries) for place in found} == {12}
    assert {place.name for place in found if place.runs != 4} == {"LowCTR", "GarivierMoulines"}


def test_positions() -> None:
    found = {place.name: place.environment.k for place in places([], QUERIES, 2, 1000, 1)}
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
