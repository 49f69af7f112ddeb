from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from driftrank.environments import Abrupt

BASE = [0.05, 0.6, 0.3, 0.02, 0.5, 0.1, 0.2, 0.4, 0.15, 0.25]
TOP = {1, 4, 7}


@pytest.fixture(scope="module")
def environment():
    return Abrupt({"q": BASE}, k=3)


def boosted(environment, t, **where):
    """The items whose attraction is not the default."""
    query = where.get("query", 0)
    base = environment.queries[environment.names[query]]
    return tuple(np.flatnonzero(environment.attraction(t, **where) != base).tolist())


def test_the_papers_ten_epochs(environment):
    assert environment.breakpoints(100_000) == [10_000 * n for n in range(1, 10)]
    starts, alphas, optimal = environment.stretches(100_000)
    assert starts.tolist() == [10_000 * n + 1 for n in range(10)]
    for epoch in range(10):
        changed = np.flatnonzero(alphas[epoch] != BASE)
        if epoch % 2 == 0:  # the first is the default one
            assert len(changed) == 0
            assert optimal[epoch] == pytest.approx(1 - 0.4 * 0.5 * 0.6)
        else:
            assert len(changed) == 3
            assert not TOP & set(changed)
            assert (alphas[epoch, changed] == 0.9).all()
            assert optimal[epoch] == pytest.approx(0.999)


def test_the_first_and_last_step_of_an_epoch(environment):
    assert boosted(environment, 10_000) == ()
    assert len(boosted(environment, 10_001)) == 3
    assert boosted(environment, 10_001) == boosted(environment, 20_000)
    assert boosted(environment, 20_001) == ()


def test_blips():
    """Short epochs, of the same draws as long ones."""
    blips, epochs = (Abrupt({"q": BASE}, k=3, period=97, n_boosted=1, boosted_for=n) for n in (3, None))
    assert blips.breakpoints(300) == [97, 100, 197, 200, 297]
    assert [t for t in range(1, 201) if boosted(blips, t)] == [98, 99, 100, 198, 199, 200]
    assert [boosted(blips, 100 * n + 98) for n in range(5)] == [boosted(epochs, 194 * n + 98) for n in range(5)]


def test_best_list_of_a_perturbed_epoch(environment):
    assert environment.best(1) == [1, 4, 7]
    assert set(environment.best(10_001)) == set(boosted(environment, 10_001))


def test_draws_differ_by_epoch_run_query_and_seed():
    environment = Abrupt({"q": BASE, "r": BASE}, k=3, period=10)
    assert len({boosted(environment, 20 * n + 11) for n in range(40)}) > 10
    assert len({boosted(environment, 11, run=run) for run in range(40)}) > 10
    assert len({boosted(environment, 11, seed=seed) for seed in range(40)}) > 10
    pairs = [(boosted(environment, 11, run=run), boosted(environment, 11, query=1, run=run)) for run in range(40)]
    assert sum(one != other for one, other in pairs) > 30


def test_the_same_whenever_asked_and_however_long_the_run():
    """Nothing depends on the policy, or on what was asked before."""
    fresh = [Abrupt({"q": BASE}, k=3, period=10) for _ in range(2)]
    late_first = [boosted(fresh[0], t, run=4) for t in (71, 31, 11)]
    assert late_first == [boosted(fresh[1], t, run=4) for t in (11, 31, 71)][::-1]
    long, short = fresh[0].stretches(1000)[1], fresh[0].stretches(55)[1]
    np.testing.assert_array_equal(long[:6], short)


def test_boosted_items_are_uniform_and_pairs_are_too():
    environment = Abrupt({"q": BASE}, k=3, period=1)
    _, alphas, _ = environment.stretches(20_000)
    chosen = alphas[1::2] == 0.9  # the perturbed epochs
    assert (chosen.sum(axis=1) == 3).all()
    others = [a for a in range(10) if a not in TOP]
    assert not chosen[:, list(TOP)].any()
    counts = chosen[:, others].sum(axis=0)
    # drawn without replacement, counts vary less than a chi-square supposes, by 1 - 3/7 over 6/7
    spread = ((counts - counts.mean()) ** 2).sum() / counts.mean()
    assert stats.chi2(6).sf(spread / ((1 - 3 / 7) * 7 / 6)) > 1e-3
    _, triples = np.unique(chosen, axis=0, return_counts=True)
    assert len(triples) == 35
    assert stats.chisquare(triples).pvalue > 1e-3


def test_uniform_over_runs():
    environment = Abrupt({"q": BASE}, k=3, period=10)
    counts = np.zeros(10)
    for run in range(700):
        counts[list(boosted(environment, 11, run=run))] += 1
    expected = 700 * 3 / 7
    others = [a for a in range(10) if a not in TOP]
    assert abs(counts[others] - expected).max() < 4.5 * np.sqrt(700 * 3 / 7 * 4 / 7)


def test_neighbouring_epochs_are_independent():
    environment = Abrupt({"q": BASE}, k=3, period=1)
    chosen = (environment.stretches(20_000)[1][1::2] == 0.9).astype(float)
    for a in (0, 2, 9):
        assert abs(np.corrcoef(chosen[:-1, a], chosen[1:, a])[0, 1]) < 5 / np.sqrt(len(chosen))


def test_a_boost_that_some_item_has_already():
    environment = Abrupt([[0.9, 0.5, 0.9, 0.1, 0.2]], k=1, period=10, boost=0.9, n_boosted=2)
    seen = set()
    for run in range(30):
        alpha = environment.attraction(11, run=run)
        assert alpha[0] == 0.9
        assert (alpha == 0.9).sum() in (3, 4)  # item 2 has it by default, and may be one of the two
        seen.add(tuple(alpha))
    assert len(seen) == 6  # any two of the four
    assert environment.best(11) == [0]


def test_ties_in_the_default():
    """Of equally attractive items those with the smaller index are the best ones, here as in the best list."""
    environment = Abrupt([[0.5] * 5], k=2, period=10, n_boosted=3)
    for run in range(5):
        assert environment.best(1, run=run) == [0, 1]
        assert boosted(environment, 11, run=run) == (2, 3, 4)


def test_a_boost_below_the_rest():
    environment = Abrupt([[0.5, 0.4, 0.3, 0.2]], k=2, period=10, boost=0.0, n_boosted=2)
    assert environment.attraction(11).tolist() == [0.5, 0.4, 0.0, 0.0]
    assert environment.attraction(21).tolist() == [0.5, 0.4, 0.3, 0.2]


def test_queries_of_different_length():
    environment = Abrupt({"long": BASE, "short": [0.5, 0.4, 0.3, 0.2, 0.1]}, k=2, period=10, n_boosted=3)
    assert environment.attraction(11, "short").tolist() == [0.5, 0.4, 0.9, 0.9, 0.9]
    assert len(environment.attraction(11, "long")) == 10
    assert (environment.attraction(11, "long") == 0.9).sum() == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"period": 0}, "period=0"),
        ({"period": 1.5}, "period=1.5"),
        ({"boosted_for": 0}, "boosted_for=0"),
        ({"boost": 1.1}, "boost=1.1"),
        ({"boost": float("nan")}, "boost=nan"),
        ({"n_boosted": 0}, "n_boosted=0"),
        ({"n_boosted": 8}, "n_boosted=8: query 'q' has only 7 items outside its top 3"),
        ({"k": 8}, "n_boosted=3: query 'q' has only 2 items outside its top 8"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(ValueError, match=message):
        Abrupt({"q": BASE}, **{"k": 3, **change})


def test_real_queries(yandex40):
    environment = Abrupt(yandex40, k=3)
    assert len(environment.names) == 40
    for name in environment.names[:10]:
        base = yandex40[name]
        top = set(np.argsort(-base, kind="stable")[:3].tolist())
        changed = np.flatnonzero(environment.attraction(10_001, name) != base)
        assert len(changed) == 3
        assert not top & set(changed.tolist())
        assert environment.optimal_value(10_001, name) == pytest.approx(0.999)  # none is as good as 0.9 by default
