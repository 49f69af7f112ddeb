from __future__ import annotations

import numpy as np
import pytest

import driftrank as dr
from driftrank.kernels.rng import key_of, policy_key, run_key
from driftrank.policies.base import RankingProblem
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.shared_model import Prior, SharedModel
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS
from tests.policies.streams import state
from tests.reference import reference_of
from tests.reference.compare import assert_same_lists
from tests.reference.shared_model import SharedModel as PlainModel


def prior_of(*pairs, going_on=1.0):
    """A prior by hand, for candidates in this order."""
    return Prior(np.array(pairs, float).ravel(), going_on, describe("q", range(len(pairs))))


POLICIES = [
    PriorRegimeTS(),
    PriorRegimeTS(stops=False, feedback="last", ties="random", early_sharpness=0.0),
    PriorRegimeTS(hypotheses=4, joint_every=1, regimes=0, feedback="all", explore_max=2, explore_from=2, sharpness=0.5),
    PriorRegimeTS(hazard_steps=20, vigilance=1, regimes=2, joint_every=5, comeback=0.5, change_mean=0.5),
    PriorRegimeTS(guard=True, early_sharpness=0.0, sharpness=0.3, explore_max=3),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.spec)
@pytest.mark.parametrize(("L", "K"), [(7, 3), (3, 3), (5, 1), (1, 1)])
def test_same_lists_as_the_plain_version(policy, L, K):
    assert_same_lists(policy, reference_of(policy), L=L, K=K, steps=500, seed=3)


class Traffic:
    """Lists of some queries over common items, whose attractions change at the half: users who may stop."""

    def __init__(self, queries=3, items=12, steps=900, seed=0):
        self.random = np.random.default_rng(seed)
        self.queries, self.items, self.steps = queries, items, steps
        self.alpha = self.random.beta(0.6, 2.0, (2, queries, items))

    def __iter__(self):
        for n in range(self.steps):
            order = [int(a) for a in self.random.permutation(self.items)]
            yield n, int(self.random.integers(self.queries)), order[: int(self.random.integers(4, self.items))]

    def clicks(self, n, query, shown):
        alpha = self.alpha[2 * n // self.steps, query]
        vector = [0] * len(shown)
        for i, a in enumerate(shown):
            if self.random.random() < alpha[a]:
                vector[i] = 1
                if self.random.random() < 0.6:
                    break
            elif self.random.random() < 0.15:
                break
        return vector


@pytest.mark.parametrize("policy", POLICIES[:1] + POLICIES[2:4], ids=lambda policy: policy.spec)
def test_same_traffic_as_the_plain_version(policy):
    """Learners that know no items at first and one shared model, against plain versions that have a state for all."""
    policy = policy.replace(hash_bits=8)
    traffic, k = Traffic(), 3
    model, plain_model = SharedModel(policy), PlainModel(8, stops=policy.stops)
    learners = [policy.start((), k, slots=k, seed=1, query=str(q), shared=model) for q in range(traffic.queries)]
    plain = [reference_of(policy)(traffic.items, k) for _ in learners]
    changes = 0
    for n, q, order in traffic:
        learner, other = learners[q], plain[q]
        t, key = learner.steps + 1, policy_key(run_key(1, str(q), 0), learner.steps + 1)
        query, place = key_of(str(q)), {a: i + 1 for i, a in enumerate(order)}
        ranking = learner.rank(order)
        prior = {a: plain_model.prior(query, a, place[a]) for a in order}
        users = plain_model.going_on, plain_model.after_click
        assert list(ranking) == other.rank(t, key, prior, users, order), f"list {n}"
        expected = [number for a, (S, looks), mean in zip(ranking, other.counts, other.means, strict=True)
                    for number in (*prior[a], S, looks, mean, other.going_on, other.after_click)]  # fmt: skip
        assert ranking.memo == pytest.approx(expected, rel=1e-6)
        clicks = traffic.clicks(n, q, ranking)
        learner.update(ranking, clicks)
        for a, y, (S, looks) in list(zip(ranking, clicks, other.counts, strict=True))[: other.read(clicks)]:
            if looks >= 0:
                plain_model.label(y, S, looks, query, a, place[a])
        plain_model.read(other.means, other.going_on, other.after_click, clicks, policy.feedback)
        other.update(t, list(ranking), clicks)
        assert set(learner.items) == other.seen
        changes = max(changes, other.changes)
    assert changes > 0
    assert model.views()["nu"] == pytest.approx([each.nu for each in plain_model.models], rel=1e-6)
    assert model.views()["reading"] == pytest.approx(plain_model.reading.skip + plain_model.reading.click, rel=1e-6)


def test_best_by_mean_in_the_callers_order():
    """Without draws that matter (a sharp prior), the list is the best by mean; equal means keep the order."""
    learner = PriorRegimeTS(explore_max=0).start(["a", "b", "c", "d"], 3, seed=0)
    assert learner.rank(["d", "c", "b", "a"]) == ["d", "c", "b"]
    prior = prior_of((1, 9), (3, 7), (1, 9), (2, 8))
    ranking = learner.rank(["d", "c", "b", "a"], prior=prior)
    assert ranking == ["c", "a", "d"]
    assert ranking.scores == pytest.approx([0.3, 0.2, 0.1])
    assert ranking.explored.tolist() == [False] * 3


def test_one_explorer_where_its_draw_puts_it():
    """Six items of equal means in a fixed order, one of them uncertain: it alone explores, at any place."""
    learner = PriorRegimeTS(early_sharpness=0.0).start(list("abcdef"), 3, seed=0)
    prior = prior_of((3000, 7000), (2000, 8000), (1500, 8500), (1000, 9000), (1000, 9000), (0.1, 0.9), going_on=0.0)
    places = {}
    for key in range(400):
        ranking = learner.rank(prior=prior, key=key)
        explored = [i for i, there in enumerate(ranking.explored) if there]
        assert len(explored) <= 1
        if explored:
            (i,) = explored
            assert ranking[i] == "f"
            assert [x for x in ranking if x != "f"] == ["a", "b"]
            draw = ranking.scores[i]
            assert all(score >= draw for score in ranking.scores[:i])
            assert all(score < draw for score in ranking.scores[i + 1 :])
            places[i] = places.get(i, 0) + 1
        else:
            assert ranking == ["a", "b", "c"]
    assert set(places) == {0, 1, 2}
    below = PriorRegimeTS(early_sharpness=0.0, explore_from=2).start(list("abcdef"), 3, seed=0)
    shown = [below.rank(prior=prior, key=key) for key in range(400)]
    assert {ranking.index("f") for ranking in shown if "f" in ranking} == {1, 2}
    assert sum("f" in ranking for ranking in shown) == sum(places.values())


@pytest.mark.parametrize(("going_on", "place"), [(1.0, 0), (0.5, 2)])
def test_one_explorer_where_a_look_costs_least(going_on, place):
    """Means .3, .2, .15 and an explorer of .1. Users who read on: the list is worth .524, and .496 with the explorer
    anywhere, who is seen with probability 1, .7, .56: a look costs .028, .04, .05. Users who stop after half of the
    items: .391, and .2665, .3665, .384; seen with probability 1, .35, .14: .1245, .07, .05.
    """
    learner = PriorRegimeTS(early_sharpness=0.0).start(list("abcd"), 3, seed=0)
    prior = prior_of((3000, 7000), (2000, 8000), (1500, 8500), (0.1, 0.9), going_on=going_on)
    shown = [learner.rank(prior=prior, key=key) for key in range(100)]
    assert {ranking.index("d") for ranking in shown if "d" in ranking} == {place}


def test_no_more_explorers_than_allowed():
    prior = prior_of(*[(3, 7)] * 3, *[(0.1, 0.9)] * 9)
    for most in (0, 1, 2):
        learner = PriorRegimeTS(early_sharpness=0.0, explore_max=most).start(range(12), 3, seed=0)
        counts = {int(learner.rank(prior=prior, key=key).explored.sum()) for key in range(200)}
        assert counts == set(range(most + 1))


def test_guard():
    """The caller's list has the largest means, so any explorer makes it worse: the guard shows none."""
    prior = prior_of((30, 70), (20, 80), (10, 90), (0.05, 0.95), (0.05, 0.95))
    learner = PriorRegimeTS(early_sharpness=0.0, guard=True).start(range(5), 3, seed=0)
    assert all(learner.rank(prior=prior, key=key) == [0, 1, 2] for key in range(100))
    # in the reversed order the caller's list is so bad that explorers are welcome
    reversed_prior = prior_of((0.05, 0.95), (0.05, 0.95), (10, 90), (20, 80), (30, 70))
    lists = [learner.rank(range(4, -1, -1), prior=reversed_prior, key=key) for key in range(200)]
    assert any(ranking.explored.any() for ranking in lists)


def test_a_young_query_is_not_explored():
    """c = 1.5 + 64/t: at step 1 draws are those of 65 times the counts."""
    prior = prior_of((0.6, 1.4), (0.5, 1.5), (0.4, 1.6), (0.4, 1.6))
    young = PriorRegimeTS().start(range(4), 2, seed=0)
    old = PriorRegimeTS().start(range(4), 2, seed=0)
    old.steps = 10_000
    explored = [
        sum(bool(each.rank(prior=prior, key=key).explored.any()) for key in range(500)) for each in (young, old)
    ]
    assert explored[0] < explored[1] / 2


def test_the_prior_moves():
    """Counts are pure data: another prior in a later call gives another estimate."""
    learner = PriorRegimeTS(stops=False).start(["a", "b"], 1, seed=0)
    for _ in range(10):
        learner.update(["a"], [0])
    assert learner.beliefs(prior=prior_of((5, 5), (1, 9)))["a"].estimate == pytest.approx(5 / 20, rel=0.05)
    found = learner.beliefs(prior=prior_of((50, 50), (1, 9)))
    assert found["a"].estimate == pytest.approx(50 / 110, rel=0.05)
    assert (found["b"].estimate, found["b"].prior, found["b"].strength) == pytest.approx((0.1, 0.1, 10))


def test_after_a_change_the_prior_is_another():
    """Fifty skips, then clicks: once the change is declared, the root has Beta(.2, .8) and teaches no one."""
    learner = PriorRegimeTS(stops=False, explore_max=0).start(["a", "b"], 1, seed=0)
    prior = prior_of((1, 9), (0.001, 9.999))
    for y in [0] * 50 + [1] * 6:
        ranking = learner.rank(["a", "b"], prior=prior)
        learner.update(ranking, [y])
    assert learner.alarm_count == 1
    assert state(learner)["stage"].tolist() == [2, 0]
    memo = learner.rank(["a", "b"], prior=prior).memo
    assert memo[3] == -1
    assert learner.beliefs(prior=prior)["a"].estimate > 0.6


def test_only_observed_items_have_a_state():
    policy = PriorRegimeTS(hash_bits=8)
    learner = policy.start((), 3, slots=3, seed=0, shared=SharedModel(policy))
    order = [f"item{i}" for i in range(50)]
    ranking = learner.rank(order)
    assert ranking == order[:3]
    learner.update(ranking, clicks=2)
    assert learner.items == order[:2]
    ranking = learner.rank(order)
    assert ranking.described.place.tolist() == [order.index(item) + 1 for item in ranking]
    beliefs = learner.beliefs(order)
    assert list(beliefs) == order
    assert beliefs["item2"].estimate == beliefs["item2"].prior
    assert learner.greedy(order, 2)[0] in order[:2]
    again = Learner.from_bytes(learner.to_bytes())
    again.shared = learner.shared
    assert again.rank(order) == learner.rank(order)
    with pytest.raises(ValueError, match="not among"):
        policy.start(["a", "b"], 1).rank(["c"])


def test_folds_are_independent():
    """A learner given the priors only, and a model given the lists only, end where both together do."""
    policy = PriorRegimeTS(hash_bits=8)
    together, alone = SharedModel(policy), SharedModel(policy)
    learner = policy.start((), 3, slots=3, seed=0, query="q", shared=together)
    apart = policy.start((), 3, slots=3, seed=0, query="q")
    traffic, records = Traffic(queries=1, steps=300), []
    for n, q, order in traffic:
        ranking = learner.rank(order)
        prior = together.prior(describe("q", order))
        assert apart.rank(order, prior=prior) == ranking
        clicks = traffic.clicks(n, q, ranking)
        records.append((ranking, clicks))
        learner.update(ranking, clicks)
        apart.update(ranking, clicks)
    for ranking, clicks in records:
        alone.learn(ranking, clicks)
    assert alone.to_bytes() == together.to_bytes()
    assert apart.to_bytes() == learner.to_bytes()


def test_two_hundred_candidates_take_less_than_60_kilobytes():
    """A caller's order that is roughly right, 1,000 lists of ten, users who go on with probability .85."""
    policy = PriorRegimeTS(hash_bits=8)
    learner = policy.start((), 10, slots=10, seed=0, shared=SharedModel(policy))
    random = np.random.default_rng(0)
    alpha = (0.305 * np.exp(-np.arange(200) / 12) + 0.005)[np.argsort(np.arange(200) + 18 * random.normal(size=200))]
    order = [f"item{i:03}" for i in range(200)]
    for _ in range(1000):
        ranking = learner.rank(order)
        clicked = None
        for item in ranking:
            if random.random() < alpha[int(item[4:])]:
                clicked = item
                break
            if random.random() > 0.85:
                break
        learner.update(ranking, clicked)
    assert len(learner.items) <= policy.most_items
    assert learner.nbytes < 60_000


def test_it_is_the_default():
    assert dr.default_policy() == PriorRegimeTS()


@pytest.mark.slow
def test_simulated_alone(yandex40):
    """In the paper's world, without an order or a shared model."""
    env = dr.environments.Abrupt(yandex40, k=3)
    result = dr.simulate(["PriorRegimeTS", "CascadeSWUCB"], env, horizon=10_000, checkpoints=1, progress=False)
    assert result.regret("PriorRegimeTS") < 0.3 * result.regret("CascadeSWUCB")


@pytest.mark.parametrize(("L", "K"), [(10, 3), (50, 5)])
def test_state_has_the_documented_size(L, K):
    M, G = 8, 4
    compiled = CompiledPolicy.of(PriorRegimeTS(hash_bits=6), RankingProblem(L, K))
    assert compiled.layout.sizes == (5 * L * (M + 1) + 2 * L + 2 * G * L + 3 * G + 76, 2 * L + 68)
    assert 15 * 2**6 < compiled.shared_layout.sizes[0] < 15 * 2**6 + 600


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("change_mean", 0), ("change_mean", 1), ("sharpness", 0), ("early_sharpness", -1), ("vigilance", -0.1),
        ("explore_max", -1), ("explore_from", 0), ("hypotheses", 1), ("hash_bits", 0), ("hash_bits", 30), ("dense", -1),
        ("most_items", 0),
        ("ties", "index"), ("feedback", "none"), ("stops", 2), ("guard", "yes"), ("regimes", -1), ("comeback", 2),
    ],
)  # fmt: skip
def test_bad_values_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        PriorRegimeTS(**{name: value})


def test_what_is_not_there_is_refused():
    learner = PriorRegimeTS().start(["a", "b"], 1)
    with pytest.raises(ValueError, match="prior: of 1 items, there are 2 candidates"):
        learner.rank(prior=prior_of((1, 1)))
    with pytest.raises(ValueError, match="crosses: must not be given to a learner without a shared model"):
        learner.rank(crosses=["t"])
    with pytest.raises(ValueError, match="prior: CascadeTS has no shared model"):
        dr.CascadeTS().start(["a", "b"], 1).rank(prior=prior_of((1, 1), (1, 1)))
    with pytest.raises(ValueError, match="shared: the model of PriorRegimeTS:hash_bits=4, not of PriorRegimeTS"):
        PriorRegimeTS().start(["a", "b"], 1, shared=SharedModel(PriorRegimeTS(hash_bits=4)))
