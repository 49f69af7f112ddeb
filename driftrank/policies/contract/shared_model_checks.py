"""Checks of policies with a shared model; others pass them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from driftrank.contracts import require
from driftrank.policies.base import Policy, RankingProblem
from driftrank.policies.contract.steps import bits, state_bits
from driftrank.policies.contract.worlds import ITEMS, clicks_of, users
from driftrank.policies.learner.compiled_policy import CompiledPolicy
from driftrank.policies.learner.described import describe
from driftrank.policies.learner.learner import Learner
from driftrank.policies.learner.ranked_items import RankedItems
from driftrank.policies.learner.shared_model import SharedModel

#: the queries that share a model
_QUERIES = ("q", "r")


def check_prior_is_pure(policy: Policy) -> None:
    """The shared model, if there is one, gives every item a proper prior, and is not changed by that."""
    if not _shares(policy):
        return
    model = SharedModel(policy)
    for query, ranking, clicks in _traffic(policy, model, 60):
        before = model.to_bytes()
        for ordered in (True, False):
            prior, again = (model.prior(describe(query, ITEMS, ordered=ordered, **_described(7))) for _ in range(2))
            require(bits(prior.counts) == bits(again.counts), "two calls gave different priors")
            proper = np.isfinite(prior.counts).all() and (prior.counts > 0).all()
            require(bool(proper), f"not a proper prior: {prior.counts.tolist()}")
            require(0 <= prior.going_on <= 1, f"users go on with probability {prior.going_on:g}")
        require(model.to_bytes() == before, "giving a prior changed the model")
        model.learn(ranking, clicks)


def check_folds_are_independent(policy: Policy) -> None:
    """Learners that were only given the priors, and a model that was only given the lists, end as both together do."""
    if not _shares(policy):
        return
    model, alone = SharedModel(policy), SharedModel(policy)
    together, apart = ({q: _open(policy, q) for q in _QUERIES} for _ in range(2))
    for learner in together.values():
        learner.shared = model
    lists = []
    for n, user in enumerate(users(200)):
        query = _QUERIES[n % len(_QUERIES)]
        known = _described(n) if n % 3 else {}
        ranking = together[query].rank(ITEMS, **known)
        other = apart[query].rank(ITEMS, prior=model.prior(describe(query, ITEMS, **known)))
        require(ranking == other, f"{ranking}, but {other} with the prior alone")
        clicks = clicks_of(ranking, user)
        together[query].update(ranking, clicks)
        apart[query].update(other, clicks)
        lists.append((ranking, clicks))
    for ranking, clicks in lists:
        alone.learn(ranking, clicks)
    require(alone.to_bytes() == model.to_bytes(), "replayed from its lists, the shared model differs")
    for query in _QUERIES:
        same = state_bits(apart[query]) == state_bits(together[query])
        require(same, "with the priors alone, a query's state differs")


def check_state_of_observed_items_suffices(policy: Policy) -> None:
    """With a shared model, a learner that knows no items at first makes the lists of one that knows all."""
    if not _shares(policy):
        return
    models = SharedModel(policy), SharedModel(policy)
    some, every = _open(policy, "q"), policy.start(ITEMS, 2, seed=7, query="q", slots=len(ITEMS))
    some.shared, every.shared = models
    for user in users(200):
        shown, other = some.rank(ITEMS), every.rank(ITEMS)
        require(shown == other, f"step {some.steps + 1}: {shown}, but {other} if all items have a state")
        some.update(shown, clicks_of(shown, user))
        every.update(other, clicks_of(other, user))
    require(set(some.items) <= set(ITEMS), "it has a state of items that were never candidates")


def _described(n: int) -> dict[str, Any]:
    """All that may be known of the items of a request and of the request, number ``n``."""
    return {
        "crosses": ["token"],
        "features": [{"kind": str(i % 2), "size": float(i * n)} for i in range(len(ITEMS))],
        "context": {"day": str(n % 7), "hour": n % 24},
        "scores": [float(i * i) for i in range(len(ITEMS))],
    }


def _shares(policy: Policy) -> bool:
    return CompiledPolicy.cached(policy, RankingProblem(len(ITEMS), 2, 1000, 1000)).shares


def _open(policy: Policy, query: str) -> Learner:
    """A learner that knows no items yet."""
    learner: Learner = policy.start((), 2, seed=7, query=query, slots=2)
    return learner


def _traffic(policy: Policy, model: SharedModel, steps: int) -> Iterable[tuple[str, RankedItems, list[int]]]:
    """Lists of some queries and their clicks, ranked with the prior of the model."""
    learners = {query: _open(policy, query) for query in _QUERIES}
    for n, user in enumerate(users(steps)):
        query = _QUERIES[n % len(_QUERIES)]
        ranking = learners[query].rank(ITEMS, prior=model.prior(describe(query, ITEMS)))
        clicks = clicks_of(ranking, user)
        yield query, ranking, clicks
        learners[query].update(ranking, clicks)
