"""PDGD and DBGD: by hand, against their plain versions, and with features."""

from __future__ import annotations

import numpy as np
import pytest

from driftrank.policies.contextual.dbgd import DBGD
from driftrank.policies.contextual.linear_ranker import LinearRanker
from driftrank.policies.contextual.pdgd import PDGD
from tests.policies.streams import state
from tests.reference.compare import assert_same_lists
from tests.reference.dbgd import DBGD as PlainDBGD
from tests.reference.pdgd import PDGD as PlainPDGD
from tests.reference.pdgd import probability

FEATURES = np.array([[1.0, 0.2], [0.5, -1.0], [-0.3, 0.4], [0.0, 1.0], [0.7, 0.7]])


@pytest.mark.parametrize(
    ("policy", "plain"),
    [(PDGD(), PlainPDGD), (PDGD(rate=0.5, ties="index"), PlainPDGD), (DBGD(rate=0.1), PlainDBGD), (DBGD(), PlainDBGD)],
    ids=lambda value: getattr(value, "spec", ""),
)
@pytest.mark.interpreted
def test_same_lists_as_the_plain_version(policy: LinearRanker, plain: type) -> None:
    own = {"rate": policy.rate, "ties": policy.ties}
    assert_same_lists(policy, lambda L, K, horizon: plain(L, K, horizon, **own), L=6, K=3, steps=150)
    learner = policy.start(range(5), 3, features=FEATURES, seed=3)
    other = plain(5, 3, features=FEATURES, **own)
    rng = np.random.default_rng(0)
    for t in range(1, 120):
        ranking = learner.rank(key=t)
        assert list(ranking) == other.rank(t, t)
        clicks = (rng.random(3) < [0.6 if a in (0, 4) else 0.2 for a in ranking]).astype(int).tolist()
        learner.update(ranking, clicks)
        other.update(t, list(ranking), clicks)
        assert state(learner)["theta"] == pytest.approx(other.theta, rel=1e-9, abs=1e-12)


@pytest.mark.interpreted
def test_a_step_of_pdgd_by_hand() -> None:
    """Three items with weights 1, 1, 1; the list (0, 1) with a click on 1.

    P(0, 1) = 1/3 1/2 = P(1, 0), so rho = 1/2; the slope of the pair is 1/4; the step 0.1 / 8.
    """
    learner = PDGD().start(range(3), 2)
    key = next(k for k in range(100) if list(learner.rank(key=k)) == [0, 1])
    ranking = learner.rank(key=key)
    assert ranking.propensities == pytest.approx([1 / 3, 1 / 2])
    learner.update(ranking, [0, 1])
    assert list(learner.scores().values()) == pytest.approx([-0.0125, 0.0125, 0])
    # a click on top: the item next below was seen; with no click nothing is known
    learner.update(ranking, [0, 0])
    learner.update(ranking, [1, 1])
    assert list(learner.scores().values()) == pytest.approx([-0.0125, 0.0125, 0])
    learner.update(ranking, [1, 0])
    assert list(learner.scores().values()) == pytest.approx([0, 0, 0], abs=1e-15)


@pytest.mark.interpreted
def test_weights_of_preferences_by_hand() -> None:
    """Weights 4, 2, 1, 1; the list (0, 1, 2), a click at the end.

    P(0, 1, 2) = 4/8 2/4 1/2 = 1/8. With 0 and 2 exchanged 1/8 2/7 4/5 = 1/35, so rho = 8/43; with 1 and 2 exchanged
    4/8 1/4 2/3 = 1/12, so rho = 2/5. Slopes: 1 * 4 / 25 and 1 * 2 / 9.
    """
    learner = PDGD(rate=1.0).start(range(4), 3)
    state(learner)["theta"][:] = np.log([4, 2, 1, 1])
    key = next(k for k in range(1000) if list(learner.rank(key=k)) == [0, 1, 2])
    ranking = learner.rank(key=key)
    assert ranking.propensities == pytest.approx([1 / 2, 1 / 2, 1 / 2])
    assert ranking.propensity == pytest.approx(probability(np.log([4, 2, 1, 1]), [0, 1, 2]))
    learner.update(ranking, [0, 0, 1])
    down, less = 8 / 43 * 4 / 25, 2 / 5 * 2 / 9
    moved = np.array(list(learner.scores().values())) - np.log([4, 2, 1, 1])
    assert moved == pytest.approx([-down, -less, down + less, 0])


@pytest.mark.interpreted
def test_late_feedback_counts_as_of_its_list() -> None:
    """The gradient is that of the scores with which the list was made."""
    early, late = (PDGD(rate=0.5).start(range(5), 3, features=FEATURES) for _ in range(2))
    first, second = early.rank(key=1), early.rank(key=2)
    early.update(first, [0, 0, 1])
    early.update(second, [0, 1, 0])
    late.update(second, [0, 1, 0])
    late.update(first, [0, 0, 1])
    assert state(early)["theta"] == pytest.approx(state(late)["theta"], rel=1e-12)


@pytest.mark.interpreted
def test_a_duel_by_hand() -> None:
    """The ranker whose items are clicked more often wins; a draw changes nothing."""
    learner = DBGD(rate=0.5).start(range(5), 2, features=FEATURES)
    ranking = learner.rank(key=11)
    teams = np.array(ranking.memo).reshape(2, 2)[:, 0]
    assert sorted(teams) == [0, 1]
    for clicks in ([0, 0], [1, 1], (teams == 0).astype(int).tolist()):
        learner.update(ranking, clicks)
        assert state(learner)["theta"].tolist() == [0, 0]
    learner.update(ranking, (teams == 1).astype(int).tolist())
    assert np.sqrt((state(learner)["theta"] ** 2).sum()) == pytest.approx(0.5)
    before = state(learner)["theta"].copy()
    learner.update(list(ranking), [1, 0])  # not a duel
    assert (state(learner)["theta"] == before).all()


@pytest.mark.interpreted
@pytest.mark.parametrize("policy", [PDGD(), DBGD(rate=0.1)], ids=lambda p: type(p).__name__)
def test_what_is_learnt_holds_for_other_queries(policy: LinearRanker) -> None:
    """One learner for two queries whose documents differ: the feature that attracts is found."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(20, 3))
    learner = policy.start(range(20), 3, features=features, seed=1)
    attraction = 1 / (1 + np.exp(2 - 2 * features[:, 0]))
    for t in range(600):
        candidates = list(range(10)) if t % 2 else list(range(10, 15))
        ranking = learner.rank(candidates)
        learner.update(ranking, (rng.random(3) < attraction[list(ranking)]).astype(int).tolist())
    theta = state(learner)["theta"]
    assert theta[0] > 1.3 * np.abs(theta[1:]).max()
    unseen = np.array([learner.scores()[a] for a in range(15, 20)])
    assert np.corrcoef(unseen, features[15:, 0])[0, 1] > 0.8


@pytest.mark.parametrize("wrong", ["PDGD:rate=0", "DBGD:delta=0", "DBGD:rate=-1"])
def test_bad_parameters(wrong: str) -> None:
    from driftrank.policies.registry import parse_policy

    with pytest.raises(ValueError, match=wrong.partition(":")[2].partition("=")[0]):
        parse_policy(wrong)
