"""Estimators against their plain versions, exact moments by enumeration, and oracle values.

World: three items of attraction .5, .3, .1, two positions. Oracle values: EVALUATION, computed by enumerating all lists
and first clicks (six lists, three outcomes).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from driftrank.evaluation.base import Batch, Estimator, Floats, known_estimators
from tests.reference import evaluation as reference
from tests.reference.evaluation import Logged, Target, World

ALPHA = (0.5, 0.3, 0.1)
WRONG = (0.4, 0.4, 0.2)
TARGETS = {"D": reference.fixed((0, 1)), "P": reference.plackett_luce((3, 2, 1))}
LOGGING = {"U": reference.plackett_luce((1, 1, 1)), "S": reference.plackett_luce((1, 2, 1))}
CASCADE = World(3, 2, reference.cascade(ALPHA))
CHOICE = World(3, 2, reference.choice(ALPHA))
#: several positions, and lists whose items are not in order
LARGE = World(5, 3, reference.cascade((0.15, 0.4, 0.05, 0.3, 0.22)))
POSITION = World(3, 2, reference.position_based(ALPHA))


def batch(
    rows: Sequence[Logged], world: World, target: Target, hazards: Sequence[float], model: float = 0.0,
    logging: Target | None = None,
) -> Batch:  # fmt: skip
    """The rows for the estimators; with ``logging`` also for those by position."""
    K = world.K
    place = None
    if logging is not None:
        shares = [
            [[reference.at_position(world.items, K, k, a, policy) for policy in (target, logging)] for a in world.items]
            for k in range(1, K + 1)
        ]
        place = np.array([[np.divide(*shares[k][a]) for k, a in enumerate(row.items)] for row in rows])
    rest = [
        [reference.no_click_below(row.items[:k], K, world.items, target, lambda a: hazards[a]) for k in range(K + 1)]
        for row in rows
    ]
    first = np.array([K + 1 if row.first is None else row.first for row in rows])
    return Batch(
        first=first,
        weight=np.array([reference.weights(row, target) for row in rows]),
        hazard=np.array([[hazards[a] for a in row.items] for row in rows]),
        rest=np.array(rest),
        model=np.full(len(rows), model),
        clicked=first[:, None] == np.arange(1, K + 1),
        place=place,
    )


def moments(
    estimator: Estimator, world: World, target: Target, logging: Target, hazards: Sequence[float]
) -> tuple[float, float]:
    """Mean and variance of one row, exactly."""
    chances, rows = zip(*world.outcomes(logging), strict=True)
    psi = estimator.columns(batch(rows, world, target, hazards, logging=logging))[:, 0]
    mean = float(np.dot(chances, psi))
    return mean, float(np.dot(chances, (psi - mean) ** 2))


UNBIASED = ("list", "prefix", "dr", "published")


@pytest.mark.parametrize("logging", LOGGING)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", UNBIASED)
def test_exactly_unbiased(key: str, target: str, logging: str) -> None:
    """Whatever the hazards, under users who read from the top; list by list also under users who do not."""
    estimator = known_estimators()[key]
    for hazards in (ALPHA, WRONG, (0.0, 0.0, 0.0), (0.9, 0.05, 0.6)):
        mean, _ = moments(estimator, CASCADE, TARGETS[target], LOGGING[logging], hazards)
        assert mean == pytest.approx(CASCADE.value(TARGETS[target]), abs=1e-12)
        if estimator.assumes == "A0":
            mean, _ = moments(estimator, CHOICE, TARGETS[target], LOGGING[logging], hazards)
            assert mean == pytest.approx(CHOICE.value(TARGETS[target]), abs=1e-12)


@pytest.mark.parametrize("key", UNBIASED)
@pytest.mark.parametrize("ranking", [(1, 3, 4), (2, 0, 1)])
def test_exactly_unbiased_with_three_positions(key: str, ranking: tuple[int, ...]) -> None:
    logging = reference.plackett_luce((1.0, 2.0, 0.5, 3.0, 0.25))
    target = reference.fixed(ranking)
    mean, _ = moments(known_estimators()[key], LARGE, target, logging, (0.3, 0.1, 0.7, 0.2, 0.2))
    assert mean == pytest.approx(LARGE.value(target), abs=1e-12)


@pytest.mark.parametrize(
    ("key", "hazards", "variances"),
    [
        ("item-position", WRONG, (1.6259, 2.1259, 0.375551222, 0.470774417)),
        ("list", WRONG, (3.4775, 3.4775, 0.489084889, 0.527362667)),
        ("prefix", WRONG, (1.9775, 2.4775, 0.422084889, 0.507140444)),
        ("dr", WRONG, (1.0127, 1.1303, 0.306301556, 0.333082667)),
        ("published", WRONG, (1.0895, 1.1815, 0.321644889, 0.343153333)),
        ("dr", ALPHA, (0.9975, 1.12, 0.302221333, 0.329648444)),
        ("published", ALPHA, (1.065, 1.165, 0.316247667, 0.338739333)),
    ],
)
def test_variances(key: str, hazards: Sequence[float], variances: Sequence[float]) -> None:
    pairs = [(t, g) for t in TARGETS for g in LOGGING]
    found = [moments(known_estimators()[key], CASCADE, TARGETS[t], LOGGING[g], hazards)[1] for t, g in pairs]
    assert found == pytest.approx(list(variances), abs=5e-10)


@pytest.mark.parametrize("logging", LOGGING)
@pytest.mark.parametrize("target", TARGETS)
def test_by_position(target: str, logging: str) -> None:
    """Exact for users whose clicks depend on item and position, and off by a known amount for those of a cascade."""
    item_position = known_estimators()["item-position"]
    mean, _ = moments(item_position, POSITION, TARGETS[target], LOGGING[logging], WRONG)
    assert mean == pytest.approx(POSITION.value(TARGETS[target]), abs=1e-12)
    biased = {"DU": 0.71, "DS": 0.71, "PU": 0.605666667, "PS": 0.598166667}
    mean, _ = moments(item_position, CASCADE, TARGETS[target], LOGGING[logging], WRONG)
    assert mean == pytest.approx(biased[target + logging], abs=5e-10)


def test_values() -> None:
    """Of both targets and both logging policies, for both kinds of users."""
    values = {"D": 0.65, "P": 0.581333333, "U": 0.523333333, "S": 0.516666667}
    for name, expected in values.items():
        assert CASCADE.value((TARGETS | LOGGING)[name]) == pytest.approx(expected, abs=5e-10)
    assert CHOICE.value(TARGETS["D"]) == pytest.approx(0.588235294, abs=5e-10)
    assert CHOICE.value(TARGETS["P"]) == pytest.approx(0.536065452, abs=5e-10)


@pytest.mark.parametrize(("target", "value"), [("D", 0.64), ("P", 0.59)])
def test_a_wrong_click_model_is_off(target: str, value: float) -> None:
    """The direct method has the model's value, here with the hazards .4, .4, .2, whatever was clicked."""
    chances, rows = zip(*CASCADE.outcomes(LOGGING["U"]), strict=True)
    model = 1 - reference.no_click_below((), 2, CASCADE.items, TARGETS[target], lambda a: WRONG[a])
    columns = known_estimators()["direct"].columns(batch(rows, CASCADE, TARGETS[target], WRONG, model))
    assert np.dot(chances, columns[:, 0]) == pytest.approx(value, abs=1e-12)


def test_bias_if_users_do_not_read_from_the_top() -> None:
    """By how much, for users who choose from the whole list."""
    biased = {
        ("prefix", ALPHA): 0.619195046, ("published", ALPHA): 0.619195046, ("published", WRONG): 0.619195046,
        ("dr", ALPHA): 0.609907121, ("dr", WRONG): 0.606811146, ("item-position", WRONG): 0.670135010,
    }  # fmt: skip
    for (key, hazards), expected in biased.items():
        mean, _ = moments(known_estimators()[key], CHOICE, TARGETS["D"], LOGGING["U"], hazards)
        assert mean == pytest.approx(expected, abs=5e-10)


SIX = [((0, 1), 1), ((0, 2), None), ((0, 1), None), ((1, 0), 2), ((2, 0), None), ((0, 1), 2)]
ROWS = [Logged(items, first, (1 / 3, 1 / 2)) for items, first in SIX]


def test_a_log_of_six_lists() -> None:
    given = batch(ROWS, CASCADE, TARGETS["D"], WRONG, reference.direct(ROWS, (0, 1)), LOGGING["U"])
    columns = {key: estimator.columns(given) for key, estimator in known_estimators().items()}
    assert columns["list"][:, 0].tolist() == pytest.approx([6, 0, 0, 0, 0, 6])
    assert columns["prefix"][:, 0].tolist() == pytest.approx([3, 0, 0, 0, 0, 6])
    assert columns["dr"][:, 0].tolist() == pytest.approx([1.72, -0.08, -2.48, 0.64, 0.64, 3.52])
    assert columns["published"][:, 0].tolist() == pytest.approx([1, -0.56, -2, 0.64, 0.64, 4])
    values = {key: value_of(known_estimators()[key], columns[key]) for key in columns}
    assert values == pytest.approx(
        {
            "item-position": 1.0, "list": 2.0, "self-normalised": 2 / 3, "prefix": 1.5, "product-limit": 0.625,
            "dr": 0.66, "published": 0.62, "direct": 1 - (2 / 3) ** 2,
        }
    )  # fmt: skip
    assert columns["dr"].std(ddof=1) / np.sqrt(6) == pytest.approx(0.810580039, abs=5e-10)
    prefix = given.weight[:, 1:]
    assert prefix.mean(axis=0).tolist() == pytest.approx([2, 3])
    assert (prefix.sum(axis=0) ** 2 / (prefix**2).sum(axis=0)).tolist() == pytest.approx([4, 3])


def test_greenwood() -> None:
    """Of the six lists: the error of the product-limit estimator by its influence is that of survival analysis."""
    product_limit = known_estimators()["product-limit"]
    columns = product_limit.columns(batch(ROWS, CASCADE, TARGETS["D"], WRONG))
    totals, step = columns.mean(axis=0), 1e-6
    influence = (product_limit.value(totals + step * (columns - totals), np.ones(1)) - 0.625) / step
    assert np.sqrt((influence**2).sum()) / 6 == pytest.approx(0.286410981, rel=1e-5)


def value_of(estimator: Estimator, columns: Floats) -> float:
    return float(estimator.value(columns.sum(axis=0), np.array(float(len(columns)))))


Row = Callable[[Logged, Target, Callable[[int], float]], float]
PLAIN: dict[str, Row] = {
    "list": lambda row, target, model: reference.list_ips(row, target),
    "prefix": lambda row, target, model: reference.prefix_ips(row, target),
    "dr": lambda row, target, model: reference.stopping_dr(row, LARGE.items, target, model),
    "published": lambda row, target, model: reference.published_dr(row, LARGE.items, target, model),
}


@pytest.mark.parametrize("target", [reference.fixed((3, 1, 0)), reference.plackett_luce((1, 5, 1, 2, 3))])
def test_as_the_plain_versions(target: Target) -> None:
    hazards = (0.3, 0.35, 0.1, 0.2, 0.2)
    logging = reference.plackett_luce((1.0, 2.0, 0.5, 3.0, 0.25))
    rows = [row for _, row in LARGE.outcomes(logging)]
    given = batch(rows, LARGE, target, hazards, logging=logging)
    by_position = [reference.item_position_ips(row, LARGE.items, target, logging) for row in rows]
    found = known_estimators()["item-position"].columns(given)[:, 0].tolist()
    assert found == pytest.approx(by_position, abs=1e-12)
    for key, plain in PLAIN.items():
        expected = [plain(row, target, lambda a: hazards[a]) for row in rows]
        assert known_estimators()[key].columns(given)[:, 0].tolist() == pytest.approx(expected, abs=1e-12)
    value = value_of(known_estimators()["product-limit"], known_estimators()["product-limit"].columns(given))
    assert value == pytest.approx(reference.product_limit(rows, target), abs=1e-12)


def test_product_limit_is_as_precise_as_the_right_model() -> None:
    """Its influence has the variance of the doubly robust rows with true hazards; Greenwood's for equal weights."""
    variance = 0.35**2 * (3 * 0.5 / 0.5 + 6 * 0.5 * 0.3 / 0.7 / 0.25)
    assert variance == pytest.approx(moments(known_estimators()["dr"], CASCADE, TARGETS["D"], LOGGING["U"], ALPHA)[1])
    product_limit = known_estimators()["product-limit"]
    chances, rows = zip(*CASCADE.outcomes(LOGGING["U"]), strict=True)
    columns = product_limit.columns(batch(rows, CASCADE, TARGETS["D"], ALPHA))
    totals = np.array(chances) @ columns
    step = 1e-6
    influence = (product_limit.value(totals + step * (columns - totals), np.ones(1)) - 0.65) / step
    assert np.dot(chances, influence**2) == pytest.approx(variance, rel=1e-4)


def test_identities() -> None:
    target, logging = TARGETS["P"], LOGGING["U"]
    chances, rows = zip(*CASCADE.outcomes(logging), strict=True)
    none = batch(rows, CASCADE, target, (0, 0, 0))
    assert np.allclose(known_estimators()["dr"].columns(none), known_estimators()["prefix"].columns(none))
    same = batch(rows, CASCADE, logging, WRONG)
    for key in ("list", "prefix"):
        assert np.allclose(known_estimators()[key].columns(same)[:, 0], same.reward)
    assert np.allclose(same.stopped, 1)
    assert np.dot(chances, batch(rows, CASCADE, target, WRONG).stopped) == pytest.approx(1)
    short = World(3, 1, reference.cascade(ALPHA))
    rows = [row for _, row in short.outcomes(LOGGING["S"])]
    top = batch(rows, short, TARGETS["P"], WRONG, logging=LOGGING["S"])
    for key in ("prefix", "item-position"):
        assert np.allclose(known_estimators()["list"].columns(top), known_estimators()[key].columns(top))
    fixed = reference.fixed((2, 0))
    only = [row for _, row in CASCADE.outcomes(fixed)]
    own = batch(only, CASCADE, fixed, WRONG)
    assert np.allclose(known_estimators()["dr"].columns(own)[:, 0], own.reward)


def test_names_of_items_do_not_matter() -> None:
    """The items 0, 1, 2 are now 2, 0, 1: every row has the same number."""
    new = (2, 0, 1)
    rows = [row for _, row in CASCADE.outcomes(LOGGING["S"])]
    renamed = [row._replace(items=tuple(new[a] for a in row.items)) for row in rows]
    one = batch(rows, CASCADE, reference.plackett_luce((3, 2, 1)), WRONG, 0.5, LOGGING["S"])
    again = reference.plackett_luce((2, 1, 1))
    other = batch(renamed, CASCADE, reference.plackett_luce((2, 1, 3)), (0.4, 0.2, 0.4), 0.5, again)
    for estimator in known_estimators().values():
        assert np.allclose(estimator.columns(one), estimator.columns(other))


def test_several_lists_in_a_row() -> None:
    """Lists of the same first click and items count as many, if their weights are summed."""
    one = batch(ROWS, CASCADE, TARGETS["D"], WRONG, 0.5, LOGGING["U"])
    assert one.place is not None
    twice = dataclasses.replace(one, weight=2 * one.weight, place=2 * one.place)
    for estimator in known_estimators().values():
        assert np.allclose(estimator.columns(twice), 2 * estimator.columns(one))


def test_all_clicks_count_for_the_number_of_clicks() -> None:
    given = Batch(
        np.array([1, 3]), np.array([[1.0, 2, 4], [1, 2, 4]]), np.zeros((2, 2)), np.ones((2, 3)), np.zeros(2),
        np.array([[True, True], [False, False]]), "clicks",
    )  # fmt: skip
    assert known_estimators()["prefix"].columns(given)[:, 0].tolist() == [6, 0]
    assert known_estimators()["list"].columns(given)[:, 0].tolist() == [8, 0]
