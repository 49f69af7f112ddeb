"""The compiled shared model equals the interpreted one to the last bit."""

from __future__ import annotations

import dataclasses
from types import FunctionType

import pytest

from driftrank.policies.contract.worlds import clicks_of, users
from driftrank.policies.learner import templates
from driftrank.policies.learner.shared_model import SharedModel
from driftrank.policies.regime.prior_regime_ts import PriorRegimeTS

pytestmark = pytest.mark.compiled


def _interpreted(compiled):
    """The same policy with its kernels called as plain Python."""
    steps = {
        name: FunctionType(template.__code__, {**vars(templates), **compiled.bindings}, name)
        for name, template in vars(templates).items()
        if name.endswith("_step")
    }
    return dataclasses.replace(compiled, compiled=steps)


def test_compiled_equals_interpreted():
    policy = PriorRegimeTS(hash_bits=6)
    models = [SharedModel(policy), SharedModel(policy)]
    models[1].compiled = _interpreted(models[1].compiled)
    learners = [policy.start((), 3, slots=3, seed=1, query="q", shared=model) for model in models]
    order = ["ant", "bee", "cat", "dog", "elk", "fox"]
    dense = {item: [len(item) + n, -0.5 * n] for n, item in enumerate(order)}
    for n, user in enumerate(users(200)):
        described = {
            "dense": dense,
            "crosses": ["t", "u"][: n % 3],
            "features": {item: {"legs": 4 * (item != "ant"), "first": item[0]} for item in order} if n % 7 else None,
            "context": {"hour": n % 24, "day": str(n % 5)} if n % 4 else None,
            "scores": {item: 1.0 / len(item) + n for n, item in enumerate(order)} if n % 6 else None,
        }
        rankings = [learner.rank(order[n % 3 :], ordered=n % 5 > 0, **described) for learner in learners]
        assert rankings[0] == rankings[1]
        assert rankings[0].memo.tobytes() == rankings[1].memo.tobytes()
        for learner, ranking in zip(learners, rankings, strict=True):
            learner.update(ranking, clicks_of(ranking, user))
    assert models[0].to_bytes() == models[1].to_bytes()
    assert learners[0].to_bytes() == learners[1].to_bytes()
