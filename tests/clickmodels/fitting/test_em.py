"""Estimates of click models: closed forms, EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrank.clickmodels import CCM, CM, DBN, DCM, PBM, SDBN, UBM, ClickModel, click_models
from driftrank.clickmodels.fitting import em as em_module
from driftrank.clickmodels.fitting.counts import ListCounts, Pairs, PositionCounts
from driftrank.clickmodels.fitting.em import FitOptions, blocks_of, run_em
from driftrank.clickmodels.fitting.examination_em import PositionData
from tests.clickmodels.generated import World, list_counts, position_counts
from tests.quick import others_are_slow
from tests.reference import em as plain

MODELS = list(click_models().values())
BY_EM = [DCM, SDBN, DBN, CCM, PBM, UBM]


def log_of(*shown: tuple[str, str], times: int = 1) -> ListCounts:
    """A log of one query: lists such as "abc" with clicks such as "010"."""
    names = sorted({item for items, _ in shown for item in items})
    pairs = Pairs(np.array(["q"]), np.zeros(len(names), np.int32), np.array(names))
    K = max(len(items) for items, _ in shown)
    slots = [[names.index(item) for item in items] + [-1] * (K - len(items)) for items, _ in shown]
    mask = [sum(int(c) << k for k, c in enumerate(clicks)) for _, clicks in shown]
    return ListCounts(pairs, np.array(slots, np.int32), np.array(mask), np.full(len(shown), times))


def counts_for(cls: type[ClickModel], lists: ListCounts) -> PositionCounts | ListCounts:
    return lists if cls.counts_for(exact=True) == "lists" else position_counts(lists)


THREE = log_of(("abc", "010"), ("abc", "000"), ("abc", "100"))


def test_cascade_model_by_hand() -> None:
    fit = CM.fit(position_counts(THREE), prior=(0, 0))
    assert fit.attraction == pytest.approx([1 / 3, 1 / 2, 0])
    assert CM.fit(position_counts(THREE), prior=(1, 2)).attraction == pytest.approx([0.4, 0.5, 1 / 3])
    # by default two views with the click rate of all, 2 of 9
    learnt = CM.fit(position_counts(THREE))
    assert learnt.prior == pytest.approx((4 / 9, 2))
    assert learnt.attraction == pytest.approx([13 / 45, 13 / 36, 4 / 27])
    assert fit.views.tolist() == [3, 3, 3]
    assert fit.converged
    assert fit.low["attraction"][2] == 0
    assert fit.high["attraction"][2] == pytest.approx(3.8415 / (1 + 3.8415), abs=1e-4)  # Wilson, 0 of 1


def test_closed_forms_of_dcm_and_sdbn_by_hand() -> None:
    """abcd with clicks 1010, 0000, 0100: to the last click a is seen 3 times, b 3, c 2, d 1."""
    counts = position_counts(log_of(("abcd", "1010"), ("abcd", "0000"), ("abcd", "0100")))
    dcm = DCM.fit(counts, prior=(0, 0))
    assert dcm.attraction == pytest.approx([1 / 3, 1 / 3, 1 / 2, 0])
    assert dcm.parameters["stop_after_click"][0] == pytest.approx([0, 1, 1, 0.5])  # nothing is known of the last rank
    sdbn = SDBN.fit(counts, prior=(0, 0))
    assert sdbn.attraction == pytest.approx([1 / 3, 1 / 3, 1 / 2, 0])
    assert sdbn.parameters["satisfaction"] == pytest.approx([0, 1, 1, 0.5])
    assert SDBN.fit(counts).parameters["satisfaction"] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1 / 2])


@pytest.mark.parametrize(("prior", "kappa", "alpha"), [((0, 0), 0.6, 2 / 3), ((1, 2), 7 / 12, 5 / 8)])
def test_one_step_of_examination_by_hand(prior: Any, kappa: float, alpha: float) -> None:
    """10 views and 4 clicks at rank 2, from 1/2 and 1/2: of 6 without a click, 2 were read."""
    pairs = Pairs(np.array(["q"]), np.zeros(1, np.int32), np.array(["a"]))
    n, c = np.array([10]), np.array([4])
    counts = PositionCounts(pairs, np.array([0]), np.array([2]), np.array([0]), n, c, n, c)
    rows = PositionData(counts, counts.rank - 1, 2, per_query=False)
    held = np.array([False, True, False])
    options = FitOptions(prior=prior, max_iterations=1)
    priors = np.full(3, float(prior[0])), np.full(3, float(prior[1]))
    blocks = blocks_of(pairs.query, 1, 1, 2, False)
    result = run_em(rows.expect, np.array([0.5, 1.0, 0.5]), held, blocks, priors, options)
    assert result.theta == pytest.approx([alpha, 1.0, kappa])
    assert not result.converged
    # the usual form of the step treats attraction like examination, and gives the same fixed points
    sessions = [("q", "ba", (0, click)) for click in [1] * 4 + [0] * 6]
    old_alpha, old_kappa = plain.fit_pbm(sessions, prior=prior or (1e-300, 1e-300), iterations=1)
    assert old_alpha["q", "a"] == pytest.approx(kappa)
    assert old_kappa[2] == pytest.approx(kappa)


@pytest.mark.parametrize("cls", others_are_slow(BY_EM, [CCM, DBN]))
def test_the_likelihood_never_falls(cls: type[ClickModel]) -> None:
    @settings(max_examples=40)
    @given(
        data=st.lists(
            st.tuples(st.integers(0, 1), st.permutations(range(4)), st.integers(0, 15)), min_size=1, max_size=40
        ),
        length=st.integers(2, 4),
        prior=st.sampled_from([(0, 0), (1, 2), (0.5, 0.5), (0, 3)]),
        per_query=st.booleans(),
    )
    def check(data: Any, length: int, prior: Any, per_query: bool) -> None:
        sessions = [
            (np.array([items[:length] for q, items, _ in data if q == own], np.int64).reshape(-1, length),
             np.array([mask % 2**length for q, _, mask in data if q == own], np.int64))
            for own in (0, 1)
        ]  # fmt: skip
        counts = counts_for(cls, list_counts(sessions, 4))
        fit = cls.fit(counts, prior=prior, per_query=per_query, max_iterations=300)
        trace = np.array(fit.trace)
        assert np.isfinite(trace).all()
        assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()
        for name, value in {"attraction": fit.attraction, **fit.parameters}.items():
            assert ((value >= 0) & (value <= 1)).all(), name
            assert (fit.low[name] <= value + 2e-6).all(), name
            assert (value <= fit.high[name] + 2e-6).all(), name
            assert ((fit.low[name] >= 0) & (fit.high[name] <= 1)).all(), name

    check()


@pytest.mark.parametrize("cls", [PBM, UBM, DBN])
@pytest.mark.parametrize("prior", [(1, 2), (0.5, 4)])
def test_equal_to_the_plain_loop(cls: type[ClickModel], prior: Any) -> None:
    world = World(cls, queries=1, L=4, K=3, lists=150, seed=3)
    counts = world.counts
    fit = cls.fit(world.fitted_to(), prior=prior, tolerance=1e-11)
    assert fit.converged
    sessions = [
        (0, items.tolist(), [int(mask) >> k & 1 for k in range(3)])
        for items, mask, n in zip(counts.slots, counts.mask, counts.lists, strict=True)
        for _ in range(n)
    ]
    function = {PBM: plain.fit_pbm, UBM: plain.fit_ubm, DBN: plain.fit_dbn}[cls]
    attraction, *others = function(sessions, prior=prior, iterations=600 if cls is DBN else 1500)
    assert fit.attraction == pytest.approx([attraction[0, item] for item in range(4)], abs=1e-5)
    if cls is DBN:
        assert fit.parameters["satisfaction"] == pytest.approx([others[0][0, item] for item in range(4)], abs=1e-5)
        assert fit.parameters["continuation"] == pytest.approx(others[1], abs=1e-5)
    else:
        for cell, value in others[0].items():
            at = (0, cell - 1) if cls is PBM else (0, cell[0] - 1, cell[1] - 1)
            assert fit.parameters["examination"][at] == pytest.approx(value, abs=1e-5)


@pytest.mark.parametrize("cls", MODELS)
def test_per_query_fits_equal_fits_of_single_queries(cls: type[ClickModel]) -> None:
    world = World(cls, queries=3, L=5, K=4, lists=400, seed=1)
    both = cls.fit(world.fitted_to(), per_query=True, prior=(1, 2))
    counts = world.counts
    for q in range(3):
        own = counts.slots[:, 0] // 5 == q
        pairs = Pairs(np.array([q]), np.zeros(5, np.int32), np.arange(5))
        alone = ListCounts(pairs, counts.slots[own] - 5 * q, counts.mask[own], counts.lists[own])
        fit = cls.fit(counts_for(cls, alone), per_query=True, prior=(1, 2))
        assert fit.attraction == pytest.approx(both.attraction[5 * q : 5 * q + 5], abs=1e-9)
        assert fit.low["attraction"] == pytest.approx(both.low["attraction"][5 * q : 5 * q + 5], abs=1e-6)
        for name, kind in cls.shape.items():
            of_all = both.parameters[name][5 * q : 5 * q + 5] if kind == "item" else both.parameters[name][[q]]
            np.testing.assert_allclose(fit.parameters[name], of_all, atol=1e-9)


@pytest.mark.parametrize("cls", BY_EM)
def test_parts_of_the_work_change_nothing(cls: type[ClickModel], monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(cls, queries=8, L=5, K=4, lists=200, seed=2)
    counts = world.fitted_to()
    whole = cls.fit(counts, tolerance=1e-9)
    monkeypatch.setattr(em_module, "_PART", 500)
    assert len(em_module.in_parts(np.arange(8), np.full(8, 700))) > 3
    parts = cls.fit(counts, tolerance=1e-9)
    assert parts.attraction == pytest.approx(whole.attraction, abs=1e-7)
    assert parts.trace[-1] == pytest.approx(whole.trace[-1], rel=1e-12)
    shuffled = np.random.default_rng(0).permutation(len(counts))
    names = [n for n in counts.__dataclass_fields__ if n != "pairs"]
    mixed = type(counts)(counts.pairs, *(getattr(counts, name)[shuffled] for name in names))
    assert cls.fit(mixed, tolerance=1e-9).attraction == pytest.approx(whole.attraction, abs=1e-7)


@pytest.mark.parametrize("cls", MODELS)
def test_what_was_never_shown_has_the_mean_of_the_prior(cls: type[ClickModel]) -> None:
    pairs = Pairs(np.array(["q", "r"]), np.array([0, 0, 0, 1], np.int32), np.array([1, 2, 3, 1]))
    both_ways = np.array([[0, 1], [1, 0]], np.int32)  # which tells positions from items
    lists = ListCounts(pairs, both_ways, np.array([1, 1]), np.array([10, 10]))
    fit = cls.fit(counts_for(cls, lists), prior=(1, 4), per_query=True)
    assert fit.attraction[2:] == pytest.approx([0.25, 0.25])
    assert fit.low["attraction"][2:].tolist() == [0, 0]
    assert fit.high["attraction"][2:].tolist() == [1, 1]
    assert fit.views.tolist() == [20, 20, 0, 0]


@pytest.mark.parametrize("cls", BY_EM)
def test_not_converged(cls: type[ClickModel]) -> None:
    world = World(cls, queries=2, L=5, K=4, lists=300)
    fit = cls.fit(world.fitted_to(), max_iterations=2)
    assert not fit.converged
    assert "not converged" in repr(fit)
    assert fit.iterations <= 5
    assert cls.fit(world.fitted_to()).converged


def test_lists_of_different_lengths() -> None:
    """Lists of one item determine its attraction; positions beyond the end of a list do not count."""
    short = log_of(("a", "1"), ("a", "0"), ("abc", "001"), ("bc", "01"), times=50)
    for cls in (DBN, CCM, DCM, SDBN, PBM, UBM):
        fit = cls.fit(counts_for(cls, short))
        assert fit.converged
        assert fit.views.tolist() == [150, 100, 100]
    assert CM.fit(position_counts(short), prior=(0, 0)).attraction == pytest.approx([1 / 3, 0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: type("_Mine", (CM,), {"statistics": ""}).fit(THREE), "_Mine: cannot be fitted, it has no statistics"),
        (lambda: DBN.fit(position_counts(THREE)), "holds counts of positions, but DBN is fitted to those of lists"),
        (lambda: CM.fit(THREE), "CM is fitted to those of ratios"),
        (lambda: CM.fit(position_counts(THREE), prior=(2, 1)), r"prior=\(2, 1\): must be \(a, b\)"),
        (lambda: CM.fit(position_counts(THREE), prior=1), "prior=1"),
        (lambda: CM.fit(position_counts(THREE), priors=(1, 2)), "did you mean prior"),
        (lambda: CM.fit(position_counts(THREE), level=1), "level=1"),
        (lambda: PBM.fit(position_counts(THREE), max_iterations=0), "max_iterations=0"),
        (lambda: DBN.fit(ListCounts(THREE.pairs, THREE.slots[:0], THREE.mask[:0], THREE.lists[:0])), "no lists"),
        (lambda: DBN.fit(ListCounts(THREE.pairs, np.array([[0, -1, 1]]), np.array([1]), np.array([1]))), "no gap"),
    ],
)  # fmt: skip
def test_bad_values(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
