"""The contract of environments, as functions that can be run on an environment of your own.

Run all of it at once, ``check_environment(MyWorld([[0.5, 0.2, 0.1]], k=2))``, or let pytest show every check as a
test::

    import pytest
    from driftrank.environments.checks import CHECKS
    from mine import MyWorld

    @pytest.mark.parametrize("check", CHECKS)
    def test_contract(check):
        CHECKS[check](MyWorld([[0.5, 0.2, 0.1]], k=2))

Give it short times (a period of 30 steps, say), since the first 300 steps are looked at. A failed check raises
``AssertionError`` with environment, check and reason.
"""

from __future__ import annotations

import dataclasses
import math
import pickle
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftrank.clickmodels import PBM
from driftrank.contracts import checks_in, require
from driftrank.environments.base import Environment
from driftrank.kernels.rng import run_keys, world_keys

#: steps that are looked at
STEPS = 300
#: the kinds of change that a policy may claim to handle
KINDS = ("stationary", "abrupt", "drift")
#: parameters that every environment has, which are checked elsewhere
_GENERAL = ("queries", "k", "click_model")


def check_environment(environment: Environment) -> None:
    """Run every check.

    >>> from driftrank.environments import Stationary
    >>> check_environment(Stationary([[0.5, 0.2, 0.1]], k=2))
    """
    if not isinstance(environment, Environment):
        raise ValueError(f"environment={environment!r}: must be an environment object, such as Abrupt(queries, k=3)")
    if environment.traffic:
        raise ValueError(f"environment={type(environment).__name__}: must be one of single queries, not of traffic")
    for check in CHECKS.values():
        check(environment)


def check_world_writes_every_item(environment: Environment) -> None:
    """The kernel writes all of ``alpha``, changes nothing else, and returns a later step.

    This runs in Python, before anything that is compiled and would not notice.
    """
    p = environment.program.bindings["PARAMETERS"](environment.program.row)
    for query, run in _runs(environment):
        base, key = environment.given(query), _key(environment, query, run)
        before = base.copy()
        for t in (1, 2, 17, STEPS):
            alpha = np.full(len(base), math.nan)
            until = type(environment).world(p, base, key, t, alpha)
            unwritten = np.flatnonzero(np.isnan(alpha))
            require(not len(unwritten), f"step {t}: items {unwritten.tolist()} get no attraction")
            require(until == int(until) and until > t, f"step {t}: returns {until}, must return a later step")
            require(bool((base == before).all()), f"step {t}: base was changed")


def check_attraction_is_probability(environment: Environment) -> None:
    """Every item has an attraction in [0, 1] at every step, in every run."""
    for query, run in _runs(environment):
        alphas = environment.stretches(STEPS, query, run)[1]
        L = len(environment.queries[query])
        require(alphas.shape[1] == L, f"query {query!r}: {alphas.shape[1]} items have an attraction, there are {L}")
        good = bool(np.isfinite(alphas).all() and alphas.min() >= 0 and alphas.max() <= 1)
        require(good, f"query {query!r}, run {run}: attraction from {alphas.min():g} to {alphas.max():g}")


def check_steps_may_come_in_any_order(environment: Environment) -> None:
    """A step on its own is the same as in its turn: nothing is remembered, and no change comes before it is due."""
    for query, run in _runs(environment):
        unrolled = _unrolled(environment, query, run)
        for t in (*range(1, STEPS + 1, 7), STEPS, 1):
            alone = environment.attraction(t, query, run)
            require(
                alone.tolist() == unrolled[t - 1].tolist(),
                f"query {query!r}, run {run}: step {t} is {alone.tolist()} on its own, {unrolled[t - 1].tolist()} in "
                "its turn; world must return the next step at which it may differ",
            )


def check_compiled_as_in_python(environment: Environment) -> None:
    """The compiled kernel gives the numbers of the Python function, to the last bit."""
    p = environment.program.bindings["PARAMETERS"](environment.program.row)
    for query, run in _runs(environment):
        base, unrolled = environment.given(query), _unrolled(environment, query, run)
        for t in (1, 50, STEPS):
            alpha = np.zeros(len(base))
            type(environment).world(p, base, _key(environment, query, run), t, alpha)
            require(alpha.tolist() == unrolled[t - 1].tolist(), f"step {t}: differs between Python and compiled code")


def check_same_seed_same_world(environment: Environment) -> None:
    """An equal environment has the same world: randomness comes from ``key`` only."""
    twin = dataclasses.replace(environment)
    for query, run in _runs(environment):
        for seed in (0, 5):
            worlds = [each.stretches(STEPS, query, run, seed) for each in (environment, twin)]
            same = all(bool(np.array_equal(one, other)) for one, other in zip(*worlds, strict=True))
            require(same, f"query {query!r}, run {run}, seed {seed}: two equal environments differ")


def check_kind_is_true(environment: Environment) -> None:
    """``kind`` is one that policies know, and only a stationary environment never changes."""
    require(environment.kind in KINDS, f"kind={environment.kind!r}: must be one of {', '.join(KINDS)}")
    changed = any(environment.variation(STEPS, query, run) > 0 for query, run in _runs(environment))
    if environment.kind == "stationary":
        require(not changed, "it is called stationary, and changes")
    else:
        require(changed, f"it is called {environment.kind}, and does not change in {STEPS} steps")


def check_best_list_is_best(environment: Environment) -> None:
    """The best list consists of present items, and no other list that was tried is worth more."""
    generator = np.random.default_rng(0)
    for query, run in _runs(environment):
        users = environment.users(query)
        for t in (1, 100, STEPS):
            alpha, present = environment.attraction(t, query, run), environment.present(t, query, run)
            best, optimal = environment.best(t, query, run), environment.optimal_value(t, query, run)
            require(
                math.isclose(users.reward(alpha, best), optimal, abs_tol=1e-12), f"step {t}: {best} is not {optimal:g}"
            )
            for _ in range(20):
                other = generator.permutation(present)[: environment.k].tolist()
                if len(other) == environment.k:
                    require(users.reward(alpha, other) <= optimal + 1e-12, f"step {t}: {other} is better than {best}")


def check_items_come_and_go(environment: Environment) -> None:
    """If items come and go: they are 0, 1 or 2, absent ones attract nobody, and enough are present."""
    if not environment.churns:
        return
    for query, run in _runs(environment):
        found = environment.unroll(1, STEPS, query, run, 0)
        require(set(np.unique(found.live).tolist()) <= {0, 1, 2}, "live must write 0, 1 or 2")
        require(not found.alphas[found.live == 0].any(), "an absent item has an attraction above 0")
        fewest = int((found.live > 0).sum(axis=1).min())
        require(fewest >= environment.k, f"only {fewest} items are present, k={environment.k}")


def check_takes_other_click_models(environment: Environment) -> None:
    """With another click model, attraction is the same and the best list is that model's."""
    model = PBM(examination=tuple(0.9**k for k in range(environment.k)))
    other = dataclasses.replace(environment, click_model=model)
    for query, run in _runs(environment):
        alpha = other.attraction(100, query, run)
        require(
            alpha.tolist() == environment.attraction(100, query, run).tolist(), "the click model changes attraction"
        )
        value = model.reward(alpha, model.best(alpha, other.k))
        require(math.isclose(other.optimal_value(100, query, run), value, abs_tol=1e-12), "click_model is not used")


def check_copies_are_equal(environment: Environment) -> None:
    """A copy and a pickled copy are equal to it; a class that processes cannot import is not pickled."""
    require(dataclasses.replace(environment) == environment, "a copy is not equal to it")
    try:
        packed = pickle.dumps(environment)
    except (pickle.PicklingError, AttributeError):
        return
    require(pickle.loads(packed) == environment, "a pickled copy is not equal to it")


def check_bad_values_are_refused(environment: Environment) -> None:
    """An invalid value of a parameter raises a ``ValueError`` that names it."""
    hints = typing.get_type_hints(type(environment))
    for field in dataclasses.fields(environment):
        kinds = typing.get_args(hints[field.name]) or (hints[field.name],)
        if field.name in _GENERAL or not {int, float} & set(kinds):
            continue
        for value in ("nonsense", math.nan, -math.inf):
            changed: dict[str, Any] = {field.name: value}
            try:
                dataclasses.replace(environment, **changed)
            except ValueError as error:
                named = field.name in str(error)
                require(named, f"{field.name}={value!r} is refused without naming {field.name}: {error}")
            else:
                raise AssertionError(f"{field.name}={value!r} is accepted")


def _runs(environment: Environment) -> Iterator[tuple[str, int]]:
    """Some queries and runs."""
    for query in environment.names[:2]:
        for run in (0, 1):
            yield query, run


def _key(environment: Environment, query: str, run: int) -> Any:
    return world_keys(run_keys(0, query, [run]))[0]


def _unrolled(environment: Environment, query: str, run: int) -> NDArray[np.float64]:
    """The attraction at every step."""
    starts, alphas, _ = environment.stretches(STEPS, query, run)
    return alphas.repeat(np.diff(np.append(starts, STEPS + 1)), axis=0)


#: every check, by name
CHECKS: dict[str, Callable[[Environment], None]] = checks_in(
    globals(), "check_environment", lambda environment: type(environment).__name__
)
