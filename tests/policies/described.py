"""Items with features, for tests of the policies that look at them."""

from __future__ import annotations

import dataclasses

import numpy as np

from driftrank.kernels.rng import policy_key, run_key
from tests.reference import references


def random_features(L, d, seed=0):
    """Unit vectors; some of their numbers are 0."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(L, d)) * (generator.random((L, d)) < 0.8)
    x[:, 0] += 1.0
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def plain_version(policy, L, K, features, horizon=None):
    parameters = {f.name: getattr(policy, f.name) for f in dataclasses.fields(policy)}
    return references()[type(policy).__name__](L, K, horizon, features=features, **parameters)


def together(policy, L=12, K=3, d=4, steps=300, told=True, seed=0):
    """A learner and its plain version after the same users, with the same lists at every step."""
    features, horizon = random_features(L, d, seed), steps if told else None
    learner = policy.start(range(L), K, features=features, seed=seed, horizon=horizon)
    plain = plain_version(policy, L, K, features, horizon)
    generator = np.random.default_rng(seed)
    attraction = np.clip(features @ generator.normal(size=d), 0.02, 0.9)
    for t in range(1, steps + 1):
        ranking = learner.rank()
        assert list(ranking) == plain.rank(t, policy_key(run_key(seed, "", 0), t)), t
        clicks = [int(u < attraction[a]) for u, a in zip(generator.random(K), ranking, strict=True)]
        learner.update(ranking, clicks)
        plain.update(t, ranking, clicks)
    return learner, plain


def symmetric(upper):
    """A matrix of which the upper triangle is kept."""
    assert not np.tril(upper, -1).any()
    return upper + np.triu(upper, 1).T
