from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driftrank.serve.monitoring.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_names_of_counters() -> None:
    metrics = Metrics()
    metrics.add("feedback", ("shop", "late"))
    metrics.add("feedback", ("shop", "late"), 2)
    metrics.add("http_requests", ("rank", 200))
    metrics.add("records_appended", n=7)
    found = samples(metrics)
    assert found["driftrank_feedback_total", (("outcome", "late"), ("ranker", "shop"))] == 3
    assert found["driftrank_http_requests_total", (("route", "rank"), ("status", "200"))] == 1
    assert found["driftrank_records_appended_total", ()] == 7
    assert found["driftrank_evictions_total", ()] == 0  # there before anything happened
    assert metrics.count("feedback", ("shop", "late")) == 3
    assert metrics.count("feedback", ("shop", "orphan")) == 0


def test_durations_fall_into_buckets() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.0002, 0.003, 100.0):
        metrics.observe("http_request_duration_seconds", ("rank",), seconds)
    found = samples(metrics)
    name = "driftrank_http_request_duration_seconds"

    def up_to(bound: str) -> float:
        return found[f"{name}_bucket", (("le", bound), ("route", "rank"))]

    assert [up_to(b) for b in ("0.0001", "0.00025", "0.0025", "0.005", "10.0", "+Inf")] == [1, 2, 2, 3, 3, 4]
    assert found[f"{name}_count", (("route", "rank"),)] == 4
    assert math.isclose(found[f"{name}_sum", (("route", "rank"),)], 100.0033)


def test_gauges_are_read_at_a_scrape() -> None:
    metrics = Metrics()
    pending = {("shop",): 1.0}
    metrics.gauge("lists_pending", lambda: pending)
    metrics.gauge("ready", lambda: True)
    assert samples(metrics)["driftrank_lists_pending", (("ranker", "shop"),)] == 1
    pending[("shop",)] = 5.0
    found = samples(metrics)
    assert found["driftrank_lists_pending", (("ranker", "shop"),)] == 5
    assert found["driftrank_ready", ()] == 1


def test_undeclared_metrics_raise() -> None:
    metrics = Metrics()
    with pytest.raises(KeyError):
        metrics.add("lsits")
    with pytest.raises(KeyError):
        metrics.observe("lists", (), 1)
    with pytest.raises(KeyError):
        metrics.gauge("lists", lambda: 1)


def test_every_metric_has_a_description() -> None:
    text = Metrics().render().decode()
    for name, family in {**COUNTERS, **HISTOGRAMS}.items():
        total = "_total" if name in COUNTERS else ""
        assert f"# HELP driftrank_{name}{total} {family.text}\n" in text
    assert all(family.text for family in GAUGES.values())


def test_a_deleted_ranker_has_no_metrics() -> None:
    metrics = Metrics()
    for ranker in ("shop", "news"):
        metrics.add("lists", (ranker, "live"))
        metrics.add("feedback", (ranker, "counted"))
    metrics.forget("shop")
    text = metrics.render().decode()
    assert "shop" not in text
    assert text.count('ranker="news"') == 2


def test_servers_in_one_process_count_separately() -> None:
    one, other = Metrics(), Metrics()
    one.add("evictions")
    assert other.count("evictions") == 0


def test_names_with_odd_characters_stay_one_line() -> None:
    metrics = Metrics()
    metrics.add("lists", ('a"\n\\b', "live"))
    assert samples(metrics)["driftrank_lists_total", (("arm", "live"), ("ranker", 'a"\n\\b'))] == 1
