"""From a log to fitted models, their comparison, and a file that simulations take."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import driftrank as dr
from driftrank.clickmodels import CM, PBM, click_models
from driftrank.clickmodels.fitting.counts import Pairs, PositionCounts
from driftrank.clickmodels.fitting.identified import ranks_apart
from driftrank.environments import Abrupt, Replay, Stationary
from driftrank.experiments.paper.queries_from_log import queries_from_log
from driftrank.fitting.fit import FittedModels, finest, fit_log, fit_statistics, models_of, write_models
from driftrank.fitting.report import examination, write_fit_report
from driftrank.logs import aggregate, attraction_over_time, drift, generate, open_log
from driftrank.logs.log import Log
from driftrank.logs.over_time import window_edges
from driftrank.queries import load, yandex_like
from tests.logs.random_logs import write_log
from tests.reporting.page_checks import check_page


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """A log of users who click by the position-based model."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    generate(path, Stationary(yandex_like(4), click_model=PBM()), 40_000, zipf=0.5)
    return open_log(path)


@pytest.fixture(scope="module")
def fitted(log: Log) -> FittedModels:
    return fit_log(log, "CM,PBM,UBM")


def test_the_model_of_the_users_is_found(fitted: FittedModels) -> None:
    """UBM contains PBM, so it predicts about as well; CM does not."""
    assert fitted.ranked()[-1] == "CM"
    scores = {name: e.mean_log_likelihood for name, e in fitted.evaluations.items()}
    assert scores["PBM"] == pytest.approx(scores["UBM"], abs=0.003)
    assert scores["CM"] < scores["PBM"] - 0.05
    assert fitted.best in ("PBM", "UBM")
    assert (fitted.lists, fitted.held_out) == (40_000, 8_000)
    text = str(fitted.table())
    assert "closed form" in text
    assert "EM, " in text
    assert fitted.summary()["models"]["PBM"]["perplexity"] == pytest.approx(
        np.mean(fitted.summary()["models"]["PBM"]["perplexity_by_rank"])
    )


def test_models_are_compared_like_with_like(log: Log, tmp_path: Path) -> None:
    """Closed forms are not used where models are compared, unless asked for, and then they are not the best."""
    fitted = fit_log(log, "DCM,SDBN,CM")
    assert all(fit.exact for fit in fitted.fits.values())
    assert "biased" not in str(fitted.table())
    quick = fit_log(log, "DCM,SDBN,CM", exact=False)
    assert [name for name, fit in quick.fits.items() if not fit.exact] == ["DCM", "SDBN"]
    assert quick.best == "CM"
    assert str(quick.table()).count("closed form, biased") == 2
    assert not fit_log(log, "DCM").fits["DCM"].exact  # nothing is compared
    statistics = [aggregate(log, kind) for kind in ("ratios", "lists")]
    assert fit_statistics(statistics, "DCM,CM").fits["DCM"].exact
    assert not fit_statistics(statistics[:1], "DCM,CM").fits["DCM"].exact


def test_differences_have_paired_errors(log: Log, fitted: FittedModels) -> None:
    """The mean and the standard error of the differences, list by list."""
    assert fitted.behind(fitted.best or "") == (0, 0)
    assert fitted.sample is not None
    of_list = [np.repeat(fitted.evaluations[name].by_list, fitted.sample.lists) for name in ("PBM", "UBM", "CM")]
    best = of_list[0] if fitted.best == "PBM" else of_list[1]
    mean, error = fitted.behind("CM")
    assert mean == pytest.approx((best - of_list[2]).mean())
    assert error == pytest.approx((best - of_list[2]).std(ddof=1) / np.sqrt(len(best)))
    assert mean > 10 * error
    assert "CM" not in fitted.ties
    second = fitted.ranked()[1]
    assert (second in fitted.ties) == (fitted.behind(second)[0] <= 2 * fitted.behind(second)[1])
    assert fitted.summary()["models"]["CM"]["standard_error"] == error


def test_without_clicks_no_model_is_best(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = "SELECT 'q' AS query, n AS time, [1 + n % 2, 2 - n % 2] AS ranking, []::INT[] AS clicks FROM range(50) t(n)"
    duckdb.sql(f"COPY ({rows}) TO '{path}'")
    found = fit_log(open_log(path), "CM,PBM,UBM,DBN")
    assert {found.best, *found.ties} == {"CM", "PBM", "UBM", "DBN"}


def test_rare_clicks_do_not_look_attractive(tmp_path: Path) -> None:
    """At a click rate of 0.4%, the average attraction is right; with one click in two views added it is not."""
    path = tmp_path / "log.parquet"
    rng = np.random.default_rng(0)
    items, clicks = rng.integers(0, 80, (6000, 2)), rng.random((6000, 2)) < 0.004
    items[:, 1] = (items[:, 0] + 1 + items[:, 1] % 79) % 80
    rows = ", ".join(
        f"('q', {n}, {i.tolist()}, {(np.flatnonzero(c) + 1).tolist()})"
        for n, (i, c) in enumerate(zip(items, clicks, strict=True))
    )
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(query, time, ranking, clicks)) TO '{path}'")
    log = open_log(path)
    rate = clicks.mean()
    assert PBM.fit(log).attraction.mean() == pytest.approx(rate, rel=0.2)
    assert CM.fit(log).attraction.mean() == pytest.approx(rate, rel=0.05)
    assert CM.fit(log, prior=(1, 2)).attraction.mean() > 2 * rate


def test_a_file_of_other_models_is_kept(tmp_path: Path, fitted: FittedModels, log: Log) -> None:
    path = tmp_path / "models.json"
    write_models(path, fitted)
    alone = fit_log(log, "CM")
    with pytest.raises(ValueError, match="this one has PBM, UBM, which would be lost; --overwrite replaces it"):
        write_models(path, alone)
    assert "PBM" in path.read_text()
    write_models(path, fitted)  # the same models again
    write_models(path, alone, overwrite=True)
    assert "PBM" not in path.read_text()
    path.write_text("{}")
    with pytest.raises(ValueError, match="must be a new file or a models file"):
        write_models(path, alone)


def test_held_out_lists_are_the_latest(log: Log, fitted: FittedModels) -> None:
    """Fitting to the lists before gives the same scores, and to all lists the same models."""
    earlier, later = log.split(0.8)
    by_hand = CM.fit(earlier).evaluate(later.counts("lists"))
    assert by_hand.mean_log_likelihood == pytest.approx(fitted.evaluations["CM"].mean_log_likelihood, rel=1e-12)
    assert CM.fit(log).attraction.tolist() == fitted.fits["CM"].attraction.tolist()


def test_the_models_file(tmp_path: Path, fitted: FittedModels) -> None:
    """Simulations read the file, with the ids of the items."""
    path = tmp_path / "models.json"
    assert write_models(path, fitted, top=2, items=4, intervals=True) == 2
    content = json.loads(path.read_text())["queries"]
    assert list(content) == ["yandex-like-0-0", "yandex-like-0-1"]
    first = content["yandex-like-0-0"]
    assert len(first["items"]) == len(first["CM"]["attraction"]) == 4
    for name in ("CM", "PBM", "UBM"):
        for a, low, high in zip(*(x[name]["attraction"] for x in (first, first["low"], first["high"])), strict=True):
            assert low <= a <= high
    queries = load(path, "PBM")
    assert queries.items["yandex-like-0-0"] == tuple(first["items"])
    truth = dict(zip(range(1000, 1010), yandex_like(4)["yandex-like-0-0"], strict=True))
    assert queries["yandex-like-0-0"] == pytest.approx([truth[i] for i in first["items"]], abs=0.05)
    world = Stationary(queries, k=2)
    result = dr.simulate(["DynamicOracle"], world, horizon=50, runs=1, progress=False)
    assert result.regret("DynamicOracle") == 0


def test_statistics_instead_of_a_log(log: Log, fitted: FittedModels) -> None:
    """The same estimates; models are compared where lists were counted."""
    positions, lists = (aggregate(log, kind) for kind in ("positions", "lists"))
    found = fit_statistics([positions], ["CM", "UBM"])
    assert found.fits["UBM"].attraction.tolist() == fitted.fits["UBM"].attraction.tolist()
    assert found.best is None
    assert "–" in str(found.table())
    both = fit_statistics([positions, lists], "CM")
    assert both.best == "CM"
    assert both.held_out == 0
    with pytest.raises(ValueError, match="DBN: is fitted to statistics of lists; given are those of positions"):
        fit_statistics([positions], "DBN")


def test_without_comparison(log: Log) -> None:
    alone = fit_log(log, "CM", holdout=0)
    assert alone.best is None
    assert alone.evaluations == {}
    assert alone.lists == 40_000


def test_a_log_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (SELECT 'q' AS query, 1 AS time, [1, 2] AS ranking, [1] AS clicks FROM range(5)) TO '{path}'")
    with pytest.raises(ValueError, match="all times are equal; holdout=0 skips the comparison"):
        fit_log(open_log(path), "CM")
    assert fit_log(open_log(path), "CM", holdout=0).lists == 5


def test_statistics_that_are_enough_for_all() -> None:
    assert finest(models_of("CM,SDBN")) == "ratios"
    assert finest(models_of("UBM,CM")) == "positions"
    assert finest(models_of("UBM,CM,CCM")) == finest(models_of("DCM"), exact=True) == "lists"


def test_names_of_models() -> None:
    assert [m.__name__ for m in models_of("sdbn, CM,CM")] == ["SDBN", "CM"]
    assert len(models_of("all")) == len(click_models())
    for wrong in ("", "CM,XYZ"):
        with pytest.raises(ValueError, match="click model"):
            models_of(wrong)


def test_how_far_users_read(fitted: FittedModels) -> None:
    curve = examination(fitted.fits["PBM"], fitted)
    assert curve == pytest.approx(PBM().examination, abs=0.06)


def test_attraction_over_time_and_replay(tmp_path: Path) -> None:
    """The changes of a log are found, drawn, written, and simulated again."""
    world = Abrupt(yandex_like(2), k=3, period=1000)
    generate(tmp_path / "log.parquet", world, 5800)
    log = open_log(tmp_path / "log.parquet")
    series = attraction_over_time(log, CM, windows=6, top=1)
    assert len(series) == 1
    assert series[0].attraction.shape == (6, 10)
    slots = [item % 1000 for item in series[0].items]
    for window, step in ((0, 100), (2, 1200), (5, 2600)):
        truth = world.attraction(step, series[0].query)[slots]
        assert series[0].attraction[window] == pytest.approx(truth, abs=0.12)
    drifts = drift(log, items=10)
    fitted = fit_log(log, "CM,PBM")
    write_models(tmp_path / "models.json", fitted, drifts=drifts)
    queries = load(tmp_path / "models.json", "CM")
    assert sorted(len(c) for c in queries.changes.values()) == [2, 2]
    assert not load(tmp_path / "models.json", "PBM").changes  # PBM does not determine what was read
    again = Replay(queries, k=3)
    replayed = dr.logs.environment(log, k=3)
    for query in world.names:  # through a file or not
        assert replayed.queries[query] == pytest.approx(queries[query], abs=0.03)
    for query in world.names:
        assert again.breakpoints(3000, query) == replayed.breakpoints(3000, query)
        assert again.breakpoints(3000, query) == pytest.approx(world.breakpoints(2700, query), abs=30)
    files = write_fit_report(fitted, tmp_path / "report", "log.parquet", ["driftrank", "fit"], series, drifts, "CM")
    names = {path.name for path in files}
    assert {"report.html", "table.csv", "examination.png", "perplexity.svg", "attraction.png"} <= names
    check_page(tmp_path / "report" / "report.html", pictures=3)
    page = (tmp_path / "report" / "report.html").read_text()
    assert "2 changes: " in page
    assert "compared on the 1,160 that came after" in page


def test_windows_of_timestamps(tmp_path: Path) -> None:
    begin = datetime(2024, 5, 1)
    rows = ", ".join(f"('q', TIMESTAMP '{begin + timedelta(hours=n)}', [1, 2], [1])" for n in range(25))
    path = tmp_path / "log.parquet"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(query, time, ranking, clicks)) TO '{path}'")
    log = open_log(path)
    assert window_edges(log, 4) == tuple(begin + timedelta(hours=6 * n) for n in range(5))
    found = attraction_over_time(log, CM, windows=4, prior=(0, 0))[0]
    assert found.views[:, 0].tolist() == [6, 6, 6, 7]
    assert found.attraction[:, 0].tolist() == [1.0] * 4


def test_items_that_were_not_always_shown(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = "('q', 1, [1, 2], [2]), ('q', 2, [1, 2], []), ('q', 3, [1, 3], []), ('r', 4, [1], [])"
    duckdb.sql(f"COPY (SELECT * FROM (VALUES {rows}) AS t(query, time, ranking, clicks)) TO '{path}'")
    found = attraction_over_time(open_log(path), CM, windows=2)[0]
    assert found.items == (1, 2, 3)
    assert np.isnan(found.attraction[0, 2])
    assert found.views.tolist() == [[2, 2, 0], [1, 0, 1]]


def test_queries_of_the_papers_pipeline(log: Log) -> None:
    """The most frequent queries, and their most attractive items, best first; rare items do not count."""
    found = queries_from_log(log, top=3, items=5)
    assert list(found) == [f"yandex-like-0-{i}" for i in range(3)]
    for entry in found.values():
        assert entry["CM"]["attraction"] == sorted(entry["CM"]["attraction"], reverse=True)
    with pytest.raises(ValueError, match="no query has 11 items that were shown 100 times"):
        queries_from_log(log, top=3, items=11)
    with pytest.raises(ValueError, match="no query has 5 items that were shown 1000000 times"):
        queries_from_log(log, top=3, items=5, views=1_000_000)


def test_changes_in_a_file_are_not_lost(tmp_path: Path) -> None:
    """The same model fitted again, without a search for changes, would replace them."""
    path = tmp_path / "log.parquet"
    generate(path, Stationary([[0.5, 0.1]], k=2), 300)
    log, target = open_log(path), tmp_path / "models.json"
    fitted = fit_log(log, "CM", holdout=0)
    write_models(target, fitted, drifts=[])
    write_models(target, fitted)  # it has no changes yet
    held = json.loads(target.read_text("utf-8"))
    for query in held["queries"].values():
        query["CM"]["changes"] = [{"after": 10, "attraction": query["CM"]["attraction"]}]
    target.write_text(json.dumps(held), "utf-8")
    with pytest.raises(ValueError, match="one without changes; this one has those that drift=True found"):
        write_models(target, fitted)
    write_models(target, fitted, drifts=drift(log, top=1))
    assert "changes" not in target.read_text("utf-8")  # none is found
    target.write_text(json.dumps(held), "utf-8")
    write_models(target, fitted, overwrite=True)


# -- logs that do not identify a model ---------------------------------------------------------------------------------


def rows(path: Path, lists: list[tuple[list[str], list[int]]]) -> Log:
    return open_log(write_log(path, [("q", items, clicks) for items, clicks in lists]))


@pytest.mark.parametrize("name", ["DCM", "SDBN", "PBM", "UBM", "DBN", "CCM"])
@pytest.mark.parametrize("exact", [False, True])
def test_lists_of_one_item_say_nothing_of_reading(tmp_path: Path, name: str, exact: bool) -> None:
    log = rows(tmp_path / "log.parquet", [(["a"], [1]), (["b"], []), (["a"], [])] * 20)
    with pytest.raises(ValueError, match="every list has one item and no position"):
        click_models()[name].fit(log, exact=exact)


def test_what_cannot_be_fitted_is_left_out_of_all(tmp_path: Path) -> None:
    log = rows(tmp_path / "log.parquet", [(["a"], [1]), (["b"], []), (["a"], [])] * 20)
    fitted = fit_log(log, "all")
    assert list(fitted.fits) == ["CM"]
    assert set(fitted.left_out) == set(click_models()) - {"CM"}
    assert "every list has one item" in fitted.summary()["left_out"]["CCM"]
    with pytest.raises(ValueError, match="every list has one item"):
        fit_log(log, "CM,CCM")


@pytest.mark.parametrize("name", ["PBM", "UBM"])
def test_items_that_keep_their_position_say_nothing_of_examination(tmp_path: Path, name: str) -> None:
    fixed = [(["a", "b", "c"], [1]), (["a", "b", "c"], [2, 3])] * 20
    with pytest.raises(ValueError, match="no items were shown both at positions 2, 3 and, directly or through others"):
        click_models()[name].fit(rows(tmp_path / "fixed.parquet", fixed))
    partly = rows(tmp_path / "partly.parquet", [*fixed, (["b", "a", "c"], [1])])
    with pytest.raises(ValueError, match="no items were shown both at position 3 and"):
        click_models()[name].fit(partly)
    assert fit_log(partly, "DCM").fits  # users who read down are found by where they stop
    chained = rows(tmp_path / "chained.parquet", [*fixed, (["b", "a", "c"], [1]), (["a", "c", "b"], [])])
    assert click_models()[name].fit(chained).converged


def test_rows_at_one_position_only_are_refused(tmp_path: Path) -> None:
    table = pa.table({"query": ["q"] * 60, "time": range(60), "ranking": [["a"], ["b"]] * 30, "clicks": [[1], []] * 30,
                      "position": pa.array([3] * 60, pa.int16())})  # fmt: skip
    with pytest.raises(ValueError, match="at positions 1, 2, 3 and"):
        PBM.fit(open_log(table))


def test_parameters_of_every_query_need_links_within_one() -> None:
    pairs = Pairs(np.array(["p", "q"]), np.array([0, 0, 1, 1], np.int32), np.arange(4))
    pair, rank = np.array([0, 0, 1, 2, 3]), np.array([1, 2, 3, 2, 3])
    n = np.ones(5, int)
    apart = PositionCounts(pairs, pair, rank, 0 * n, n, 0 * n, n, 0 * n)
    assert ranks_apart(apart) == [3]
    assert ranks_apart(apart, per_query=True) == [3]
    linked = PositionCounts(pairs, np.append(pair, 1), np.append(rank, 2), *([np.zeros(6, int)] * 5))
    assert ranks_apart(linked) == ranks_apart(linked, per_query=True) == []  # by p, which has all ranks


def test_results_of_fits_are_shown_in_words(fitted: FittedModels) -> None:
    assert repr(fitted).startswith("<CM, PBM, UBM fitted to 40,000 lists, compared on 8,000>\n")
    assert repr(fitted.evaluations["PBM"]).startswith("<Evaluation: 8,000 lists, log-likelihood -")
