"""Whole evaluations of logs with known truth: values, intervals, differences, changes, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import driftrank as dr
from driftrank.evaluation.result import Evaluation
from driftrank.evaluation.sequences import mixture_width
from tests.evaluation import worlds
from tests.evaluation.worlds import BEST, cascade, choice, draw, fixed, mixed, softmax, uniform, value, write
from tests.reference import evaluation as reference
from tests.reference.evaluation import Logged

N = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation")


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    """A softmax log of cascade users; each user comes about three times."""
    rng = np.random.default_rng(1)
    return write(folder / "softmax.parquet", draw(rng, N, softmax), rng.integers(0, N // 3, N))


@pytest.fixture(scope="module")
def found(log: Path) -> Evaluation:
    return dr.evaluate(log, [BEST, "best-now"], changes=0)


def codes(found: Evaluation, name: str = "rankings", key: str | None = None) -> list[str]:
    estimate = found[name].whole if key is None else found[name].ladder[key]
    assert (estimate.value is None) == bool(estimate.refused)
    return [refusal.code for refusal in estimate.refused]


def test_values_are_those_of_the_plain_versions(log: Path, found: Evaluation) -> None:
    """List by list, with hazards from the other fold, and the jackknife over buckets of users."""
    import duckdb

    table = duckdb.sql(
        f"SELECT query, ranking, clicks, propensities, hash(\"user\") % 200 AS bucket FROM '{log}'"
    ).fetchall()
    rows = [
        (query, Logged(tuple(ranking), clicks[0] if clicks else None, tuple(p)), bucket)
        for query, ranking, clicks, p, bucket in table
    ]

    def hazard(query: str, item: int, fold: int) -> float:
        looks, clicks = 2.0, 0.5
        for own, row, bucket in rows:
            if own == query and bucket % 2 != fold and item in row.items:
                place = row.items.index(item) + 1
                if row.first is None or place <= row.first:
                    looks += 1
                    clicks += row.first == place
        return clicks / looks

    model = {(q, a, fold): hazard(q, a, fold) for q in BEST for a in BEST[q] for fold in (0, 1)}
    psi: dict[str, dict[int, list[float]]] = {key: {} for key in ("dr", "published", "prefix", "list")}
    for query, row, bucket in rows:
        target = reference.fixed(BEST[query])

        def chance(item: int, query: str = query, fold: int = bucket % 2) -> float:
            return model.get((query, item, fold), 0.5)  # of others nothing depends on it

        numbers = {
            "dr": reference.stopping_dr(row, range(6), target, chance),
            "published": reference.published_dr(row, range(6), target, chance),
            "prefix": reference.prefix_ips(row, target),
            "list": reference.list_ips(row, target),
        }
        for key, number in numbers.items():
            psi[key].setdefault(bucket, []).append(number)
    ladder = found.ladder("rankings")
    for key, by_bucket in psi.items():
        total = sum(map(sum, by_bucket.values()))
        without = [(total - sum(rest)) / (N - len(rest)) for rest in by_bucket.values()]
        assert ladder[key].value == pytest.approx(total / N, abs=1e-12)
        assert ladder[key].error == pytest.approx(reference.jackknife_error(without), rel=1e-9)
    by_query = [[row for own, row, _ in rows if own == query] for query in BEST]
    direct = [len(own) / N * reference.direct(own, BEST[q]) for own, q in zip(by_query, BEST, strict=True)]
    assert ladder["direct"].value == pytest.approx(sum(direct), abs=1e-12)
    assert found.logged == pytest.approx(np.mean([row.first is not None for _, row, _ in rows]))


def test_intervals_hold_the_truth(found: Evaluation) -> None:
    """One log; coverage over many is measured by benchmarks/evaluation_coverage.py."""
    for name in ("rankings", "best-now"):
        target = found[name]
        assert target.grade == "B"
        assert target.low is not None
        assert target.high is not None
        assert target.low < value() < target.high
        assert target.ess > 500
        assert target.difference is not None
        gain = value() - found.logged
        assert target.difference.low < gain + 0.02
        assert target.difference.high > gain - 0.02
    assert found["rankings"].ladder["direct"].grade == "C"
    assert found.answered


def test_paired_differences(log: Path, found: Evaluation) -> None:
    """A difference is less noisy than of two logs, which would be 1.4 times as wide as one value."""
    same = {**BEST, "lamps": [0, 1, 3]}
    two = dr.evaluate(log, ["best-now", same], against="best-now", changes=0)
    assert two["best-now"].difference is None
    difference = two["rankings"].difference
    assert difference is not None
    assert difference.high - difference.low < 1.1 * (two["rankings"].high - two["rankings"].low)  # type: ignore[operator]
    assert difference.low < value(ranking=same) - value() < difference.high


def test_always_valid_intervals_are_wider(log: Path, found: Evaluation) -> None:
    normal, valid, exact = (
        dr.evaluate(log, BEST, changes=0, interval=kind)["rankings"]
        for kind in ("normal", "always-valid", "empirical-bernstein")
    )
    widths = [target.high - target.low for target in (normal, valid, exact)]  # type: ignore[operator]
    assert widths[1] == pytest.approx(1.55 * widths[0], rel=0.05)
    assert widths[2] > widths[1]
    assert exact.low < value() < exact.high  # type: ignore[operator]
    assert normal.running is not None
    lists, values, low, high = normal.running[-1]
    assert lists == N
    assert (low, values, high) == pytest.approx((valid.low, valid.value, valid.high))
    assert (np.diff(normal.running[:, 0]) > 0).all()
    assert normal.windows is not None
    assert len(normal.windows) == 20
    halves = dr.evaluate(log, BEST, changes=0, windows=2)["rankings"].windows
    assert halves is not None
    assert halves[:, 0].mean() == pytest.approx(normal.value, abs=0.01)
    assert ((halves[:, 1] < value()) & (value() < halves[:, 2])).all()


def test_always_valid_intervals_are_looks_at_one_sequence(folder: Path, log: Path) -> None:
    """The interval of the first half is the look at it of the whole log: the plan does not follow the lists."""
    wanted = {"interval": "always-valid", "estimator": "prefix", "changes": 0, "windows": 2}
    whole = dr.evaluate(log, BEST, **wanted)["rankings"]  # type: ignore[arg-type]
    half = dr.evaluate(dr.logs.open_log(log).between(None, N // 2), BEST, **wanted)["rankings"]  # type: ignore[arg-type]
    assert whole.running is not None
    assert whole.running[0] == pytest.approx((N // 2, half.value, half.low, half.high))
    planned = dr.evaluate(log, BEST, planned=100, **wanted)["rankings"]  # type: ignore[arg-type]
    ratio = (planned.high - planned.low) / (whole.high - whole.low)  # type: ignore[operator]
    assert ratio == pytest.approx(mixture_width(N, 100) / mixture_width(N, 20_000))


def test_where_changes_were_looked_for(log: Path, found: Evaluation) -> None:
    assert found.changes_text == "changes were not looked for"
    one = dr.evaluate(log, BEST, changes=1)
    assert one.changes_text.endswith("in the 1 most frequent queries (70% of the lists); the others were not searched")
    assert one.to_dict()["changes_searched"] == 1
    assert "searched" not in dr.evaluate(log, BEST).changes_text


def test_kinds_of_values_are_not_mixed_silently(log: Path) -> None:
    found = dr.evaluate(log, ["Random", "best-now"], against="best-now", changes=0)
    assert any("mixes kinds of values: shadow here, frozen of best-now" in note for note in found["Random"].notes)
    alike = dr.evaluate(log, ["Random", "best-now"], against="best-now", changes=0, value_of="frozen")
    assert alike["Random"].notes == ()


def test_lists_that_are_needed_by_a_policy(folder: Path) -> None:
    """Also for a learner in the shadow, by the lists that it would show last."""
    path = write(folder / "policy.parquet", draw(np.random.default_rng(21), 300, uniform))
    found = dr.evaluate(path, "Random", changes=0)
    assert codes(found, "Random") == ["few"]
    assert found["Random"].exploring is not None


def test_one_list_must_not_decide_for_whole_lists(folder: Path) -> None:
    """500 lists that are those of the target, and one that was hardly ever shown, with a click."""
    n = 3000
    drawn = draw(np.random.default_rng(22), n, softmax)
    at = int((np.array(BEST["lamps"]) == worlds.LISTS).all(axis=1).argmax())
    row = int(np.flatnonzero(drawn.query == 0)[0])
    drawn.number[row], drawn.first[row], drawn.propensities[row] = at, 3, (0.17, 0.17, 0.17)
    found = dr.evaluate(write(folder / "heavy.parquet", drawn), BEST, changes=0, estimator="list")
    refusal = found["rankings"].ladder["list"].refused
    assert [each.code for each in refusal] == ["few"]
    assert "one list has" in refusal[0].text


def test_lists_that_were_not_drawn(folder: Path) -> None:
    """Lists that vary, with propensities of 1: not everybody saw the same list."""
    ones = pa.array([[1.0, 1.0, 1.0]] * 1000, pa.list_(pa.float64()))
    path = write(folder / "ones.parquet", draw(np.random.default_rng(23), 1000, softmax), propensities=ones)
    refused = dr.evaluate(path, BEST, changes=0)["rankings"].refused
    assert refused[0].code == "fixed-logging"
    assert refused[0].text.startswith("All propensities are 1, as of lists that were not drawn")


def test_clipped_weights_have_no_interval(log: Path, found: Evaluation) -> None:
    """The value of a large limit is that of none; a small one leaves the value to the model."""
    loose = dr.evaluate(log, BEST, clip=1e9, changes=0)["rankings"]
    assert loose.value == pytest.approx(found["rankings"].value)
    assert (loose.low, loose.high, loose.grade, loose.difference, loose.windows) == (None,) * 5
    assert loose.whole.left_to_model == 0.0
    tight = dr.evaluate(log, BEST, clip=1.0, changes=0)["rankings"]
    assert tight.whole.left_to_model == pytest.approx(1.0, abs=0.2)
    assert tight.value == pytest.approx(found["rankings"].ladder["direct"].value, abs=0.02)
    assert "left to the click model" in tight.notes[0]
    with pytest.raises(ValueError, match="clip=5: must not be given with estimator='prefix'"):
        dr.evaluate(log, BEST, estimator="prefix", clip=5)


def test_automatic_choice(log: Path, found: Evaluation) -> None:
    """The click model is right here, so it is chosen, as almost always; nothing says how far it may be off."""
    ladder = found["rankings"].ladder
    auto = dr.evaluate(log, BEST, estimator="auto", changes=0)["rankings"]
    assert auto.whole.chosen == "direct"
    assert auto.value == ladder["direct"].value
    assert (auto.low, auto.high, auto.grade, auto.difference, auto.windows) == (None,) * 5
    assert auto.whole.to_dict()["chosen"] == "direct"
    assert "Chosen: direct" in auto.notes[0]
    assert auto.ladder["dr"].value == ladder["dr"].value
    for wrong in ({"clip": 5}, {"objective": "clicks"}, {"half_life": 7}):
        with pytest.raises(ValueError, match="must not be given"):
            dr.evaluate(log, BEST, estimator="auto", **wrong)  # type: ignore[arg-type]


def test_automatic_choice_without_a_model_that_holds(folder: Path) -> None:
    """Users who are not alike: the click model fails its check and is no candidate. What is refused stays refused."""
    path = write(folder / "auto.parquet", draw(np.random.default_rng(2), N, softmax, mixed))
    auto = dr.evaluate(path, BEST, estimator="auto", changes=0)["rankings"]
    assert auto.ladder["direct"].value is None
    assert auto.whole.chosen is not None
    assert auto.whole.chosen.startswith("dr")
    path = write(folder / "auto-fixed.parquet", draw(np.random.default_rng(2), 500, fixed))
    assert codes(dr.evaluate(path, BEST, estimator="auto", changes=0))[0] == "fixed-logging"


def test_half_life(folder: Path) -> None:
    """Weighted means, list by list; after a change they come near the new value, and the whole log does not."""
    drawn = draw(np.random.default_rng(14), 10_000, softmax, change=6_000)
    path = write(folder / "decays.parquet", drawn)
    found = dr.evaluate(path, [BEST, "Random"], estimator="prefix", half_life=1_000, changes=0)
    target = found["rankings"]
    assert target.value == pytest.approx(value(alpha=worlds.CHANGED), abs=0.06)
    assert target.low < 0.98 * value(alpha=worlds.CHANGED) + 0.02 * value() < target.high  # type: ignore[operator]
    counts = 0.5 ** (np.arange(10_000)[::-1] / 1_000)
    wanted = np.array([BEST[query] for query in worlds.QUERIES])[drawn.query]
    items = worlds.LISTS[drawn.number]
    weight = np.cumprod(items == wanted, axis=1) / np.cumprod(drawn.propensities, axis=1)
    psi = np.where(drawn.first <= 3, np.take_along_axis(weight, np.minimum(drawn.first, 3)[:, None] - 1, 1)[:, 0], 0)
    assert target.value == pytest.approx((counts * psi).sum() / counts.sum(), rel=1e-9)
    assert found.logged == pytest.approx((counts * (drawn.first <= 3)).sum() / counts.sum(), rel=1e-9)
    assert target.difference is not None
    assert target.difference.value == pytest.approx(target.value - found.logged)  # type: ignore[operator]
    assert target.whole.lists == round(counts.sum())
    assert (target.running, target.notes, found["Random"].notes) == (None, (), ())
    short = dr.evaluate(path, BEST, half_life=2, changes=0)  # most lists count nothing at all
    assert codes(short)[-1] == "few"
    assert short["rankings"].whole.lists == round(1 / (1 - 0.5**0.5))
    for wrong, message in (
        ({"half_life": "7d"}, "half_life='7d': must be a number, as the times of"),
        ({"half_life": 0}, "half_life"),
        ({"half_life": 9, "interval": "always-valid"}, "interval='always-valid': must be 'normal'"),
        ({"half_life": 9, "clip": 3}, "half_life=9: must not be given with clip"),
        ({"half_life": 9, "value_of": "online"}, "half_life=9: must not be given with value_of='online'"),
    ):
        with pytest.raises(ValueError, match=message):
            dr.evaluate(path, ["Random"], **wrong)  # type: ignore[arg-type]


def test_since_the_last_change(folder: Path) -> None:
    """After 60% of the log items change; the whole log is a mix of two values, and only one of them is true now."""
    rng = np.random.default_rng(3)
    drawn = draw(rng, 20_000, softmax, change=12_000)
    path = write(folder / "changed.parquet", drawn)
    found = dr.evaluate(path, BEST)["rankings"]
    before, after = value(), value(alpha=worlds.CHANGED)
    assert found.now.low < after < found.now.high  # type: ignore[operator]
    assert found.whole.low < 0.6 * before + 0.4 * after < found.whole.high  # type: ignore[operator]
    assert abs(found.now.lists - 8000) < 400
    assert found.now.high < found.whole.low  # type: ignore[operator]
    late = dr.evaluate(path, BEST, changes=0, since=12_000)["rankings"]
    assert late.whole.lists == 8000
    assert late.low < after < late.high  # type: ignore[operator]


def test_learners(folder: Path) -> None:
    """In the shadow, the lists of a learner approach the best ones, which are those of the learner after the log.

    Random lists, drawn by a policy, are worth the mean of all.
    """
    path = write(folder / "learners.parquet", draw(np.random.default_rng(9), 2500, softmax))
    options = {"changes": 0, "k": 1}
    found = dr.evaluate(path, ["CascadeSoftmax", "Random"], **options)  # type: ignore[arg-type]
    best = sum(share * alpha.max() for share, alpha in zip(worlds.SHARES, worlds.ALPHA, strict=True))
    mean = sum(share * alpha.mean() for share, alpha in zip(worlds.SHARES, worlds.ALPHA, strict=True))
    learner, random = found["CascadeSoftmax"], found["Random"]
    assert learner.value_of == "shadow"
    assert random.low < mean < random.high  # type: ignore[operator]
    assert learner.low < best  # type: ignore[operator]
    assert learner.high > (best + mean) / 2  # type: ignore[operator]
    assert learner.value > random.value  # type: ignore[operator]
    frozen = dr.evaluate(path, ["CascadeSoftmax"], value_of="frozen", **options)["CascadeSoftmax"]  # type: ignore[arg-type]
    assert frozen.value_of == "frozen"
    assert frozen.low < best  # type: ignore[operator]
    assert frozen.high > (best + mean) / 2  # type: ignore[operator]
    again = dr.evaluate(path, "CascadeSoftmax", value_of="frozen", **options)  # type: ignore[arg-type]
    assert again["CascadeSoftmax"].to_dict() == frozen.to_dict()


def test_a_learner_does_not_depend_on_the_draws_of_the_log(folder: Path) -> None:
    """The same policy with the same seed and query: if it drew the same lists, every logged list would be its own."""
    rng = np.random.default_rng(11)
    policy = dr.CascadeSoftmax(temperature=0.2)
    learner = policy.start(range(worlds.L), 1, seed=0, query="lamps")
    rankings, clicks, p = [], [], []
    for _ in range(1500):
        ranking = learner.rank()
        click = [1] if rng.random() < worlds.ALPHA[0][ranking[0]] else []
        learner.update(ranking, click[0] if click else None)
        rankings.append(list(ranking))
        clicks.append(click)
        p.append(ranking.propensities.tolist())
    drawn = worlds.Drawn(*(np.zeros(1500, int),) * 3, np.zeros((1500, 3)))
    columns = {
        "ranking": pa.array(rankings, pa.list_(pa.int64())), "clicks": pa.array(clicks, pa.list_(pa.int16())),
        "propensities": pa.array(p, pa.list_(pa.float64())),
    }  # fmt: skip
    path = write(folder / "own.parquet", drawn, **columns)
    found = dr.evaluate(path, policy, changes=0).targets[policy.spec]
    assert found.whole.mean_weight == pytest.approx(1, abs=0.2)
    assert found.low < found.ladder["list"].value < found.high  # type: ignore[operator]
    assert abs(found.difference.value) < 0.1  # type: ignore[union-attr]


def test_a_learner_with_a_shared_model(folder: Path) -> None:
    path = write(folder / "shared.parquet", draw(np.random.default_rng(10), 400, softmax))
    found = dr.evaluate(path, dr.default_policy(), changes=0, k=1)["PriorRegimeTS"]
    assert found.value is not None


def test_number_of_clicks(folder: Path) -> None:
    """All clicks count: every list is clicked at 1 and 2 here."""
    drawn = draw(np.random.default_rng(4), 3000, softmax)
    clicks = pa.array([[2, 1]] * 3000, pa.list_(pa.int16()))
    path = write(folder / "clicks.parquet", drawn, clicks=clicks)
    found = dr.evaluate(path, BEST, objective="clicks", changes=0)
    assert found.logged == 2
    assert found["rankings"].whole.estimator == "prefix"
    assert codes(found, key="dr") == ["objective"]
    assert "objective" in codes(found, key="direct")
    assert found["rankings"].low < 2 < found["rankings"].high  # type: ignore[operator]
    with pytest.raises(ValueError, match="estimator='product-limit': must be one of item-position, list, prefix"):
        dr.evaluate(path, BEST, objective="clicks", estimator="product-limit")


def test_lists_of_several_lengths(folder: Path) -> None:
    """A list that ends early is compared as far as it goes."""
    drawn = draw(np.random.default_rng(5), 4000, uniform)
    rankings = worlds.LISTS[drawn.number].tolist()
    p = drawn.propensities.tolist()
    for i in range(0, 4000, 2):  # every other list has one position
        rankings[i], p[i] = rankings[i][:1], p[i][:1]
        drawn.first[i] = 1 if drawn.first[i] == 1 else 4
    path = write(
        folder / "short.parquet", drawn,
        ranking=pa.array(rankings, pa.list_(pa.int64())), propensities=pa.array(p, pa.list_(pa.float64())),
    )  # fmt: skip
    found = dr.evaluate(path, BEST, k=3, changes=0)["rankings"]
    one = sum(s * worlds.ALPHA[q][BEST[name][0]] for q, (s, name) in enumerate(zip(worlds.SHARES, BEST, strict=True)))
    truth = (value() + one) / 2
    for key in ("dr", "prefix", "product-limit", "published", "direct"):
        estimate = found.ladder[key]
        assert estimate.low < truth < estimate.high, key  # type: ignore[operator]


def test_a_log_without_a_clock(folder: Path) -> None:
    """All lists at one time, and no users: there is no order in which users could have changed, and every list is its
    own user.
    """
    drawn = draw(np.random.default_rng(6), 3000, softmax)
    path = write(folder / "clockless.parquet", drawn, time=pa.array([5] * 3000), user=None)
    found = dr.evaluate(path, BEST)
    assert found.changes == 0
    own = dr.evaluate(write(folder / "clocked.parquet", drawn), BEST, changes=0)["rankings"]
    widths = [target.high - target.low for target in (found["rankings"], own)]  # type: ignore[operator]
    assert widths[0] == pytest.approx(widths[1], rel=0.2)
    assert found["rankings"].low < value() < found["rankings"].high  # type: ignore[operator]
    json.dumps(found.to_dict(), allow_nan=False)


def test_clicks_beyond_the_list(folder: Path) -> None:
    clicks = pa.array([[4]] * 300, pa.list_(pa.int16()))
    path = write(folder / "beyond.parquet", draw(np.random.default_rng(6), 300, softmax), clicks=clicks)
    with pytest.raises(ValueError, match="a click beyond the end of its list; see driftrank log check"):
        dr.evaluate(path, BEST, changes=0)


def test_candidates(folder: Path) -> None:
    """An item of the target that is not always there: lists without it do not count, and many of them are refused.

    Learners rank what is there, and no more.
    """
    n = 3000
    drawn = draw(np.random.default_rng(15), n, softmax)
    shown = worlds.LISTS[drawn.number]
    without = ~(shown == 2).any(axis=1) & (drawn.query == 0) & (np.arange(n) % 12 == 0)  # of the item 2 of BEST
    offered = [[a for a in range(6) if a != 2 or not gone] for gone in without.tolist()]
    everywhere: list[list[int] | None] = [list(range(6))] * (n - 2) + [None, []]

    def log(candidates: list[list[int] | None] | list[list[int]] | None, own: worlds.Drawn = drawn) -> Path:
        column = None if candidates is None else pa.array(candidates, pa.list_(pa.int32()))
        return write(folder / "candidates.parquet", own, candidates=column)

    plain = dr.evaluate(log(None), [BEST, "CascadeSoftmax"], changes=0)
    assert plain.checks["candidates"].passed is None
    always = dr.evaluate(log(everywhere), [BEST, "CascadeSoftmax"], changes=0)
    assert always.checks["candidates"].passed
    assert always["CascadeSoftmax"].value == pytest.approx(plain["CascadeSoftmax"].value)
    assert always["rankings"].value == pytest.approx(plain["rankings"].value, abs=0.002)  # in one list, it has no items
    assert always["rankings"].whole.lists == n - 1
    some = dr.evaluate(log(offered), [BEST, "CascadeSoftmax"], changes=0)
    kept = worlds.Drawn(*(column[~without] for column in drawn))
    alone = dr.evaluate(log(None, kept), BEST, changes=0, estimator="prefix")["rankings"]
    assert 0 < without.sum() < 0.05 * n
    assert some["rankings"].ladder["prefix"].value == pytest.approx(alone.value)
    assert some["rankings"].whole.lists == n - without.sum()
    assert f"{without.sum()} lists are left out" in some["rankings"].notes[0]
    assert some["CascadeSoftmax"].whole.lists == n
    assert some["CascadeSoftmax"].value != plain["CascadeSoftmax"].value
    many = dr.evaluate(log([[a for a in range(6) if a != 2 or i % 9] for i in range(n)]), BEST, changes=0)
    assert codes(many) == ["candidates"]
    assert codes(many, key="direct") == ["candidates"]


# -- refusals ------------------------------------------------------------------------------------------------------


def small(folder: Path, name: str, logging: Callable[[int], np.ndarray], n: int = N, **options: object) -> Path:
    users = options.pop("users", cascade)
    return write(folder / f"{name}.parquet", draw(np.random.default_rng(7), n, logging, users), **options)  # type: ignore[arg-type]


def test_no_propensities(folder: Path) -> None:
    path = small(folder, "none", softmax, propensities=None)
    found = dr.evaluate(path, BEST, changes=0)
    assert codes(found) == ["no-propensities"]
    assert not found.answered
    model = found["rankings"].ladder["direct"]  # by the click model, which holds here
    assert model.grade == "C"
    assert model.low < value() < model.high  # type: ignore[operator]
    asked = dr.evaluate(path, BEST, estimator="direct", changes=0)["rankings"]
    assert asked.value == model.value
    some = [None if i % 50 == 0 else [0.1, 0.1, 0.1] for i in range(N)]
    missing = small(folder, "some", softmax, propensities=pa.array(some, pa.list_(pa.float64())))
    assert "no-propensities" in codes(dr.evaluate(missing, BEST, changes=0))


def test_the_holdout_of_a_service_is_left_out(folder: Path) -> None:
    """Its lists have no propensities; a coin chose them, so the others are as good as all."""
    rng = np.random.default_rng(5)
    drawn, held = draw(rng, 4000, softmax), rng.random(4000) < 0.2
    given = pa.array([None if h else p for h, p in zip(held, drawn.propensities.tolist(), strict=True)])
    arm = pa.array(np.where(held, "holdout", "live"))
    log = write(folder / "service.parquet", drawn, propensities=given, arm=arm)
    found = dr.evaluate(log, BEST, changes=0)
    assert found.lists == (~held).sum()
    assert found["rankings"].grade == "B"
    live = write(folder / "live.parquet", worlds.Drawn(*(part[~held] for part in drawn)), users=np.flatnonzero(~held))
    assert found["rankings"].value == pytest.approx(dr.evaluate(live, BEST, changes=0)["rankings"].value)
    other = write(folder / "other.parquet", drawn, propensities=given, arm=pa.array(np.where(held, "b", "live")))
    assert [refusal.code for refusal in dr.evaluate(other, BEST)["rankings"].refused] == ["no-propensities"]


def test_fixed_logging(folder: Path) -> None:
    """Whatever the column says: also propensities that claim that lists were random."""
    path = small(folder, "fixed", fixed)
    found = dr.evaluate(path, BEST, changes=0)
    assert "fixed-logging" in codes(found)
    assert "same list" in found["rankings"].refused[0].text
    # what is missing, and how many lists would do if it stood below the others
    assert found["rankings"].notes[0] == "Never shown: 2 for 'lamps'."
    exploring = found["rankings"].exploring
    assert exploring is not None
    assert (exploring.unseen, 1000 < exploring.lists < 1_000_000) == (True, True)
    claims = pa.array([[1 / 6, 1 / 5, 1 / 4]] * N, pa.list_(pa.float64()))
    claimed = dr.evaluate(small(folder, "claims", fixed, propensities=claims), BEST, changes=0)
    assert {"fixed-logging", "wrong-propensities"} <= set(codes(claimed))
    direct = found["rankings"].ladder["direct"]
    assert direct.grade == "D"
    assert direct.value is None
    assert direct.bounds is not None
    assert direct.bounds[0] <= value() <= direct.bounds[1]
    # the same for the items that were shown, in another order: a position test is not possible
    assert "model-misfit" in codes(dr.evaluate(path, {"lamps": [3, 0, 1]}, changes=0), key="direct")


def test_too_few_lists(folder: Path) -> None:
    """Below 100 effective lists only the exact interval is given, below 30 none."""
    none = dr.evaluate(small(folder, "few", uniform, 500), BEST, changes=0)
    assert codes(none) == ["few"]
    refusal = none["rankings"].refused[0]
    assert refusal.needs is not None
    assert 100 / none["rankings"].ess * 500 == pytest.approx(refusal.needs, abs=1)
    exploring = none["rankings"].exploring
    assert exploring is not None
    assert 1000 < exploring.lists < 100_000
    some = dr.evaluate(small(folder, "thin", uniform, 3500), BEST, changes=0)["rankings"]
    assert 30 < some.ess < 100
    assert some.whole.interval == "empirical-bernstein"
    assert some.difference is None  # its interval would be a normal one
    assert some.windows is not None
    assert np.isnan(some.windows).all()
    assert some.low < value() < some.high  # type: ignore[operator]


def test_too_few_clicks(folder: Path) -> None:
    """Lists that suffice, and a click on one in a hundred: normal intervals would miss the truth once in six."""
    drawn = draw(np.random.default_rng(31), N, softmax)
    drawn.first[np.arange(N) % 60 > 0] = 4
    found = dr.evaluate(write(folder / "rare.parquet", drawn), BEST, changes=0)["rankings"]
    assert found.ess > 500
    assert found.whole.interval == "empirical-bernstein"
    assert found.difference is None
    assert [r.code for r in found.ladder["list"].refused] == ["few"]
    assert "clicks' worth of evidence" in found.ladder["list"].refused[0].text
    assert found.ladder["list"].refused[0].needs > N  # type: ignore[operator]
    always = dr.evaluate(folder / "rare.parquet", BEST, changes=0, interval="always-valid")["rankings"]
    assert [r.code for r in always.refused] == ["few"]
    assert always.ladder["direct"].grade in ("C", "D")
    drawn.first[:] = 4
    none = dr.evaluate(write(folder / "silent.parquet", drawn), BEST, changes=0)["rankings"]
    assert none.whole.interval == "empirical-bernstein"  # and not 0 with an interval of no width
    assert none.high > 0.01  # type: ignore[operator]
    assert none.ladder["direct"].value is None


def test_no_overlap(folder: Path) -> None:
    """Lists that were never shown, in one query of two."""
    half = small(folder, "half", lambda q: softmax(q) if q == 0 else fixed(q))
    found = dr.evaluate(half, BEST, changes=0)
    assert "no-overlap" in codes(found)
    assert "'shoes'" in found["rankings"].refused[-1].text
    assert codes(dr.evaluate(half, {"lamps": BEST["lamps"]}, changes=0)) == []


@pytest.mark.parametrize("clock", [False, True])
def test_overlap_from_some_time_on(folder: Path, clock: bool) -> None:
    """Everybody saw one list at first: the refusal says from when on the log has an answer, and it has one."""
    rng = np.random.default_rng(17)
    parts = [draw(rng, 3000, fixed), draw(rng, 9000, uniform)]
    drawn = worlds.Drawn(*(np.concatenate(both) for both in zip(*parts, strict=True)))
    start = np.datetime64("2026-01-01T00:00:00", "s")
    time = {"time": pa.array(start + 60 * np.arange(12_000))} if clock else {}
    path = write(folder / f"later-{clock}.parquet", drawn, **time)
    found = dr.evaluate(path, BEST, changes=0)["rankings"]
    assert [refusal.code for refusal in found.refused] == ["no-overlap"]
    [said] = [note.split("--since '")[1].split("'")[0] for note in found.notes if "--since" in note]
    if clock:
        assert np.datetime64(said) <= start + 60 * 3600  # no later than the window after the change
    later = dr.evaluate(path, BEST, changes=0, since=said if clock else int(said))["rankings"]
    assert later.low < value() < later.high  # type: ignore[operator]
    never = dr.evaluate(small(folder, "half", lambda q: softmax(q) if q == 0 else fixed(q)), BEST, changes=0)
    assert not [note for note in never["rankings"].notes if "--since" in note]


def test_wrong_propensities(folder: Path) -> None:
    said = pa.array([[1 / 6, 1 / 5, 1 / 4]] * N, pa.list_(pa.float64()))
    found = dr.evaluate(small(folder, "wrong", softmax, propensities=said), BEST, changes=0)
    assert "wrong-propensities" in codes(found)
    marginal = pa.array([[1 / 6] * 3] * N, pa.list_(pa.float64()))
    path = small(folder, "marginal", uniform, propensities=marginal)
    assert "wrong-propensities" in codes(dr.evaluate(path, BEST, changes=0))
    marked = dr.evaluate(path, BEST, changes=0, propensities="marginal")
    assert codes(marked) == ["marginal-propensities"]


def test_propensities_of_whole_lists(folder: Path) -> None:
    """One number per list: whole lists can be compared, prefixes not."""
    drawn = draw(np.random.default_rng(8), N, softmax)
    whole = pa.array(drawn.propensities.prod(axis=1)[:, None].tolist(), pa.list_(pa.float64()))
    path = write(folder / "whole.parquet", drawn, propensities=whole)
    found = dr.evaluate(path, BEST, changes=0, propensities="list", estimator="list")
    assert codes(found) == []
    assert codes(found, key="dr") == ["list-propensities"]
    other = dr.evaluate(write(folder / "each.parquet", drawn), BEST, changes=0, estimator="list")
    assert found["rankings"].value == pytest.approx(other["rankings"].value)
    assert found["rankings"].low == pytest.approx(other["rankings"].low)


def test_propensities_of_items_at_positions(folder: Path) -> None:
    """Marginal ones tell the value for users whose clicks depend on item and position, and for no others."""
    rng = np.random.default_rng(21)
    drawn = draw(rng, 20_000, softmax)
    items = worlds.LISTS[drawn.number]
    places = worlds.marginal(drawn, softmax)
    depth = np.array([1.0, 0.6, 0.4])
    clicked = rng.random(items.shape) < worlds.ALPHA[drawn.query[:, None], items] * depth
    clicks = pa.array([(np.flatnonzero(row) + 1).tolist() for row in clicked], pa.list_(pa.int16()))
    propensities = pa.array(places.tolist(), pa.list_(pa.float64()))
    best = np.array([BEST[query] for query in worlds.QUERIES])
    truth = sum(s * a[own] @ depth for s, a, own in zip(worlds.SHARES, worlds.ALPHA, best, strict=True))
    path = write(folder / "places.parquet", drawn, clicks=clicks, propensities=propensities)
    how = {"changes": 0, "propensities": "marginal", "estimator": "item-position"}
    found = dr.evaluate(path, [BEST, "Random"], objective="clicks", **how)  # type: ignore[arg-type]
    target = found["rankings"]
    assert target.low < truth < target.high  # type: ignore[operator]
    assert target.high - target.low < 0.1  # type: ignore[operator]
    here = items == best[drawn.query]
    assert target.value == pytest.approx((here / places * clicked).sum(axis=1).mean())
    assert target.whole.mean_weight == pytest.approx((here / places).mean())
    uniformly = sum(s * a.mean() for s, a in zip(worlds.SHARES, worlds.ALPHA, strict=True)) * depth.sum()
    assert found["Random"].low < uniformly < found["Random"].high  # type: ignore[operator]
    assert codes(found, key="prefix") == ["marginal-propensities"]
    # the first of several clicks depends on the items above, as all clicks of users who stop do
    assert codes(dr.evaluate(path, BEST, **how)) == ["not-by-position"]  # type: ignore[arg-type]
    cascading = write(folder / "cascading.parquet", drawn, propensities=propensities)
    assert codes(dr.evaluate(cascading, BEST, **how)) == ["not-by-position"]  # type: ignore[arg-type]
    wrong = pa.array((places[:, ::-1]).tolist(), pa.list_(pa.float64()))
    said = write(folder / "said.parquet", drawn, clicks=clicks, propensities=wrong)
    other = dr.evaluate(said, BEST, objective="clicks", **how)  # type: ignore[arg-type]
    assert codes(other)[0] == "wrong-propensities"
    usual = dr.evaluate(small(folder, "usual", uniform), BEST, changes=0, estimator="item-position")
    assert codes(usual) == ["conditional-propensities"]
    assert "item-position" not in usual["rankings"].ladder  # which logs hardly ever have


def test_users_who_do_not_read_from_the_top(folder: Path) -> None:
    """Methods by prefix would be off by .04; whole lists are compared instead."""
    path = small(folder, "choice", uniform, 60_000, users=choice)
    found = dr.evaluate(path, BEST, changes=0)
    target = found["rankings"]
    assert "not-top-down" in codes(found, key="dr")
    assert target.whole.estimator == "self-normalised"
    assert target.low < value(choice) < target.high  # type: ignore[operator]
    assert target.notes


def test_users_of_two_kinds(folder: Path) -> None:
    """Reading from the top holds, the click model does not: no value by the model."""
    path = small(folder, "mixed", softmax, 20_000, users=mixed)
    found = dr.evaluate(path, BEST, changes=0)
    assert found["rankings"].low < value(mixed) < found["rankings"].high  # type: ignore[operator]
    assert "model-misfit" in codes(found, key="direct")
    assert found["rankings"].ladder["direct"].grade == "D"


def test_a_refused_number_is_nowhere(folder: Path) -> None:
    found = dr.evaluate(small(folder, "few-again", uniform, 400), BEST, changes=0)
    target = json.loads(json.dumps(found.to_dict()))["targets"][0]
    for where in (target["whole"], target["now"], *target["ladder"]):
        if where["refused"]:
            assert where["value"] is None
            assert where["low"] is None
    assert target["difference"] is None
    assert target["windows"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "sat"}, "objective='sat'"),
        ({"interval": "betting"}, "interval='betting'"),
        ({"estimator": "drs"}, "unknown estimator 'drs'; did you mean dr?"),
        ({"level": 1.0}, "level=1.0"),
        ({"k": 0}, "k=0"),
        ({"windows": 0}, "windows=0"),
        ({"changes": -1}, "changes=-1"),
        ({"propensities": "joint"}, "propensities='joint'"),
        ({"value_of": "dream"}, "value_of='dream'"),
        ({"against": "nobody"}, "unknown target 'nobody'"),
        ({"since": "7d"}, r"since='7d': must be a number, as the times of .* \(0 to 5999\), whose unit is not known"),
        ({"since": "tuesday"}, "since='tuesday': must be a number, as the times of"),
        ({"since": 10**6}, "since=1000000: must be at most the last time of .*, 5999"),
        ({"targets": []}, "targets"),
        ({"targets": ["best-now", "best-now"]}, "best-now occurs twice"),
        ({"targets": "CascadeUBC1"}, "did you mean CascadeUCB1"),
        ({"targets": "nowhere.json"}, "nowhere.json: no such file"),
        ({"targets": {"lamps": []}}, "at least one item"),
        ({"targets": {"lamps": [1, 1]}}, "occurs twice"),
        ({"targets": {"lamps": ["x"]}}, "'x' must be an integer"),
        ({"targets": {"hats": [1, 2]}}, "rankings: has no ranking for any query"),
        ({"targets": "OracleRestart:base=CascadeUCB1"}, "must not be an oracle"),
        ({"targets": "CascadeLinUCB"}, "must not need features"),
    ],
)
def test_wrong_input(log: Path, options: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"targets": BEST, "changes": 0} | options
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        dr.evaluate(log, given.pop("targets"), **given)  # type: ignore[arg-type]
